//! `--record` end to end: replaying the recorded reports gives the view that the page showed.

use std::{fs::File, io::Read, path::Path};

use flate2::read::MultiGzDecoder;
use parallax_diagnosis::{replay::Replay, view::View};
use parallax_history::recording::RecordOptions;
use parallax_model::EventTime;

use crate::common::{HEADER, Running, observation};

fn replayed(folder: &Path, now: EventTime) -> View {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut replay = Replay::new();
    for file in files {
        let mut text = String::new();
        MultiGzDecoder::new(File::open(file).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        for (i, line) in text.lines().enumerate() {
            let output = replay.read_line(i + 1, line);
            assert!(
                output.iter().all(|line| !line.contains("malformed")),
                "{output:?}"
            );
        }
    }
    replay.view(now).unwrap()
}

#[tokio::test]
async fn what_the_probers_sent_replays_to_the_last_view_also_across_a_change_of_the_topology() {
    let records = tempfile::tempdir().unwrap();
    let options = RecordOptions {
        dir: records.path().to_owned(),
        max_bytes: RecordOptions::DEFAULT_BYTES,
        pseudonyms: false,
    };
    let running = Running::recording("intervalMs: 200\ntimeoutMs: 100\n", Some(options)).await;
    let first = running.send(&[HEADER, &observation(1), &observation(2)]).await;
    assert!(first.status().is_success());
    // A retransmission: the duplicate never reaches the engine.
    assert!(
        running
            .send(&[HEADER, &observation(2)])
            .await
            .status()
            .is_success()
    );
    running
        .views
        .wait_for(|view| view.last_judged_round.is_some())
        .await;

    let topology = std::fs::read_to_string(running.topology()).unwrap();
    let changed = topology.replace("b.example.test", "c.example.test");
    running.replace_topology(&changed);
    let has = |view: &View| {
        view.matrix
            .iter()
            .any(|row| row.target.as_str().contains("c.example"))
    };
    running.views.wait_for(|view| has(view)).await;
    let later = HEADER.replace("1000000", "9000000");
    assert!(
        running
            .send(&[&later, &observation(7)])
            .await
            .status()
            .is_success()
    );
    running
        .views
        .wait_for(|view| view.counters.accepted + view.counters.late == 3)
        .await;

    assert_eq!(
        running
            .metric(r#"parallax_recording_lines_total{result="lost"}"#)
            .await,
        Some(0.0)
    );
    assert_eq!(running.metric("parallax_recording_failing").await, Some(0.0));
    let views = running.views.clone();
    running.stop().await;
    let live = View::clone(&views.latest());
    let again = replayed(records.path(), live.at);
    assert_eq!(
        serde_json::to_string(&again).unwrap(),
        serde_json::to_string(&live).unwrap()
    );
}
