//! The fault corpus: recordings with known truth, and a scorer of verdicts.
//!
//! ```text
//! set ─▶ draw (cluster, faults) ─▶ simulate (probes) ─▶ stream | records      what the engine reads
//!                                        ▲└─────────── ask ◀── next_probe ┘    requested probes are made
//!                                        └──────────▶ truth                   what was injected, what was observable
//! verdict lines + truth ─▶ score ─▶ tally ─▶ report (tables, plots)
//! ```
//!
//! Everything here is a pure function of a seed and independent of the engine, which the caller passes as a function.
//! Only [`quiet`] runs the engine itself, because its draws are not worth recording.

pub mod closed_loop;
pub mod draw;
pub mod kinds;
mod next_probe;
pub mod plot;
pub mod quiet;
pub mod records;
pub mod region;
pub mod report;
pub mod rng;
pub mod score;
pub mod sets;
pub mod simulate;
pub mod stream;
pub mod tally;
pub mod truth;
pub mod whole_cluster;
pub mod world;

use rng::Rng;
use sets::{OutputForm, TrialSet};

/// One trial: recording and truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Lines of the recording.
    pub lines: Vec<String>,
    /// The truth.
    pub truth: truth::TrialTruth,
}

/// Runs one trial of a set in a closed loop: requested probes are made. Returns the truth and the engine's output.
#[must_use]
pub fn closed_loop_trial(
    set: &TrialSet,
    seed: u64,
    number: usize,
    reader: &mut dyn closed_loop::Reader,
) -> (truth::TrialTruth, Vec<String>) {
    let mut rng = rng_of(set, seed, number);
    let plan = draw::plan(set, number, &mut rng);
    let answered = closed_loop::run(plan, number, &mut rng, reader);
    let truth = truth::from_run(&answered.run, set.name, number);
    (truth, answered.output)
}

fn rng_of(set: &TrialSet, seed: u64, number: usize) -> Rng {
    rng_for_name(set.name, seed, number)
}

/// Returns the random numbers of one trial of the set with a name.
fn rng_for_name(set: &str, seed: u64, number: usize) -> Rng {
    let name = set.bytes().fold(0_u64, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    Rng::from_words(&[seed, name, number as u64])
}

/// Generates one trial of a set. The result depends only on seed, set and trial.
#[must_use]
pub fn trial(set: &TrialSet, seed: u64, number: usize) -> Trial {
    let mut rng = rng_of(set, seed, number);
    let plan = draw::plan(set, number, &mut rng);
    let run = simulate::run(plan, set.form, &mut rng);
    Trial {
        truth: truth::from_run(&run, set.name, number),
        lines: match set.form {
            OutputForm::Stream => stream::lines(&run, number),
            OutputForm::Mesh { .. } => records::lines(&run),
        },
    }
}
