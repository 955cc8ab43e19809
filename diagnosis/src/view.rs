//! The state that people look at: the matrix, the incidents, and the age of both.

use parallax_model::{EventTime, Front, Micros, OwnFault, Placement, Round, TargetId, Vantage};
use serde::{Deserialize, Serialize};

use crate::{
    evidence::baseline::UsualAnswer,
    findings::{ExposureView, Finding, ForbiddenView, Hazard, NameView},
    verdict::{Incident, NotExcluded},
};

/// Everything that the page, the API and the live display show at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The instant.
    pub at: EventTime,
    /// Length of a round.
    #[serde(rename = "interval_us")]
    pub interval: Micros,
    /// The last round that was judged.
    #[serde(rename = "judged")]
    pub last_judged_round: Option<Round>,
    /// All vantages that are expected to report or do report.
    pub vantages: Vec<VantageView>,
    /// One row per target, with a cell for each vantage that is planned to probe it or has probed it, in the order of
    /// `vantages`.
    pub matrix: Vec<MatrixRow>,
    /// Open incidents first, then closed ones, newest first.
    pub incidents: Vec<Incident>,
    /// Subjects that fail while no cause is named.
    #[serde(rename = "investigating")]
    pub investigations: Vec<Investigation>,
    /// Deviations that are not a region of failures: answer sets, exposure.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Configurations in which clients would fail, although none fails yet.
    #[serde(default)]
    pub hazards: Vec<Hazard>,
    /// Causes that these vantages cannot rule out, even if the matrix is green.
    #[serde(default)]
    pub not_excluded: Vec<NotExcluded>,
    /// DNS answers by name, resolver and client.
    #[serde(default)]
    pub names: Vec<NameView>,
    /// Hosts of one ingress class at the fronts of another.
    #[serde(default)]
    pub exposures: Vec<ExposureView>,
    /// Requests that must stay unanswered, as declared by targets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<ForbiddenView>,
    /// Follow-up probes beyond the plan that are still outstanding.
    #[serde(default)]
    #[serde(rename = "asks")]
    pub probe_requests: Vec<crate::requests::ProbeRequest>,
    /// Probe statistics.
    pub counters: Counters,
}

/// A vantage and when it last reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VantageView {
    /// The vantage.
    pub vantage: Vantage,
    /// Start of its newest observation.
    pub last_seen: Option<EventTime>,
    /// Whether it reports.
    pub state: VantageState,
    /// Id of the open incident whose cause keeps its reports from the aggregator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained_by: Option<String>,
    /// Its observations that were discarded since the process started: too late, dated in the future, or beyond its share.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub discarded: u64,
    /// Whether observations were discarded within the time after which a vantage counts as silent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "discarding")]
    pub is_discarding: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether a vantage reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VantageState {
    /// No report yet.
    Waiting,
    /// Reports arrive.
    Reporting,
    /// No report for three intervals plus the probe timeout; its last reports are no longer evidence.
    Silent,
}

/// One target over all vantages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The target.
    pub target: TargetId,
    /// Fronts that it was last seen to connect to.
    pub fronts: Vec<Front>,
    /// Whether it never succeeded on any channel since it appeared.
    #[serde(rename = "never_ok")]
    pub never_succeeded: bool,
    /// First probed within the last minute, by a mesh that had probed others before. The target may still be rolling
    /// out, so failures are weak evidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "new")]
    pub is_new: bool,
    /// Its owner marked it as not in service yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// Usual answers by class of status, best first. Empty until they are known, and for targets that are not probed
    /// over HTTP or that declare the expected status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline: Vec<UsualAnswer>,
    /// One cell for each vantage that is planned to probe the target or has probed it. In a large mesh, only some
    /// vantages probe a target.
    pub cells: Vec<MatrixCell>,
}

impl MatrixRow {
    /// Formats the usual answers, such as `200 by nginx, 404`; empty until they are known.
    #[must_use]
    pub fn usual_answers(&self) -> String {
        let answer = |answer: &UsualAnswer| {
            let servers: Vec<_> = answer.servers.iter().map(ToString::to_string).collect();
            if servers.is_empty() {
                answer.status.to_string()
            } else {
                format!("{} by {}", answer.status, servers.join(" or "))
            }
        };
        let answers: Vec<_> = self.baseline.iter().map(answer).collect();
        answers.join(", ")
    }
}

/// One target from one vantage, over the path of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixCell {
    /// Index of the vantage in [`View::vantages`].
    pub vantage: usize,
    /// State of the cell.
    pub state: CellState,
    /// Placement of client and entry.
    pub placement: Placement,
    /// Start of the newest probe.
    #[serde(rename = "last")]
    pub last_probe: Option<EventTime>,
    /// Probes in the window shown.
    pub probes: u64,
    /// Failures among them.
    pub failures: u64,
    /// The newest failure in words ("refused in connect"), if there is one in the window. In an `Unknown` cell, it is
    /// the failure of a probe that a cache or a Service rule sent to a destination from before the latest change;
    /// such a probe counts neither as a probe nor as a failure.
    #[serde(rename = "failure")]
    pub last_failure: Option<String>,
    /// The prober's own fault that prevented the newest probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_probed: Option<OwnFault>,
}

impl MatrixCell {
    /// Whether every fresh probe failed, even if it is the only one. It is no evidence that a fault is over.
    #[must_use]
    pub const fn every_probe_failed(&self) -> bool {
        self.probes > 0 && self.failures == self.probes
    }

    /// Why an `Unknown` cell of a reporting vantage has no evidence, if that is known: the prober's own fault, or the failure of
    /// an outdated probe.
    #[must_use]
    pub fn unknown_reason(&self) -> Option<String> {
        let own = self
            .not_probed
            .map(|fault| format!("not probed: {}", fault.reason()));
        own.or_else(|| self.last_failure.clone())
    }
}

/// State of a cell. Unknown is never shown as ok.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// No fresh evidence.
    Unknown,
    /// All fresh probes succeeded.
    Ok,
    /// Some fresh probes failed, some succeeded. Also the only fresh probe failed, and the target has worked: one lost probe
    /// shows no failing path.
    Flaky,
    /// All fresh probes failed.
    Failing,
}

/// A subject that fails while no cause is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// The subject that fails.
    pub subject: crate::verdict::Subject,
    /// What is known so far, in one sentence.
    pub sentence: String,
    /// First failing round.
    pub since: EventTime,
    /// The likely explanation is transient (an endpoint that outlives its node, an absent prober), so this does not
    /// count as a failure yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "excused")]
    pub transient: bool,
}

/// Counts of observations, and of those excluded from judgement by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Accepted observations.
    #[serde(rename = "counted")]
    pub accepted: u64,
    /// Arrived after their round was judged.
    pub late: u64,
    /// About a target or vantage that the topology does not know.
    pub unknown: u64,
    /// With impossible times or fields.
    pub implausible: u64,
    /// Beyond the share of its vantage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over_budget: u64,
    /// Faults of the prober itself.
    #[serde(rename = "own_faults")]
    pub prober_faults: u64,
}
