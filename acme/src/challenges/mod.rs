//! Automatic explanations of waiting Challenges.
//!
//! ```text
//! cert-manager state ─▶ registry (which wait, which are due) ─▶ explain (runs, placement) ─▶ page, API, metrics
//! ```
//! The leader replays the same self check, with the same token and key, from every node, as `parallax explain
//! challenge/…` does, with its own runs. The work is bounded: a few Challenges at a time, the longest waiting
//! first, and each again only after a while or when its reason changes. Nothing is created or written.

mod cluster;
mod explain;
mod linked_incident;
mod registry;
mod task;
#[cfg(test)]
mod tests;

use std::time::Duration;

use parallax_model::Micros;

pub use task::{ChallengeTask, follow};

/// Options for explaining waiting Challenges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The wait before a Challenge is explained: a solver takes a few seconds in any case.
    pub after: Micros,
    /// The lifetime of an explanation while the reason is unchanged.
    pub again: Micros,
    /// The maximum number of concurrent explanations.
    pub at_once: usize,
    /// cert-manager's namespace. If absent, its Pod is not located, because the permission is not granted either.
    pub cert_manager: Option<String>,
    /// The port of self checks: 80, except in tests.
    pub port: u16,
    /// The interval between checks for due Challenges.
    pub tick: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            after: Micros::from_secs(30),
            again: Micros::from_secs(600),
            at_once: 2,
            cert_manager: None,
            port: 80,
            tick: Duration::from_secs(1),
        }
    }
}
