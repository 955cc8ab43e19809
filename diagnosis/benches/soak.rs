//! Ninety minutes of event time with 1 000 vantages and 200 targets whose Pods are replaced, and six faults: after a warm-up of
//! thirty minutes the memory of the diagnosis stays level.
//!
//! Run with `make soak`. Exits with 1 if the last third needs over 5 % more memory than the second, if a fault is not named, or
//! if anything else is.
#![expect(clippy::unwrap_used, reason = "an invalid fixture fails the benchmark")]

use std::{ops::Range, process::ExitCode, sync::Arc};

use parallax_diagnosis::verdict::IncidentState;
use parallax_model::EventTime;

use parallax_simulated_cluster::{Fault, INTERVAL, Mesh, Scale, resident_mib};

const CLUSTER: Scale = Scale {
    nodes: 1_000,
    services: 40,
};
const ROUNDS: i64 = 540;
/// Rounds from one fault to the next.
const ROUNDS_PER_FAULT: i64 = 90;
/// Those of them in which something fails.
const FAULT_ROUNDS: Range<i64> = 40..52;
/// Rounds between two replaced Pods.
const ROUNDS_PER_REPLACEMENT: i64 = 2;
/// Growth after the warm-up that is still level.
const MAX_GROWTH: f64 = 0.05;

/// Returns the fault of a round.
const fn fault_in(round: i64) -> Fault {
    let phase = round % ROUNDS_PER_FAULT;
    match (
        phase >= FAULT_ROUNDS.start && phase < FAULT_ROUNDS.end,
        round / ROUNDS_PER_FAULT % 2,
    ) {
        (false, _) => Fault::Nothing,
        (true, 0) => Fault::Front,
        (true, _) => Fault::Node,
    }
}

fn main() -> ExitCode {
    let mut mesh = Mesh::new(CLUSTER, 0);
    let mut engine = mesh.engine();
    let (mut observations, mut wrong) = (0, Vec::new());
    // A single reading depends on what the allocator has returned.
    let mut peaks = [0.0_f64; 3];
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
        let incidents = engine.view(end).incidents;
        let open = incidents
            .iter()
            .filter(|incident| !matches!(incident.state, IncidentState::Closed { .. }));
        let sentences: Vec<&str> = open.map(|incident| incident.verdict.sentence.as_str()).collect();
        // A fault is named within four rounds and over within twelve.
        let phase = round % ROUNDS_PER_FAULT - FAULT_ROUNDS.start;
        let expected = match phase {
            4..12 => 1..=1,
            0..24 => 0..=1,
            _ => 0..=0,
        };
        if !expected.contains(&sentences.len()) {
            wrong.push(format!("round {round}: {sentences:?}"));
        }
        let third = usize::try_from(round * 3 / ROUNDS).unwrap();
        peaks[third] = peaks[third].max(resident_mib());
        if (round + 1) % 60 == 0 {
            let minutes = (round + 1) / 6;
            println!(
                "{minutes:>3} min: {:.0} MiB, {observations} observations",
                resident_mib()
            );
        }
    }
    let [_, second, last] = peaks;
    let growth = last / second - 1.0;
    println!(
        "peak of the second third {second:.0} MiB, of the last {last:.0} MiB: {:+.1} %",
        growth * 100.0
    );
    println!(
        "rounds with a missing or a foreign incident: {} {wrong:#?}",
        wrong.len()
    );
    if growth <= MAX_GROWTH && wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
