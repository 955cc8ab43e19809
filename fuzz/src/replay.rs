//! Recordings, as anyone may attach them to a bug report.

use parallax_diagnosis::replay::Replay;

/// Replays the bytes as a recording.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let out = run(&text);
    for line in &out {
        serde_json::from_str::<serde_json::Value>(line).expect("output is JSON");
    }
    assert_eq!(out, run(&text), "the same bytes twice");
}

fn run(text: &str) -> Vec<String> {
    let mut replay = Replay::new();
    let mut out = Vec::new();
    for (number, line) in text.lines().enumerate() {
        out.extend(replay.read_line(number + 1, line));
    }
    out.extend(replay.finish());
    out
}
