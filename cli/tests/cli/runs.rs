//! `parallax run` and related commands with a mesh of one machine.

use std::{process::Output, time::Instant};

use parallax_test_support::closed_port::ClosedTcpPort;
use serde_json::Value;

use crate::{
    commands::{config, parallax, text},
    up::{Server, Up},
};

fn ask(up: &Up, args: &[&str]) -> Output {
    parallax()
        .args(args)
        .args(["--server", &format!("http://{}/", up.page)])
        .output()
        .unwrap()
}

fn mesh(url: &str, more: &str) -> (tempfile::TempDir, Up) {
    let (folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 1000\ntimeoutMs: 500\ntargets:\n  - url: {url}\n{more}"
    ));
    let up = Up::start(&path);
    (folder, up)
}

const HERE: &str = "runs: {allow: [127.0.0.0/8]}\n";

#[test]
fn a_run_of_a_target_that_answers_ends_with_0_and_its_first_probe_comes_within_200_ms() {
    let server = Server::start();
    let url = format!("http://{}/", server.address);
    let (_folder, mut up) = mesh(&url, HERE);
    up.until("1 of 1 vantages report  ✓ 1 ok");
    let output = ask(&up, &["run", &url, "--rounds", "2"]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}{}", text(&output.stderr));
    assert!(
        stdout.starts_with(&format!("✓ {url}: all 2 probes succeeded, from 1 vantage")),
        "{stdout}"
    );
    assert!(!stdout.contains('\u{1b}'), "no colour without a terminal");
    // Every run prints the time that has a budget; the test prints it without asserting it.
    println!("{}", stdout.lines().nth(1).unwrap());
    let output = ask(&up, &["run", &url, "--rounds", "1", "--json"]);
    let lines = text(&output.stdout);
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&events[0]["event"], &events[1]["event"]),
        (&"started".into(), &"result".into())
    );
    assert_eq!(events[2]["run"]["outcome"], "passed");
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn a_run_of_a_target_that_refuses_names_it_and_ends_with_1() {
    let closed = ClosedTcpPort::open().unwrap();
    let url = format!("tcp://{}", closed.address().unwrap());
    let (_folder, mut up) = mesh(&url, HERE);
    up.until("✗ 1 failing");
    let output = ask(&up, &["run", &url]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}{}", text(&output.stderr));
    assert!(
        stdout.starts_with(&format!("✗ {url}: ")) && stdout.contains("refused in connect"),
        "{stdout}"
    );
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn what_may_not_be_asked_for_and_who_cannot_be_reached_say_what_to_do_next() {
    let server = Server::start();
    let url = format!("http://{}/", server.address);
    let (_folder, mut up) = mesh(&url, "");
    up.until("1 of 1 vantages report");
    let forbidden = ask(&up, &["run", &url]);
    assert_eq!(forbidden.status.code(), Some(2));
    assert!(
        text(&forbidden.stderr).contains("add it to runs.allow"),
        "{}",
        text(&forbidden.stderr)
    );
    let unknown = ask(&up, &["run", "http://elsewhere.example.test/"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("`parallax targets` lists them"));
    assert_eq!(up.interrupt(), Some(0));
    let gone = ClosedTcpPort::open().unwrap();
    for command in ["status", "targets", "incidents", "explain", "forecasts"] {
        let server = format!("http://{}/", gone.address().unwrap());
        let output = parallax().args([command, "--server", &server]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{command}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("kubectl parallax, or --context NAME"), "{stderr}");
    }
    let clear = parallax()
        .args(["status", "--server", "http://parallax.example.test/"])
        .env("PARALLAX_TOKEN", "a-secret")
        .output()
        .unwrap();
    assert_eq!(clear.status.code(), Some(2));
    assert!(
        text(&clear.stderr).contains("unencrypted"),
        "{}",
        text(&clear.stderr)
    );
}

#[test]
fn without_a_cluster_no_renewal_is_foreseen_and_that_is_said_and_never_fine() {
    let server = Server::start();
    let (_folder, up) = mesh(&format!("http://{}/", server.address), "");
    let forecasts = ask(&up, &["forecasts"]);
    assert_eq!(forecasts.status.code(), Some(3), "{}", text(&forecasts.stdout));
    assert!(
        text(&forecasts.stdout).contains("No forecast:"),
        "{}",
        text(&forecasts.stdout)
    );
    assert!(
        text(&forecasts.stderr).contains("cert-manager's objects are not watched"),
        "{}",
        text(&forecasts.stderr)
    );
    let document = ask(&up, &["forecasts", "-o", "json"]);
    assert_eq!(document.status.code(), Some(3));
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    assert_eq!(document["forecasts"], serde_json::json!([]));
    assert!(document["note"].as_str().unwrap().starts_with("A forecast"));
    assert_eq!(up.interrupt(), Some(0));
}

/// Repeats `parallax status` until it no longer reports "catching up" (exit code 3).
fn until_caught_up(up: &Up) -> Output {
    let begin = Instant::now();
    loop {
        let status = ask(up, &["status"]);
        let stdout = text(&status.stdout);
        if !stdout.contains("? Catching up after a start") {
            return status;
        }
        assert_eq!(status.status.code(), Some(3), "{stdout}");
        assert!(begin.elapsed().as_secs() < 60, "it catches up for ever: {stdout}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn status_ends_with_1_while_a_target_fails_that_has_never_worked_unless_it_is_not_in_service_yet() {
    let server = Server::start();
    let closed = ClosedTcpPort::open().unwrap();
    let dead = closed.address().unwrap();
    let url = format!("http://{}/", server.address);
    let (_folder, mut up) = mesh(&url, &format!("  - url: http://{dead}/\n"));
    up.until("1 failing");
    let status = until_caught_up(&up);
    assert_eq!(status.status.code(), Some(1), "{}", text(&status.stdout));
    assert_eq!(up.interrupt(), Some(0));

    let (_folder, mut up) = mesh(&url, &format!("  - url: http://{dead}/\n    pending: true\n"));
    up.until("1 failing");
    let status = until_caught_up(&up);
    let stdout = text(&status.stdout);
    assert_eq!(status.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("1 target not in service yet"), "{stdout}");
    let targets = text(&ask(&up, &["targets"]).stdout);
    assert!(targets.contains("   pending   "), "{targets}");
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn status_targets_and_incidents_are_tables_for_people_and_documents_for_machines() {
    let server = Server::start();
    let url = format!("http://{}/", server.address);
    let (_folder, mut up) = mesh(&url, "");
    up.until("1 of 1 vantages report  ✓ 1 ok");
    let status = until_caught_up(&up);
    assert_eq!(status.status.code(), Some(0), "{}", text(&status.stdout));
    let stdout = text(&status.stdout);
    assert!(stdout.starts_with("1 of 1 vantages report"), "{stdout}");
    assert!(
        stdout.contains("✓ All targets reachable: 1 target from 1 vantage"),
        "{stdout}"
    );
    let wide = text(&ask(&up, &["status", "-o", "wide"]).stdout);
    assert!(wide.contains("VANTAGE") && wide.contains("reporting"), "{wide}");
    let targets = text(&ask(&up, &["targets"]).stdout);
    let lines: Vec<&str> = targets.lines().collect();
    assert!(
        lines[0].starts_with("TARGET") && lines[1].starts_with(&url) && lines[1].contains("   ok   "),
        "{targets}"
    );
    // Six rounds with an answer make a baseline.
    let baseline = format!("{}   200", server.address);
    let begin = Instant::now();
    loop {
        let wide = text(&ask(&up, &["targets", "-o", "wide"]).stdout);
        if wide.contains("BASELINE") && wide.contains(&baseline) {
            break;
        }
        assert!(begin.elapsed().as_secs() < 60, "{wide}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let reset = ask(&up, &["baseline", "reset", &url]);
    assert_eq!(
        text(&reset.stdout),
        format!("{url}: baseline reset; it will be learned again from the next rounds\n")
    );
    assert_eq!(
        ask(&up, &["baseline", "reset", "http://nobody.example.test/"])
            .status
            .code(),
        Some(2)
    );
    let document = text(&ask(&up, &["targets", "-o", "json"]).stdout);
    assert_eq!(
        serde_json::from_str::<Value>(&document).unwrap()[0]["target"],
        url.as_str()
    );
    let yaml = text(&ask(&up, &["targets", "-o", "yaml"]).stdout);
    assert!(
        yaml.contains(&format!("target: {url}")) || yaml.contains(&format!("target: \"{url}\"")),
        "{yaml}"
    );
    assert_eq!(
        text(&ask(&up, &["incidents"]).stdout),
        "No incident is open; --all includes closed ones.\n"
    );
    let explain = ask(&up, &["explain", "i-none"]);
    assert_eq!(explain.status.code(), Some(2));
    assert!(text(&explain.stderr).contains("incident not found"));
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn it_completes_words_and_works_as_a_plugin_of_kubectl() {
    for shell in ["bash", "zsh", "fish"] {
        let output = parallax().args(["completion", shell]).output().unwrap();
        let script = text(&output.stdout);
        assert!(output.status.success() && script.contains("incidents"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-parallax");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_parallax"), &plugin).unwrap();
    let output = std::process::Command::new(plugin)
        .args(["run", "--help"])
        .output()
        .unwrap();
    assert!(
        text(&output.stdout).contains("Usage: kubectl parallax run"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn an_incident_is_handled_from_the_terminal_and_stays_open_until_the_evidence_says_otherwise() {
    let server = Server::start();
    let url = format!("http://{}/", server.address);
    let (_folder, mut up) = mesh(&url, HERE);
    up.until("1 of 1 vantages report  ✓ 1 ok");
    drop(server);
    up.until("1 open incident");
    let listed = text(&ask(&up, &["incidents", "-o", "json"]).stdout);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(ask(&up, &["status"]).status.code(), Some(1), "is all well? no");
    let stdout = text(&ask(&up, &["ack", id, "--note", "on it"]).stdout);
    assert!(
        stdout.starts_with(&format!("{id} acknowledged by this machine\nkept in memory only")),
        "{stdout}"
    );
    let stdout = text(&ask(&up, &["silence", id, "--for", "2h"]).stdout);
    assert!(stdout.contains("silenced until"), "{stdout}");
    let listed = text(&ask(&up, &["incidents"]).stdout);
    assert!(listed.contains("silenced by this machine"), "{listed}");
    let explained = text(&ask(&up, &["explain", id]).stdout);
    assert!(explained.starts_with(id), "{explained}");
    let ended = text(&ask(&up, &["silence", id, "--end"]).stdout);
    assert!(ended.contains("is not silenced"), "{ended}");
    let verified = ask(&up, &["verify", id]);
    assert_eq!(
        verified.status.code(),
        Some(1),
        "it is not fixed: {}",
        text(&verified.stderr)
    );
    let window = text(&ask(&up, &["maintenance", "start", "--for", "1h", "--note", "upgrade"]).stdout);
    let window = window.split(':').next().unwrap();
    let windows = text(&ask(&up, &["maintenance", "list"]).stdout);
    assert!(
        windows.contains(window) && windows.contains("upgrade"),
        "{windows}"
    );
    assert!(text(&ask(&up, &["maintenance", "end", window]).stdout).contains("ended at"));
    let long = ask(&up, &["silence", id, "--for", "400d"]);
    assert_eq!(long.status.code(), Some(2));
    assert!(
        text(&long.stderr).contains("expected 60 to 2592000 seconds"),
        "{}",
        text(&long.stderr)
    );
    assert_eq!(up.interrupt(), Some(0));
}
