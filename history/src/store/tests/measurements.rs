//! Measurements for `docs/reference/store.md`: `cargo test -p parallax-history figures -- --ignored --nocapture`. They
//! decide no test.

use std::time::Instant;

use parallax_diagnosis::{ObservationResult, topology::Topology};
use parallax_model::{Micros, Placement};
use parallax_runtime::Clock;

use super::*;
use crate::store::StoreMetrics;

/// A hundred targets from ten nodes every ten seconds; for one target in ten, one probe in a hundred fails.
const TARGETS: u64 = 100;
const NODES: u64 = 10;

fn observation(target: u64, node: u64, at: EventTime, seq: u64) -> Recorded {
    let mut recorded = failure(seq, at);
    recorded.vantage = format!("n{node}/pod").parse().unwrap();
    recorded.observation.target = format!("http://host-{target:03}.example.test/").parse().unwrap();
    if !(target.is_multiple_of(10) && seq.is_multiple_of(100)) {
        recorded.observation.outcome =
            serde_json::from_value(json!({"result": "ok", "status": 200})).unwrap();
        recorded.observation.times.total = Some(Micros(900 + seq * 37 % 20_000));
    }
    recorded
}

#[test]
#[ignore = "a measurement"]
fn figures_of_an_hour_of_a_hundred_targets() {
    let folder = tempfile::tempdir().unwrap();
    let metrics = StoreMetrics::new();
    let file = Box::new(SqliteFile::new(options(&folder)));
    let (mut keeper, worker, _handle) = StoreWorker::new(file, Clock::starting_at(NOW), &metrics);
    let running = std::thread::spawn(move || worker.run());
    let topology = Topology::default();
    let mut sends = Vec::new();
    let mut view = fixtures::healthy();
    let mut seq = 0;
    for round in 0..360_u64 {
        view.at = NOW.plus(Micros::from_secs(round * 10));
        view.last_judged_round = Some(parallax_model::Round(i64::try_from(round).unwrap()));
        for target in 0..TARGETS {
            for node in 0..NODES {
                seq += 1;
                let placement = [Placement::SameNode, Placement::CrossNode, Placement::NoLocal]
                    [usize::try_from(node % 3).unwrap()];
                let recorded = observation(target, node, view.at, seq);
                let begun = Instant::now();
                keeper.record_observation(&recorded, ObservationResult::Accepted { placement }, &topology);
                sends.push(begun.elapsed());
            }
        }
        keeper.record_view(&view);
    }
    drop(keeper);
    let begun = Instant::now();
    running.join().unwrap();
    sends.sort_unstable();
    let at = |share: usize| sends[(sends.len() - 1) * share / 1_000];
    println!(
        "{} sends: p50 {:?}, p99 {:?}, p99.9 {:?}, worst {:?}; the rest was written in {:?}",
        sends.len(),
        at(500),
        at(990),
        at(999),
        at(1_000),
        begun.elapsed()
    );
    let bytes = std::fs::metadata(options(&folder).path).unwrap().len();
    println!("{bytes} bytes after an hour with every roll-up of a day still open");
}

#[test]
#[ignore = "a measurement"]
fn figures_of_writing_and_of_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = SqliteFile::new(options(&folder)).open(NOW).unwrap();
    let size = |store: &mut Box<dyn HistoryStore>| {
        store.write(&WriteBatch::default()).unwrap();
        std::fs::metadata(options(&folder).path).unwrap().len()
    };
    let empty = size(&mut store);
    // A day: 288 and 24 roll-ups of a hundred targets, on two channels from two placements each.
    let mut rows = 0;
    let begun = Instant::now();
    for minutes in (0..1_440).step_by(5) {
        let at = NOW.plus(Micros::from_secs(minutes * 60));
        let mut batch = WriteBatch::default();
        for target in 0..TARGETS {
            for step in RollupStep::ALL {
                for (channel, placement) in [
                    ("vip", "cross-node"),
                    ("vip", "no-local"),
                    ("direct", "same-node"),
                    ("direct", "cross-node"),
                ] {
                    let (mut key, _) = rollup(&format!("http://host-{target:03}.example.test/"), step, at, 0);
                    key.channel = channel.into();
                    key.placement = placement.into();
                    let mut counts = ProbeRollup::default();
                    for i in 0..150 {
                        counts.count(
                            "ok",
                            Some(Micros(900 + (target * 131 + minutes * 17 + i * 37) % 9_000)),
                        );
                    }
                    batch.rollups.insert(key, counts);
                    rows += 1;
                }
            }
        }
        store.write(&batch).unwrap();
    }
    let took = begun.elapsed();
    let day = size(&mut store);
    println!(
        "{rows} roll-ups in {took:?}: {:.0} a second; {} bytes a day",
        f64::from(rows) / took.as_secs_f64(),
        day - empty
    );
    let begun = Instant::now();
    for n in 0..20_u64 {
        let batch = WriteBatch {
            failures: (0..5_000).map(|i| failure(n * 5_000 + i, NOW)).collect(),
            ..WriteBatch::default()
        };
        store.write(&batch).unwrap();
    }
    let took = begun.elapsed();
    println!(
        "100000 failures in {took:?}: {:.0} a second; {} bytes each",
        1e5 / took.as_secs_f64(),
        (size(&mut store) - day) / 100_000
    );
}
