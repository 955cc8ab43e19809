//! The pure core: observations and topology in, verdicts out.
//!
//! ```text
//! topology ─▶ plan                    what each node should probe
//! observation ─▶ rounds ─▶ cells ─▶ regions ─▶ causes ─▶ verdict ─▶ incident
//!                     └──▶ findings           answers, exposure; hazards from topology and facts
//! ```
//!
//! No clock, no I/O, no async, no threads, ordered maps only, float functions from `libm`, weights in fixed point,
//! folds in sorted order: the same recording gives the same bytes on any machine.
#![forbid(unsafe_code)]

pub mod ask;
pub mod baseline;
pub mod checkpoint;
pub mod findings;
pub mod plan;
pub mod replay;
pub mod text;
pub mod topology;
pub mod verdict;
pub mod view;

mod block;
mod booking;
mod causes;
mod cells;
mod data;
mod doubt;
mod engine;
mod evidence;
mod fit;
mod fold;
mod former;
mod hash;
mod ids;
mod incident;
mod judge;
mod kinds;
mod ledger;
mod likelihood;
mod matrix;
mod pool;
mod posterior;
mod prior;
mod recovery;
mod region;
mod resolvers;
mod rounds;
mod routes;
mod row;
mod scene;
mod separate;
mod seqs;
mod sequential;
mod share;
mod slow;
mod weights;

#[cfg(test)]
mod worked_example;

pub use checkpoint::{Checkpoint, VERSION as CHECKPOINT_VERSION};
pub use engine::{Booked, Engine, Settings};
