//! Challenges of cert-manager that wait, each with an explanation that nobody had to ask for.
//!
//! ```text
//! picture of cert-manager ─▶ book (which wait, which are due) ─▶ explain (two runs, a seat) ─▶ page, API, metrics
//! ```
//! Who leads replays the very same self check, token and key, from every node, as `parallax explain challenge/…` does,
//! through its own desk of runs. Bounded: so many at a time, again only after a while or when the reason says something
//! else, those that wait longest first. Nothing is created and nothing written.

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

/// How Challenges that wait are explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long one waits before it is looked at: a solver takes a few seconds in any case.
    pub after: Micros,
    /// How long an explanation stands while the reason says the same.
    pub again: Micros,
    /// Explained at one time.
    pub at_once: usize,
    /// Where cert-manager's pod is looked for; it is not without, because the right to look is not there then.
    pub cert_manager: Option<String>,
    /// What self checks ask, 80 but in tests.
    pub port: u16,
    /// How often it is looked for what is due.
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
