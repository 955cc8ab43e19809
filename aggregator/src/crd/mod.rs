//! Custom resources: `Target` says what should be reachable, `Run` asks at once.
//!
//! ```text
//! Target ─▶ judged (fields, scope, duplicates) ─▶ joined to the topology, within a scope of its own ─▶ plan
//!               └▶ status: Accepted, with the reason
//! Run ─▶ the desk of runs ─▶ status: Accepted, Complete, Passed, a few results; removed after its time to live
//! ```
//!
//! `Preflight` is answered by a controller of its own (`parallax preflight controller`), which has the rights that it takes;
//! its types are here beside the others.
//!
//! Each object is judged alone: what is wrong with one never stops another.

mod judgement;
pub mod objects;
pub mod preflights;
mod runs;
mod targets;
mod types;

#[cfg(test)]
mod tests;

pub(crate) use judgement::{TargetJudgement, TargetObjects, judge};
pub(crate) use runs::follow as follow_runs;
pub(crate) use targets::TargetController;
pub use types::{Condition, definitions as custom_resources, yaml as custom_resource_definitions};
