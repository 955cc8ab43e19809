//! Before a step the cluster is healthy, and Parallax reports nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::SuiteRun;
use crate::{observe::aggregators, print_uncaptured, step::Installation};

/// How long to wait for leftovers of an earlier step before Parallax is reinstalled; an aggregator that started in it
/// catches up for two minutes.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(150);
/// Time for a new installation to become quiet, including two minutes in which it catches up.
const NEW_INSTALLATION_TIMEOUT: Duration = Duration::from_mins(5);
/// How long it must have been quiet.
const QUIET_PERIOD: Duration = Duration::from_secs(10);

impl SuiteRun {
    /// Waits for a ready and quiet installation. Returns why it had to be reinstalled.
    ///
    /// # Errors
    /// The installation fails.
    pub(super) async fn settle(&self, kind: Installation) -> anyhow::Result<QuietState> {
        let because = if self.installed.get() == Some(kind) {
            match self.quiet_within(LEFTOVER_TIMEOUT).await {
                None => return Ok(QuietState::Quiet(None)),
                Some(noise) => Some(noise),
            }
        } else {
            None
        };
        if let Some(because) = &because {
            print_uncaptured(&format!("    reinstalling Parallax: {because}"));
        }
        self.installed.set(None);
        self.product.install(&self.cluster, kind).await?;
        self.installed.set(Some(kind));
        Ok(match self.quiet_within(NEW_INSTALLATION_TIMEOUT).await {
            None => QuietState::Quiet(because),
            Some(noise) => QuietState::Noisy(noise),
        })
    }

    /// Waits until it has been quiet for a while; otherwise returns what is not quiet at the end.
    pub(super) async fn quiet_within(&self, patience: Duration) -> Option<String> {
        let begin = Instant::now();
        let mut since = None;
        loop {
            match self.noise() {
                None if since.get_or_insert_with(Instant::now).elapsed() >= QUIET_PERIOD => return None,
                None => {}
                Some(noise) => {
                    since = None;
                    if begin.elapsed() > patience {
                        return Some(noise);
                    }
                }
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// Returns the first thing that is not quiet.
    fn noise(&self) -> Option<String> {
        if let Some(complaint) = self.user_failure() {
            return Some(complaint);
        }
        if !self.all_report() {
            return Some("not every vantage reports".to_owned());
        }
        let pods = aggregators(&self.cluster);
        if pods.iter().any(|pod| !pod.ready || pod.terminating) {
            return Some("an aggregator is not ready".to_owned());
        }
        let timeline = self.observer.timeline.borrow();
        for (pod, state) in timeline.newest(self.observer.clock.now(), 3.0) {
            if let Some(incident) = state.open().next() {
                return Some(format!("open: {} {}", incident.cause, incident.sentence));
            }
            if let Some(cell) = state.red().find(|cell| !cell.never_ok) {
                return Some(format!("{} is red from {}", cell.target, cell.vantage));
            }
            if state.warming {
                return Some(format!("{pod} is catching up"));
            }
            if let Some(error) = &state.topology_error {
                return Some(error.clone());
            }
        }
        let alerts = timeline.alerts_now();
        let firing = alerts.iter().find(|alert| alert.firing);
        firing.map(|alert| format!("{} fires", alert.name))
    }
}

/// Whether an installation is quiet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuietState {
    /// It is, with the reason if it was reinstalled.
    Quiet(Option<String>),
    /// It is not, although nothing is wrong.
    Noisy(String),
}
