//! `up --record DIR` followed by `replay DIR`.

use std::fs;

use parallax_test_support::closed_port::ClosedTcpPort;

use crate::{
    commands::{config, run, text},
    up::Up,
};

/// A configuration with one target, which refuses while the port is kept.
fn target() -> (tempfile::TempDir, std::path::PathBuf, ClosedTcpPort) {
    let closed = ClosedTcpPort::open().unwrap();
    let (folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 300\ntimeoutMs: 200\ntargets:\n  - url: tcp://{}\n",
        closed.address().unwrap()
    ));
    (folder, path, closed)
}

#[test]
fn what_up_records_replay_reads_as_a_folder_and_as_files() {
    let (folder, path, _closed) = target();
    let records = folder.path().join("records");
    let mut up = Up::with(&path, &["--record", records.to_str().unwrap()]);
    up.until("✗ 1 failing");
    assert_eq!(up.interrupt(), Some(0));
    let of_folder = run(&["replay", "--json", records.to_str().unwrap()]);
    let stdout = text(&of_folder.stdout);
    assert_eq!(of_folder.status.code(), Some(0), "{}", text(&of_folder.stderr));
    assert!(
        stdout.contains(r#""type":"trial""#) && stdout.contains(r#""malformed":0"#),
        "{stdout}"
    );
    assert!(!stdout.contains(r#""observations":0"#), "{stdout}");
    let files: Vec<String> = fs::read_dir(&records)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    let mut args = vec!["replay", "--json"];
    args.extend(files.iter().map(String::as_str));
    assert_eq!(text(&run(&args).stdout), stdout);
}

#[test]
fn a_recording_that_breaks_off_is_read_as_far_as_it_goes() {
    let (folder, path, _closed) = target();
    let records = folder.path().join("records");
    let mut up = Up::with(&path, &["--record", records.to_str().unwrap()]);
    up.until("✗ 1 failing");
    assert_eq!(up.interrupt(), Some(0));
    let file = fs::read_dir(&records).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 12]).unwrap();
    let output = run(&["replay", records.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("is truncated here"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_folder_that_cannot_be_written_to_is_said_before_anything_starts() {
    let (folder, path, _closed) = target();
    let records = folder.path().join("no").join("such").join("folder");
    for command in ["up", "aggregator"] {
        let output = run(&[
            command,
            "--config",
            path.to_str().unwrap(),
            "--record",
            records.to_str().unwrap(),
        ]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{command}: {stderr}");
        assert!(stderr.contains("cannot record in"), "{command}: {stderr}");
    }
}

#[test]
fn impossible_options_of_a_recording_are_usage_errors() {
    for args in [
        &["up", "--config", "x.yaml", "--record-pseudonyms"][..],
        &["up", "--config", "x.yaml", "--record-max-size", "1GiB"],
        &[
            "up",
            "--config",
            "x.yaml",
            "--record",
            "d",
            "--record-max-size",
            "12",
        ],
        &[
            "aggregator",
            "--config",
            "x.yaml",
            "--record",
            "d",
            "--record-max-size",
            "much",
        ],
    ] {
        let output = run(args);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
    let empty = tempfile::tempdir().unwrap();
    let output = run(&["replay", empty.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("contains no recording"));
}
