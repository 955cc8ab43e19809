//! Judges a step. Pure: everything here is a function of the timeline.

mod alerts;
mod coverage;
mod fault;
mod hints;
mod incidents;
mod ordinary;
mod preparation;
#[cfg(test)]
mod tests;
mod users;

use serde::Serialize;

pub use alerts::{FiredAlert, fired_alerts};
pub use coverage::{VantageCoverage, vantage_coverage};
pub use hints::NewHint;
use hints::new_hints;
pub use incidents::{IncidentHistory, TimeSpan, incident_histories};
pub use preparation::Preparation;
pub use users::{UserFailures, UserRequests};

use crate::{
    install::Destinations,
    observe::{Measurement, StatusResult, Timeline},
    step::{Kind, Step},
};

/// Times of a step, in seconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepTimes {
    /// First action of the event or fault.
    pub fault: f64,
    /// Its last action.
    pub acted: f64,
    /// First action of the repair.
    #[serde(rename = "cured")]
    pub repaired: Option<f64>,
    /// Last action of the repair: what was broken works again.
    pub healed: Option<f64>,
    /// End of the observation.
    pub ended: f64,
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Parallax reported what is expected.
    Passed,
    /// It did not.
    Failed,
    /// The cluster or the suite did not behave as the step describes, so nothing is proved.
    Unsound,
    /// A requirement of the step is missing.
    NotRun,
}

/// Judgement of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Its outcome.
    pub outcome: Outcome,
    /// Reasons why it did not pass.
    pub reasons: Vec<String>,
    /// Seconds from the fault until it was named.
    pub named_after: Option<f64>,
    /// Seconds from the repair to the end of the incident.
    pub closed_after: Option<f64>,
    /// The incidents that name the fault.
    pub named: Vec<IncidentHistory>,
    /// All other incidents.
    #[serde(rename = "extras")]
    pub other_incidents: Vec<IncidentHistory>,
    /// Incidents that opened before the event.
    pub preparation: Vec<IncidentHistory>,
    /// Alerts that fired.
    pub fired: Vec<FiredAlert>,
    /// Results of `parallax status`.
    pub statuses: Vec<StatusResult>,
    /// New findings and hazards.
    pub hints: Vec<NewHint>,
    /// Red cells that users did not notice.
    #[serde(rename = "red")]
    pub unnoticed_failures: Vec<UnfeltFailure>,
    /// Failures of users.
    #[serde(rename = "felt")]
    pub user_failures: Vec<UserFailures>,
    /// The rounds that each vantage probed.
    #[serde(rename = "rounds")]
    pub coverage: Vec<VantageCoverage>,
}

/// A red cell that users did not notice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnfeltFailure {
    /// The target.
    pub target: String,
    /// The vantage.
    pub vantage: String,
    /// Its newest failure.
    pub failure: String,
    /// The time span.
    pub span: TimeSpan,
}

impl Verdict {
    /// Builds the verdict of a step that could not run.
    #[must_use]
    pub fn not_run(reason: String) -> Self {
        Self::empty(Outcome::NotRun, reason)
    }

    /// Builds the verdict of a step that did not behave as described.
    #[must_use]
    pub fn unsound(reason: String) -> Self {
        Self::empty(Outcome::Unsound, reason)
    }

    /// Builds the verdict of a step in which Parallax did not do what is expected before it could be observed.
    #[must_use]
    pub fn failed(reason: String) -> Self {
        Self::empty(Outcome::Failed, reason)
    }

    /// Fails if an action took longer than permitted.
    pub fn limit_times(&mut self, measured: &[Measurement]) {
        for measured in measured.iter().filter(|measured| measured.is_too_long()) {
            self.reasons.push(format!("too long: {measured}"));
            if self.outcome == Outcome::Passed {
                self.outcome = Outcome::Failed;
            }
        }
    }

    fn empty(outcome: Outcome, reason: String) -> Self {
        Self {
            outcome,
            reasons: vec![reason],
            named_after: None,
            closed_after: None,
            named: Vec::new(),
            other_incidents: Vec::new(),
            preparation: Vec::new(),
            fired: Vec::new(),
            statuses: Vec::new(),
            hints: Vec::new(),
            unnoticed_failures: Vec::new(),
            user_failures: Vec::new(),
            coverage: Vec::new(),
        }
    }
}

/// Judges a step.
#[must_use]
pub fn judge(step: &Step, timeline: &Timeline, marks: StepTimes, destinations: &Destinations) -> Verdict {
    let seen = JudgementInput::of(timeline, marks, destinations);
    match step.kind {
        Kind::Ordinary => ordinary::judge(&step.expect, &seen),
        Kind::Fault => fault::judge(&step.expect, &seen),
    }
}

/// Input common to both kinds of steps.
struct JudgementInput<'a> {
    timeline: &'a Timeline,
    times: StepTimes,
    users: UserRequests<'a>,
    destinations: &'a Destinations,
    /// Incidents that were open after the fault and not before.
    incidents: Vec<IncidentHistory>,
    fired: Vec<FiredAlert>,
}

impl<'a> JudgementInput<'a> {
    fn of(timeline: &'a Timeline, marks: StepTimes, destinations: &'a Destinations) -> Self {
        Self {
            users: UserRequests::new(&timeline.requests),
            incidents: incident_histories(&timeline.samples, marks.fault, marks.ended),
            fired: fired_alerts(&timeline.alerts, marks.fault, marks.ended),
            timeline,
            times: marks,
            destinations,
        }
    }

    /// Builds a verdict with all observations, and no reasons yet.
    fn verdict(&self) -> Verdict {
        let (from, until) = (self.times.fault, self.times.ended);
        let statuses = self
            .timeline
            .statuses
            .iter()
            .filter(|look| look.at >= from && look.until <= until);
        Verdict {
            outcome: Outcome::Passed,
            reasons: Vec::new(),
            named_after: None,
            closed_after: None,
            named: Vec::new(),
            other_incidents: Vec::new(),
            preparation: Vec::new(),
            fired: self.fired.clone(),
            statuses: statuses.cloned().collect(),
            hints: new_hints(self.timeline, self.times.fault, self.times.ended),
            unnoticed_failures: Vec::new(),
            user_failures: self.users.failures_by_client(from, until),
            coverage: vantage_coverage(self.timeline, from, until),
        }
    }
}
