//! Trials of whole clusters: paths with several hops, faults with a schedule, and incidents judged over time.
//!
//! ```text
//! set ─▶ draw (cluster, faults) ─▶ simulate (probes) ─▶ delivery (reports) ─▶ lines ─▶ engine ─▶ incidents ─▶ score
//!                                  ▲                                              │
//!                                  └─────── requested probes, in closed loop ─────┘
//! ```
//!
//! A fault is a predicate on hops, so one fault fails probes of many subjects: a broken pair of nodes fails the connections
//! between them, the questions to a resolver Pod behind it, the responses of a host whose entry reaches its origins through
//! it, and the reports of a vantage behind it.

pub mod closed_loop;
pub mod delivery;
pub mod draw;
pub mod fault;
pub mod hops;
pub mod layout;
pub mod lookup;
pub mod named;
pub mod record;
pub mod requested_probe;
pub mod schedule;
pub mod score;
pub mod sets;
pub mod simulate;
pub mod summary;
pub mod topology;

use sets::WholeSet;

/// A trial: its plan and its recording.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeTrial {
    /// The cluster and the faults.
    pub plan: draw::WholePlan,
    /// Lines of the recording.
    pub lines: Vec<String>,
    /// Failures of each fault that were reported before the fault ended.
    pub failures: Vec<usize>,
}

/// Runs one trial of a set with an engine whose requests are answered; returns the engine's output, too.
pub fn answered_trial(
    set: &WholeSet,
    seed: u64,
    number: usize,
    reader: &mut dyn super::closed_loop::Reader,
) -> (WholeTrial, Vec<String>) {
    let mut rng = super::rng_for_name(set.name, seed, number);
    let plan = draw::plan(set, number, &mut rng);
    closed_loop::run(plan, &mut rng, reader)
}

/// Generates one trial of a set. The result depends only on seed, set and number.
#[must_use]
pub fn trial(set: &WholeSet, seed: u64, number: usize) -> WholeTrial {
    let mut rng = super::rng_for_name(set.name, seed, number);
    let plan = draw::plan(set, number, &mut rng);
    let mut probes = simulate::run(&plan, &mut rng);
    let lines = delivery::lines(&plan, &mut probes, &mut rng);
    let failures = simulate::delivered_failures(&plan, &probes);
    WholeTrial {
        plan,
        lines,
        failures,
    }
}
