//! The pure core: turns observations and a topology into verdicts.
//!
//! | module, in the order of the data | contents |
//! |---|---|
//! | `settings` | the length of a round and the probe timeout |
//! | `ids`, `wording` | interned ids; lists, counts and probabilities in words |
//! | [`topology`] | what the cluster publishes, validated and indexed |
//! | [`verdict`] | the vocabulary of a diagnosis: subject, region, fact, remedy, verdict, incident |
//! | [`evidence`] | observations, and the cells that count them |
//! | `regions` | which paths fail together, and the share of a cell that lies in a region |
//! | `inference` | from counts to probabilities: prior, likelihood, posterior, judgement |
//! | [`requests`] | follow-up probes, chosen by expected information gain |
//! | [`plan`] | the probes that each vantage makes |
//! | `catalogue` | the causes of each region, with their claims, facts and remedies |
//! | [`findings`] | deviations without a region of failing cells: answers, exposure, hazards |
//! | `explanation` | from a judgement to a verdict: sentence, table, what is ruled out |
//! | `incident` | verdicts over time |
//! | [`view`], `matrix` | the state that page, API and metrics show |
//! | [`checkpoint`] | the state that outlives the process |
//! | `engine` | topology and observations in, a view out |
//! | [`replay`] | a recorded stream through the same engine |
//!
//! A module uses only modules above it in this table.
//!
//! No clock, no I/O, no async, no threads. Only ordered maps, float functions from `libm`, weights in fixed point and
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
mod headline;
mod ids;
mod incident;
mod inference;
mod matrix;
mod regions;
mod settings;
mod wording;

pub use checkpoint::{Checkpoint, VERSION as CHECKPOINT_VERSION};
pub use engine::{Engine, ObservationResult};
pub use headline::MAX_HEADLINE_WORDS;
pub use settings::Settings;
