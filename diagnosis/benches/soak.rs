//! An hour of event time with 1 000 vantages and 200 targets whose Pods are replaced, and four faults: the memory of the
//! diagnosis stays level.
//!
//! Run with `make soak`. Exits with 1 if memory grows by more than 5 % after the first quarter, or if anything is named that is
//! not one of the faults.
#![expect(clippy::unwrap_used, reason = "an invalid fixture fails the benchmark")]

mod simulated_cluster;

use std::{collections::BTreeMap, ops::Range, process::ExitCode, sync::Arc};

use parallax_model::EventTime;

use simulated_cluster::{Fault, INTERVAL, Mesh, Scale, resident_mib};

const CLUSTER: Scale = Scale {
    nodes: 1_000,
    services: 40,
};
const ROUNDS: i64 = 360;
const WARM_UP: i64 = ROUNDS / 4;
/// Rounds between two replaced Pods.
const ROUNDS_PER_REPLACEMENT: i64 = 2;
/// Growth after the warm-up that is still level.
const MAX_GROWTH: f64 = 0.05;

/// Rounds of each quarter of the hour in which something fails.
const FAULT_ROUNDS: Range<i64> = 40..52;

/// Returns the fault of a round.
fn fault_in(round: i64) -> Fault {
    let quarter = ROUNDS / 4;
    match (FAULT_ROUNDS.contains(&(round % quarter)), round / quarter % 2) {
        (false, _) => Fault::Nothing,
        (true, 0) => Fault::Front,
        (true, _) => Fault::Node,
    }
}

fn main() -> ExitCode {
    let mut mesh = Mesh::new(CLUSTER, 0);
    let mut engine = mesh.engine();
    let (mut observations, mut level) = (0, None);
    let mut named: BTreeMap<String, (EventTime, String)> = BTreeMap::new();
    for round in 0..ROUNDS {
        if round % ROUNDS_PER_REPLACEMENT == 0 && round > 0 {
            let replacements = usize::try_from(round / ROUNDS_PER_REPLACEMENT).unwrap();
            mesh = Mesh::new(CLUSTER, replacements);
            engine.replace_topology(Arc::clone(&mesh.topology), EventTime(round * INTERVAL));
        }
        for recorded in mesh.round(round, fault_in(round)) {
            observations += 1;
            engine.observe(&recorded);
        }
        mesh.complete(&mut engine, round);
        let end = EventTime((round + 1) * INTERVAL + 100_000);
        engine.advance(end);
        for incident in engine.view(end).incidents {
            named.insert(incident.id, (incident.opened, incident.verdict.sentence));
        }
        if round >= WARM_UP {
            // The peak of a quarter: a single reading depends on what the allocator has returned.
            let quarter = level.get_or_insert([0.0_f64; 4]);
            let index = usize::try_from(round * 4 / ROUNDS).unwrap();
            quarter[index] = quarter[index].max(resident_mib());
        }
        if (round + 1) % 30 == 0 {
            println!(
                "{:>3} min: {:.0} MiB, {observations} observations, {} incidents",
                (round + 1) / 6,
                resident_mib(),
                named.len()
            );
        }
    }
    let [_, second, _, last] = level.unwrap_or_default();
    let growth = last / second - 1.0;
    println!(
        "peak of the second quarter {second:.0} MiB, of the last {last:.0} MiB: {:+.1} %",
        growth * 100.0
    );
    let opened = |round: i64| fault_in(round) != Fault::Nothing || fault_in(round - 1) != Fault::Nothing;
    let foreign = named
        .values()
        .filter(|(at, _)| !opened(at.0 / INTERVAL))
        .collect::<Vec<_>>();
    for (at, sentence) in named.values() {
        println!("{:>3} min: {sentence}", at.0 / 60_000_000);
    }
    if growth <= MAX_GROWTH && foreign.is_empty() && named.len() == 4 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
