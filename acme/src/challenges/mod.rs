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

pub use task::{ChallengeTask, run_until_cancelled};

/// Options for explaining waiting Challenges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeOptions {
    /// The wait before a Challenge is explained: a solver takes a few seconds in any case.
    pub wait_before: Micros,
    /// The lifetime of an explanation while the reason is unchanged.
    pub explanation_ttl: Micros,
    /// The maximum number of concurrent explanations.
    pub max_concurrent: usize,
    /// cert-manager's namespace. If absent, its Pod is not located, because the permission is not granted either.
    pub cert_manager_namespace: Option<String>,
    /// The port of self checks: 80, except in tests.
    pub port: u16,
    /// The interval between checks for due Challenges.
    pub check_interval: Duration,
}

impl Default for ChallengeOptions {
    fn default() -> Self {
        Self {
            wait_before: Micros::from_secs(30),
            explanation_ttl: Micros::from_secs(600),
            max_concurrent: 2,
            cert_manager_namespace: None,
            port: 80,
            check_interval: Duration::from_secs(1),
        }
    }
}
