//! Judges what Parallax reports before the event of a step: while it is installed, while the step is prepared, and while
//! the cluster becomes quiet.

use super::{IncidentHistory, Outcome, UserRequests, Verdict, incident_histories};
use crate::{observe::Timeline, step::IncidentPattern};

/// Time before an incident in which a failure of a user justifies it, in seconds.
const USER_FAILURE_MARGIN_S: f64 = 30.0;

/// The time before an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preparation {
    /// Beginning of the step.
    pub from: f64,
    /// The event.
    pub until: f64,
    /// Whether the previous version of Parallax was installed in that time: its reports are recorded and not judged.
    pub with_previous_version: bool,
}

impl Verdict {
    /// Adds the incidents that opened before the event. One that no failure of a user justifies fails the step.
    pub fn judge_preparation(
        &mut self,
        timeline: &Timeline,
        preparation: Preparation,
        allowed: &[IncidentPattern],
    ) {
        let Preparation { from, until, .. } = preparation;
        let users = UserRequests::new(&timeline.requests);
        self.preparation = incident_histories(&timeline.samples, from, until);
        if preparation.with_previous_version {
            return;
        }
        let justified = |history: &IncidentHistory| {
            let began = history.began();
            let mut failed = users.failed(began - USER_FAILURE_MARGIN_S, began);
            failed.next().is_some() || allowed.iter().any(|pattern| pattern.matches(&history.incident))
        };
        let reasons: Vec<String> = self
            .preparation
            .iter()
            .filter(|history| !justified(history))
            .map(|history| {
                let before = until - history.began();
                format!("{before:.0} s before the event an incident opens: {history}")
            })
            .collect();
        if self.outcome == Outcome::Passed && !reasons.is_empty() {
            self.outcome = Outcome::Failed;
        }
        self.reasons.extend(reasons);
    }
}
