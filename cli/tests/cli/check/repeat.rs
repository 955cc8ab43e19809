//! Several passes.

use std::{
    process::Stdio,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use super::{AMPLE_TIMEOUT, CheckOutput, check};
use crate::{
    commands::parallax,
    servers::{Server, answer},
};

#[test]
fn passes_are_counted_with_percentiles() {
    let requests = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&requests);
    let server = Server::http(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        answer("200 OK", "", "")
    });
    let output = check(["--repeat=4", "--interval=1ms", &server.url("/")]);
    output.assert_output(
        0,
        &["worked 4 of 4 times", "4 ok", "median", "90 %", "first byte"],
    );
    assert_eq!(requests.load(Ordering::SeqCst), 4);
}

#[test]
fn one_failure_of_many_is_a_no_that_says_how_often() {
    let requests = AtomicUsize::new(0);
    let server = Server::http(move |_| match requests.fetch_add(1, Ordering::SeqCst) {
        1 => answer("503 Service Unavailable", "", ""),
        _ => answer("200 OK", "", ""),
    });
    let output = check(["--repeat=3", "--interval=1ms", &server.url("/")]);
    output.assert_output(
        1,
        &[
            "worked 2 of 3 times",
            "2 ok, 1 failed",
            "answers 503 (1 of 3 times)",
        ],
    );
}

#[test]
fn ctrl_c_ends_it_with_what_was_seen_until_then() {
    let (sender, receiver) = mpsc::channel();
    let server = Server::http(move |_| {
        let _ = sender.send(());
        answer("200 OK", "", "")
    });
    let child = parallax()
        .args([
            "check",
            AMPLE_TIMEOUT,
            "--repeat=10000",
            "--interval=5ms",
            &server.url("/"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The second request shows that the first pass is complete.
    receiver.recv().unwrap();
    receiver.recv().unwrap();
    let interrupted = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let output = CheckOutput::from_output(&child.wait_with_output().unwrap());
    output.assert_output(0, &["✓", "times, stopped before the remaining"]);
}

#[test]
fn ctrl_c_before_the_first_pass_is_unknown() {
    let (sender, receiver) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let server = Server::http(move |_| {
        let _ = sender.send(());
        let _ = released.recv();
        answer("200 OK", "", "")
    });
    let child = parallax()
        .args(["check", AMPLE_TIMEOUT, &server.url("/")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    receiver.recv().unwrap();
    let interrupted = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let output = CheckOutput::from_output(&child.wait_with_output().unwrap());
    drop(release);
    output.assert_output(
        3,
        &[
            "? http://127.0.0.1:",
            "stopped before the first pass was complete",
        ],
    );
}
