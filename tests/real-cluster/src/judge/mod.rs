//! From what was seen to a verdict. Pure: everything here is a function of the timeline.

mod alerts;
mod fault;
mod ordinary;
mod stories;
#[cfg(test)]
mod tests;
mod users;

use serde::Serialize;

pub use alerts::{FiredAlert, fired};
pub use stories::{IncidentHistory, TimeSpan, stories};
pub use users::{UserFailures, UserRequests};

use crate::{
    install::Destinations,
    observe::{FindingOrHazard, StatusLook, Timeline},
    step::{Kind, Step},
};

/// When things happened, in seconds since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepTimes {
    /// The first action of the event or fault.
    pub fault: f64,
    /// The last action of it.
    pub acted: f64,
    /// The first action of the cure.
    pub cured: Option<f64>,
    /// The last action of it: what was broken works again.
    pub healed: Option<f64>,
    /// The end of the watch.
    pub ended: f64,
}

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Parallax said what it should.
    Passed,
    /// It did not.
    Failed,
    /// The cluster or the suite did something else than the step says, so nothing is proved.
    Unsound,
    /// Something is missing that the step needs.
    NotRun,
}

/// Everything that is said about a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not pass.
    pub reasons: Vec<String>,
    /// Seconds from the fault to its name.
    pub named_after: Option<f64>,
    /// Seconds from the cure to the end of the incident.
    pub closed_after: Option<f64>,
    /// The incident that names the fault.
    pub named: Vec<IncidentHistory>,
    /// Every other incident.
    pub extras: Vec<IncidentHistory>,
    /// Alerts that fired.
    pub fired: Vec<FiredAlert>,
    /// Ends of `parallax status`.
    pub statuses: Vec<StatusLook>,
    /// Findings and hazards that came up.
    pub hints: Vec<FindingOrHazard>,
    /// Red cells that users did not feel.
    pub red: Vec<UnfeltFailure>,
    /// Failures of users.
    pub felt: Vec<UserFailures>,
}

/// A red cell that users did not feel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnfeltFailure {
    /// The target.
    pub target: String,
    /// Who asked.
    pub vantage: String,
    /// Its newest failure.
    pub failure: String,
    /// When.
    pub span: TimeSpan,
}

impl Verdict {
    /// A step that could not be run.
    #[must_use]
    pub fn not_run(reason: String) -> Self {
        Self::empty(Outcome::NotRun, reason)
    }

    /// A step in which something else happened than it says.
    #[must_use]
    pub fn unsound(reason: String) -> Self {
        Self::empty(Outcome::Unsound, reason)
    }

    fn empty(outcome: Outcome, reason: String) -> Self {
        Self {
            outcome,
            reasons: vec![reason],
            named_after: None,
            closed_after: None,
            named: Vec::new(),
            extras: Vec::new(),
            fired: Vec::new(),
            statuses: Vec::new(),
            hints: Vec::new(),
            red: Vec::new(),
            felt: Vec::new(),
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

/// What both kinds of steps are judged by.
struct JudgementInput<'a> {
    timeline: &'a Timeline,
    marks: StepTimes,
    users: UserRequests<'a>,
    destinations: &'a Destinations,
    /// Incidents that were open after the fault and not before.
    stories: Vec<IncidentHistory>,
    fired: Vec<FiredAlert>,
}

impl<'a> JudgementInput<'a> {
    fn of(timeline: &'a Timeline, marks: StepTimes, destinations: &'a Destinations) -> Self {
        Self {
            users: UserRequests::new(&timeline.requests),
            stories: stories(&timeline.looks, marks.fault, marks.ended),
            fired: fired(&timeline.alerts, marks.fault, marks.ended),
            timeline,
            marks,
            destinations,
        }
    }

    /// A verdict with everything that was seen, and no reason yet.
    fn verdict(&self) -> Verdict {
        let (from, until) = (self.marks.fault, self.marks.ended);
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
            extras: Vec::new(),
            fired: self.fired.clone(),
            statuses: statuses.cloned().collect(),
            hints: self.hints(),
            red: Vec::new(),
            felt: self.users.felt(from, until),
        }
    }

    /// Findings and hazards that were not there before.
    fn hints(&self) -> Vec<FindingOrHazard> {
        let states = |from: f64, until: f64| {
            let looks = self
                .timeline
                .looks
                .iter()
                .filter(move |look| look.at >= from && look.at < until);
            looks
                .filter_map(|look| look.state.as_ref().ok())
                .flat_map(|state| &state.hints)
        };
        let before: Vec<&FindingOrHazard> = states(self.marks.fault - 15.0, self.marks.fault).collect();
        let mut new: Vec<FindingOrHazard> = Vec::new();
        for hint in states(self.marks.fault, self.marks.ended) {
            let same = |known: &FindingOrHazard| (&known.kind, &known.subject) == (&hint.kind, &hint.subject);
            if !before.iter().any(|known| same(known)) && !new.iter().any(same) {
                new.push(hint.clone());
            }
        }
        new
    }
}
