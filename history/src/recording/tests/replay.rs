//! Recordings replay to the view of the live engine.

use super::*;

#[test]
fn a_recording_replays_to_the_view_and_the_words_of_the_live_engine_byte_for_byte() {
    let mut live = LiveEngine::start(false, RecordOptions::DEFAULT_BYTES);
    live.incident();
    let (folder, view) = live.finish();
    assert_eq!(view.incidents[0].verdict.region.region, "nolocal");
    assert!(view.counters.unknown > 0 && view.counters.implausible > 0 && view.counters.prober_faults > 0);
    let (again, output) = replay(&segments(folder.path()), view.at);
    assert_eq!(rendered(&again), rendered(&view));
    assert!(
        output
            .iter()
            .all(|line| line["type"] != "malformed" && line["type"] != "gap"),
        "{output:?}"
    );
}

#[test]
fn a_baseline_that_was_reset_replays_as_reset_and_is_learned_anew() {
    for pseudonyms in [false, true] {
        let mut live = LiveEngine::start(pseudonyms, RecordOptions::DEFAULT_BYTES);
        let target: TargetId = "http://oat.bakery.example/".parse().unwrap();
        let learned = |view: &View| view.matrix.iter().filter(|row| !row.baseline.is_empty()).count();
        for round in 0..12 {
            live.round(round, &[1, 2, 3]);
        }
        assert_eq!(learned(&live.engine.view(live.now)), 2);
        assert!(live.engine.reset_baseline(&target));
        live.recorder
            .record_baseline_reset(live.now, target.clone(), &live.topology);
        live.round(12, &[1, 2, 3]);
        let view = live.engine.view(live.now);
        assert_eq!(learned(&view), 1, "one baseline is learned again");
        let (folder, view) = live.finish();
        let (again, output) = replay(&segments(folder.path()), view.at);
        assert_eq!(learned(&again), 1);
        assert!(
            output.iter().all(|line| line["type"] != "malformed"),
            "{output:?}"
        );
        if !pseudonyms {
            assert_eq!(rendered(&again), rendered(&view));
        }
    }
}

#[test]
fn each_segment_records_whether_the_topology_was_readable_when_it_began() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    let since = EventTime(START - 7);
    live.recorder
        .record_topology_unread(live.now, Some(since), &live.topology);
    let mut round = 0;
    // Random-looking numbers do not compress, so the segments fill.
    while segments(live.folder.path()).len() < 3 {
        live.round(round, &[1, 2, 3]);
        round += 1;
    }
    live.recorder
        .record_topology_unread(live.now, None, &live.topology);
    // An entry that does not fit in the queue is dropped; the next one reports the state.
    while live.recorder.dropped_lines > 0 {
        std::thread::yield_now();
        live.recorder
            .record_topology_unread(live.now, None, &live.topology);
    }
    let (folder, _) = live.finish();
    let unread = |file: &PathBuf| -> Vec<Value> {
        let text = decompress(file);
        let lines = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let own = lines.filter(|line| line["type"] == "topology_unread");
        own.map(|line| line["since_us"].clone()).collect()
    };
    let records: Vec<Vec<Value>> = segments(folder.path()).iter().map(unread).collect();
    let (last, before) = records.split_last().unwrap();
    assert!(
        before.iter().all(|records| *records == [json!(since)]),
        "{records:?}"
    );
    assert_eq!(*last, [json!(since), Value::Null]);
}

#[test]
fn rounds_that_change_under_an_open_incident_leave_it_open_and_replay_alike() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    live.incident();
    let before = live.engine.view(live.now);
    let shorter = Settings {
        interval: Micros::from_secs(2),
        timeout: Micros::from_secs(1),
    };
    live.replace_settings(shorter);
    let after = live.engine.view(live.now);
    assert_eq!(after.interval, shorter.interval);
    let open = |view: &View| -> Vec<_> {
        let closed = |state| matches!(state, IncidentState::Closed { .. });
        let open = view.incidents.iter().filter(|i| !closed(i.state));
        open.map(|incident| incident.id.clone()).collect()
    };
    assert_eq!((open(&before).len(), open(&after)), (1, open(&before)));
    let shown = |view: &View| -> Vec<_> {
        let cells = view.matrix.iter().flat_map(|row| &row.cells);
        cells
            .map(|cell| (cell.last_probe, cell.last_failure.is_some()))
            .collect()
    };
    assert_eq!(
        shown(&after).iter().map(|(last, _)| *last).collect::<Vec<_>>(),
        shown(&before).iter().map(|(last, _)| *last).collect::<Vec<_>>(),
        "the matrix keeps the newest outcomes"
    );
    for round in 9..14 {
        live.round(round, &[1]);
    }
    let named_again = live.engine.view(live.now);
    assert_eq!(
        open(&named_again),
        open(&before),
        "the same cause is the same incident"
    );
    // Segments after the change start with the new settings.
    let mut round = 14;
    while segments(live.folder.path()).len() < 3 {
        for _ in 0..20 {
            live.round(round, &[1]);
            round += 1;
        }
    }
    for _ in 0..20 {
        live.round(round, &[1, 2, 3]);
        round += 1;
    }
    let (folder, view) = live.finish();
    assert_eq!(
        open(&view),
        Vec::<String>::new(),
        "it closes on evidence of the new rounds"
    );
    let files = segments(folder.path());
    let (again, output) = replay(&files, view.at);
    assert_eq!(rendered(&again), rendered(&view));
    assert!(
        output.iter().all(|line| line["type"] != "malformed"),
        "{output:?}"
    );
    assert_eq!(output.iter().filter(|line| line["type"] == "trial").count(), 1);
    let (later, _) = replay(&files[2..], view.at);
    assert_eq!(later.interval, shorter.interval);
}

#[test]
fn a_recording_in_many_segments_replays_as_one_and_from_any_segment_on() {
    let mut live = LiveEngine::start(false, RecordOptions::MIN_BYTES);
    live.incident();
    // Random-looking numbers do not compress, so the segments fill.
    let mut round = 9;
    while segments(live.folder.path()).len() < 4 {
        for _ in 0..20 {
            live.round(round, &[1]);
            round += 1;
        }
    }
    let (folder, view) = live.finish();
    let files = segments(folder.path());
    let (again, output) = replay(&files, view.at);
    assert_eq!(rendered(&again), rendered(&view));
    let recordings = output.iter().filter(|line| line["type"] == "trial").count();
    assert_eq!(recordings, 1);

    let (from_the_middle, output) = replay(&files[1..], view.at);
    assert!(
        output.iter().all(|line| line["type"] != "malformed"),
        "{output:?}"
    );
    // The last report of a vantage with a wrong clock may be in the missing part.
    let last_reports = |view: &View| -> Vec<_> {
        let vantages = view.vantages.iter();
        vantages.map(|v| (v.vantage.clone(), v.state)).collect()
    };
    assert_eq!(last_reports(&from_the_middle), last_reports(&view));
}
