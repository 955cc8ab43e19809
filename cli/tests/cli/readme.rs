//! The README is correct: this test runs every command in it, except those that the lab's tests run.

use std::process::Command;

use crate::{
    commands::{parallax, repository, run, text},
    servers::{Server, answer},
    up::Up,
};

/// Returns the lines of the README that begin with `$ `, without the prompt and trailing comments.
fn commands() -> Vec<String> {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    readme
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned())
        .collect()
}

/// Returns the commands that make would run.
fn recipe(args: &[&str]) -> String {
    let output = Command::new("make")
        .arg("--dry-run")
        .args(args)
        .current_dir(repository(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "make {args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn every_command_is_run_by_a_test() {
    let commands = commands();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        match words.as_slice() {
            // The lab's tests run these programs with these arguments; here only make's command is checked.
            ["make", "demo", rest @ ..] => {
                let once = if rest.contains(&"ONCE=1") { " --once" } else { "" };
                // The incident to run depends on the machine.
                let expected = format!("parallax-lab run $run --listen 127.0.0.1:8080{once}");
                let recipe = recipe(&words[1..]);
                let runs = recipe.lines().any(|line| line.trim_end().ends_with(&expected));
                assert!(runs, "{command}: {recipe}");
            }
            ["make", "test"] => assert!(recipe(&["test"]).contains("tests/run-suites")),
            // The binary under test is its result.
            ["cargo", "build"] => {}
            ["target/debug/parallax", "up", "--config", file] => {
                let example = std::fs::read_to_string(repository(file)).unwrap();
                assert!(
                    example.contains("listen: 127.0.0.1:8080"),
                    "the page is where the README says"
                );
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("parallax.yaml");
                std::fs::write(&path, example.replace("127.0.0.1:8080", "127.0.0.1:0")).unwrap();
                let mut up = Up::start(&path);
                up.until("vantages report");
                assert_eq!(up.interrupt(), Some(0));
            }
            // Use the example page, on a free port.
            ["target/debug/parallax", "check", "http://127.0.0.1:8080/"] => {
                let page = Server::http(|_| answer("200 OK", "", "page"));
                let output = run(&["check", &page.url("/")]);
                assert!(output.status.success(), "{command}: {}", text(&output.stderr));
                assert!(
                    text(&output.stdout).contains("answers 200 in"),
                    "as the README shows it"
                );
            }
            ["target/debug/parallax", args @ ..] => {
                let output = parallax()
                    .args(args)
                    .current_dir(repository(""))
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{command}: {}", text(&output.stderr));
                assert!(!output.stdout.is_empty(), "{command}");
            }
            _ => panic!("no test runs {command:?}"),
        }
    }
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let readme = std::fs::read_to_string(repository("README.md")).unwrap();
    let links = readme
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let files: Vec<_> = links.filter(|link| !link.contains("://")).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let path = file.split('#').next().unwrap();
        assert!(repository(path).exists(), "{file}");
    }
}
