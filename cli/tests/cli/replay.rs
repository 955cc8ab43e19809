//! A recording produces the same bytes with every build.

use std::{io::Write, process::Stdio};

use crate::commands::{parallax, repository, run, text};

const RECORDING: &str = "diagnosis/tests/fixtures/three-trials.ndjson";

fn replayed() -> String {
    let path = repository(RECORDING);
    let output = run(&["replay", "--json", path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn twice_the_same_recording_gives_the_same_bytes() {
    assert_eq!(replayed(), replayed());
}

/// The snapshot was written by an earlier build than the one under test.
#[test]
fn a_rebuilt_binary_gives_the_bytes_that_an_earlier_one_gave() {
    insta::assert_snapshot!(replayed());
}

#[test]
fn people_get_sentences() {
    let path = repository(RECORDING);
    let output = run(&["replay", path.to_str().unwrap()]);
    let stdout = text(&output.stdout);
    assert!(stdout.contains("client node-03"), "{stdout}");
    assert!(stdout.contains("159 observations, 0 malformed"), "{stdout}");
}

fn through_a_pipe(input: &str) -> std::process::Output {
    let mut child = parallax()
        .args(["replay", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_malformed_line_is_named_and_skipped() {
    let recording = std::fs::read_to_string(repository(RECORDING)).unwrap();
    let (first, rest) = recording.split_once('\n').unwrap();
    let output = through_a_pipe(&format!("{first}\n{{\"type\":\"obs\",\"t\":\n{rest}"));
    assert!(output.status.success());
    let stdout = text(&output.stdout);
    assert!(stdout.contains(r#""type":"malformed","line":2"#), "{stdout}");
    assert!(stdout.contains(r#""malformed":1"#), "{stdout}");
}

#[test]
fn an_input_without_any_recording_could_not_be_told() {
    let output = through_a_pipe("hello\n");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("no line of the input"));
}
