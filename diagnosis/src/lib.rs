//! The pure core: observations and topology in, verdicts out.
//!
//! | module, in the order of the data | what it holds |
//! |---|---|
//! | `settings` | the length of a round and the deadline of a probe |
//! | `ids`, `hash`, `wording` | numbers for names, a stable hash, lists and counts in words |
//! | [`topology`] | what the cluster publishes, checked and indexed |
//! | [`verdict`] | the words of a diagnosis: subject, region, fact, remedy, verdict, incident |
//! | [`evidence`] | what was observed, and the cells that count it |
//! | `regions` | which paths fail together, and how much of a cell lies in a region |
//! | `inference` | from counts to probabilities: prior, likelihood, posterior, judgement |
//! | [`requests`] | which probe to ask for next, because its answer tells most |
//! | [`plan`] | what each vantage should probe |
//! | `catalogue` | the causes of each region, with their claims, facts and remedies |
//! | [`findings`] | what is wrong without a region of failing cells: answers, exposure, hazards |
//! | `explanation` | from a judgement to a verdict: sentence, table, what is ruled out |
//! | `incident` | verdicts over time |
//! | [`view`], `matrix` | what people look at |
//! | [`checkpoint`] | what outlives the process |
//! | `engine` | topology and observations in, a view out |
//! | [`replay`] | a recorded stream through the same engine |
//!
//! A module uses only modules above it in this table.
//!
//! No clock, no I/O, no async, no threads, ordered maps only, float functions from `libm`, weights in fixed point,
//! folds in sorted order: the same recording gives the same bytes on any machine.
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod evidence;
pub mod findings;
pub mod plan;
pub mod replay;
pub mod requests;
pub mod topology;
pub mod verdict;
pub mod view;

mod catalogue;
mod engine;
mod explanation;
mod ids;
mod incident;
mod inference;
mod matrix;
mod regions;
mod settings;
mod wording;

pub use checkpoint::{Checkpoint, VERSION as CHECKPOINT_VERSION};
pub use engine::{Engine, ObservationResult};
pub use settings::Settings;
