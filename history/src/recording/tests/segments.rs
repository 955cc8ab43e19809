//! The size limit of segments, dropped lines, and errors of the disk.

use super::*;

#[test]
fn the_oldest_segments_are_deleted_beyond_the_size_limit() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    let first = segments(live.folder.path());
    let mut round = 0;
    while segments(live.folder.path()).contains(&first[0]) {
        for _ in 0..20 {
            live.round(round, &[1, 2, 3]);
            round += 1;
        }
    }
    let (folder, view) = live.finish();
    let files = segments(folder.path());
    let total: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    // Compressed lines are written in blocks: a segment may exceed its share by a few of them.
    assert!(total <= RecordOptions::MIN_BYTES + (64 << 10), "{total}");
    let (_, output) = replay(&files, view.at);
    assert!(output.iter().all(|line| line["type"] != "malformed"));
}

#[test]
fn dropped_lines_are_counted_and_marked_in_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let topology = topology(&spec(&[1]));
    let options = RecordOptions {
        dir: folder.path().join("records"),
        max_bytes: RecordOptions::DEFAULT_BYTES,
        pseudonyms: false,
    };
    let metrics = RecordMetrics::new();
    let start = EventTime(START);
    let (mut recorder, writer) = Recorder::open(&options, SETTINGS, &topology, start, &metrics).unwrap();
    // No writer runs yet.
    for i in 0..QUEUE_CAPACITY + 7 {
        let now = start.plus(Micros(i as u64));
        recorder.record_advance(now, true, &topology);
    }
    let writing = std::thread::spawn(move || writer.run());
    while recorder.dropped_lines > 0 {
        recorder.record_advance(start.plus(Micros(9_999)), true, &topology);
        std::thread::yield_now();
    }
    drop(recorder);
    writing.join().unwrap();
    let text: String = segments(folder.path())
        .iter()
        .map(|file| decompress(file))
        .collect();
    let gap = text
        .lines()
        .find(|line| line.contains(r#""type":"gap""#))
        .unwrap();
    let gap: Value = serde_json::from_str(gap).unwrap();
    assert!(gap["lines"].as_u64().unwrap() >= 7, "{gap}");
}

#[test]
fn an_unusable_folder_is_an_error_at_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let options = RecordOptions {
        dir: file.path().to_owned(),
        max_bytes: RecordOptions::DEFAULT_BYTES,
        pseudonyms: false,
    };
    let refused = Recorder::open(
        &options,
        SETTINGS,
        &topology(&spec(&[1])),
        EventTime(START),
        &RecordMetrics::new(),
    );
    let message = refused.err().unwrap().to_string();
    assert!(message.starts_with("cannot record in "), "{message}");
}

/// The folder disappears under the recorder: later lines are counted as lost, and the engine's thread is not affected.
#[test]
fn an_unwritable_disk_shows_in_the_metrics_and_stops_nothing() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    std::fs::remove_dir_all(live.folder.path().join("records")).unwrap();
    let metrics = live.metrics.clone();
    let mut round = 0;
    // The open file accepts lines until its share is full; the next file cannot be created.
    while metrics.is_failing() == 0 {
        for _ in 0..20 {
            live.round(round, &[1, 2, 3]);
            round += 1;
        }
    }
    assert!(live.engine.view(live.now).last_judged_round.is_some());
    live.finish();
}
