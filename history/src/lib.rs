//! Persistent history: the store of incidents, verdicts and failures, and recordings of the engine's input.
//!
//! ```text
//! engine ─▶ store (SQLite: incidents, roll-ups, failures) ─▶ page and API
//!        └▶ recording (compressed segments, names pseudonymized on request) ─▶ replay
//! ```
#![forbid(unsafe_code)]

pub mod recording;
pub mod store;
