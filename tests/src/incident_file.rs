//! Incident files: found, parsed, and checked for contradictions that the types cannot express.

mod check;
mod check_expected;
mod check_preflight;
mod check_service;
mod lines;
mod load;

pub use check::InvalidIncident;
pub use check_preflight::PASSES;
pub use load::{LoadError, list, load, parse};
