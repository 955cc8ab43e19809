//! What people look at: the matrix, the incidents and how old it all is.

use parallax_model::{EventTime, Front, Micros, Placement, Round, TargetId, Vantage};
use serde::{Deserialize, Serialize};

use crate::{
    evidence::baseline::UsualAnswer,
    findings::{ExposureView, Finding, ForbiddenView, Hazard, NameView},
    verdict::{Incident, NotExcluded},
};

/// Everything the page, the API and the live display show, at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The instant.
    pub at: EventTime,
    /// Length of a round.
    #[serde(rename = "interval_us")]
    pub interval: Micros,
    /// The last round that was judged.
    pub judged: Option<Round>,
    /// Every vantage that should report, and every one that does.
    pub vantages: Vec<VantageView>,
    /// One row a target, with a cell for each vantage that is to ask for it or did, in the order of `vantages`.
    pub matrix: Vec<MatrixRow>,
    /// Open incidents first, then closed ones, newest first.
    pub incidents: Vec<Incident>,
    /// Failing, and no cause named yet.
    pub investigating: Vec<Investigation>,
    /// Wrong without being a region of failure: answer sets, exposure.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Who would fail though nobody does yet.
    #[serde(default)]
    pub hazards: Vec<Hazard>,
    /// What these vantages cannot exclude, however green the matrix.
    #[serde(default)]
    pub not_excluded: Vec<NotExcluded>,
    /// What each name is told to be, by whom, to whom.
    #[serde(default)]
    pub names: Vec<NameView>,
    /// Hosts of one ingress class at the fronts of another.
    #[serde(default)]
    pub exposures: Vec<ExposureView>,
    /// Questions that must stay without an answer, as targets say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<ForbiddenView>,
    /// Probes asked for beyond the plan, to settle what is open.
    #[serde(default)]
    pub asks: Vec<crate::requests::ProbeRequest>,
    /// What was counted and what was not.
    pub counters: Counters,
}

/// A vantage and its signs of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VantageView {
    /// The vantage.
    pub vantage: Vantage,
    /// Start of its newest observation.
    pub last_seen: Option<EventTime>,
    /// Whether it speaks.
    pub state: VantageState,
}

/// Whether a vantage speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VantageState {
    /// Never heard of.
    Waiting,
    /// Reports arrive.
    Reporting,
    /// Nothing for three intervals: whatever it last said is no longer evidence.
    Silent,
}

/// One target over all vantages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The target.
    pub target: TargetId,
    /// What it was last seen to connect to.
    pub fronts: Vec<Front>,
    /// Never succeeded on any channel since it appeared.
    pub never_ok: bool,
    /// First probed within the last minute, by a mesh that had probed others before: it may still be being rolled out, so that
    /// it fails says little.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new: bool,
    /// Its owner says that it is not in service yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// What it answers while it works, by class of status, the best first; empty until that is known, and for targets that
    /// are not asked over HTTP or say themselves what to expect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline: Vec<UsualAnswer>,
    /// What is known from each vantage that is to ask for it or did: a large mesh asks from some of its vantages only.
    pub cells: Vec<MatrixCell>,
}

impl MatrixRow {
    /// The usual answers of the target, as `200 by nginx, 404`; empty until they are known.
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

/// One target from one vantage, through the way a user would take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixCell {
    /// Index of the vantage in [`View::vantages`].
    pub vantage: usize,
    /// Colour.
    pub state: CellState,
    /// Placement of client and entry.
    pub placement: Placement,
    /// Start of the newest probe.
    pub last: Option<EventTime>,
    /// Probes in the shown window.
    pub probes: u64,
    /// Failures among them.
    pub failures: u64,
    /// The newest failure in words ("refused in connect"), if any in the window. Beside `Unknown` it is that of a
    /// probe that a cache or a rule led where it would have gone before the latest change, which counts neither as a probe nor as a failure.
    pub failure: Option<String>,
}

/// Colour of a cell. Unknown is never shown as ok.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Nothing fresh is known.
    Unknown,
    /// All fresh probes succeeded.
    Ok,
    /// Some failed, some succeeded.
    Flaky,
    /// All fresh probes failed.
    Failing,
}

/// A subject that fails while no cause is named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Investigation {
    /// What fails.
    pub subject: crate::verdict::Subject,
    /// What is known so far, in one sentence.
    pub sentence: String,
    /// First failing round.
    pub since: EventTime,
    /// What would explain it passes by itself (an endpoint that outlives its node, a prober of ours that is away): it is
    /// waited for, and is no failure so far.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excused: bool,
}

/// What came in, and what was left out of judgement and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Observations that count.
    pub counted: u64,
    /// Came after their round was judged.
    pub late: u64,
    /// Of a target or vantage that the topology does not know.
    pub unknown: u64,
    /// Times or fields that cannot be.
    pub implausible: u64,
    /// The prober's own faults.
    pub own_faults: u64,
}
