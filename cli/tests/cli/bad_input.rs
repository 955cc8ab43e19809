//! Invalid input: one clear error, an exit code that says whose fault it is, and nothing is started.

use std::{net::TcpListener, process::Stdio};

use crate::commands::{config, parallax, run, text};

/// Asserts exit code 2 and an error with file, line and expectation.
fn refused(yaml: &str, words: &[&str]) {
    let (_folder, path) = config(yaml);
    for command in ["up", "aggregator"] {
        let output = run(&[command, "--config", path.to_str().unwrap()]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {stderr}");
        assert!(
            stderr.contains("parallax.yaml:"),
            "{command} names the file and line: {stderr}"
        );
        for word in words {
            assert!(stderr.contains(word), "{command}: expected {word:?} in: {stderr}");
        }
        assert!(
            output.stdout.is_empty(),
            "nothing is started: {}",
            text(&output.stdout)
        );
    }
}

#[test]
fn an_unknown_field_is_refused_with_its_line() {
    refused(
        "listen: 127.0.0.1:0\ninterval: 5\n",
        &["parallax.yaml:2", "interval"],
    );
}

#[test]
fn a_wrong_type_is_refused_with_what_was_expected() {
    refused("intervalMs: soon\n", &["parallax.yaml:1", "intervalMs"]);
}

#[test]
fn an_impossible_value_is_refused_with_its_range() {
    refused(
        "listen: 127.0.0.1:0\nintervalMs: 1\n",
        &["parallax.yaml:2", "200 to 3600000"],
    );
}

#[test]
fn an_impossible_target_is_refused_with_its_line() {
    refused(
        "targets:\n  - url: ftp://files.example.test/\n",
        &["parallax.yaml:2", "tcp://"],
    );
}

#[test]
fn a_file_that_is_not_there_is_a_mistake_of_the_caller() {
    let output = run(&["up", "--config", "there-is-no-such-file.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there-is-no-such-file.yaml"));
}

#[test]
fn a_taken_port_is_said_in_one_line_with_what_to_do() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let (_folder, path) = config(&format!("listen: {address}\n"));
    for command in ["up", "aggregator"] {
        let output = run(&[command, "--config", path.to_str().unwrap()]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{command}: {stderr}");
        assert_eq!(stderr.trim().lines().count(), 1, "{command}: {stderr}");
        assert!(stderr.contains(&address.to_string()), "{command}: {stderr}");
    }
}

#[test]
fn impossible_flags_are_usage_errors() {
    for args in [
        &[
            "prober",
            "--aggregator",
            "not a url",
            "--vantage",
            "n1/pod",
            "--pod",
            "p",
        ][..],
        &[
            "prober",
            "--aggregator",
            "http://127.0.0.1:1",
            "--vantage",
            "n1/moon",
            "--pod",
            "p",
        ],
        &[
            "prober",
            "--aggregator",
            "ftp://127.0.0.1:1",
            "--vantage",
            "n1/pod",
            "--pod",
            "p",
        ],
        &["replay"],
        &["replay", "there-is-no-such-recording.ndjson"],
        &["fly"],
    ] {
        let output = run(args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let mut child = parallax()
        .args(["completion", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
