//! What Parallax must report, and what it may report.

use serde::Deserialize;

use super::{Names, resolve};

/// What Parallax must report, and what it may report.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedOutcome {
    /// The fault: an incident that matches one of these must be reported.
    pub named: Vec<IncidentPattern>,
    /// Limit in seconds from the fault.
    pub within: u64,
    /// Destinations that fail for the control clients during the fault. They prove that the fault is effective.
    pub felt: Vec<String>,
    /// Destinations at which an ordinary event may cause failures of users, for example through a DNS cache.
    pub may_feel: Vec<String>,
    /// Further incidents that may be open, and are ignored.
    pub may: Vec<IncidentPattern>,
    /// Further alerts that may fire.
    pub alerts: Vec<String>,
    /// Kinds of findings and hazards of severity warning or above that may appear.
    pub findings: Vec<String>,
    /// Limit in seconds from the repair until the incident closes.
    pub closed_within: u64,
    /// Whether the incident's alert must fire without a gap until the repair.
    pub alert_uninterrupted: bool,
    /// Whether the incident must keep its id.
    pub keeps_id: bool,
    /// Maximum number of incidents that name the fault [default: 1].
    pub most_incidents: usize,
    /// Maximum number of other incidents [default: 0].
    pub most_extras: usize,
    /// Maximum number of rounds that each vantage may miss; observations that a prober drops are not permitted either
    /// [default: reported, not judged].
    pub most_missed_rounds: Option<u64>,
}

impl Default for ExpectedOutcome {
    fn default() -> Self {
        Self {
            named: Vec::new(),
            within: 60,
            felt: Vec::new(),
            may_feel: Vec::new(),
            may: Vec::new(),
            alerts: Vec::new(),
            findings: Vec::new(),
            closed_within: 60,
            alert_uninterrupted: true,
            keeps_id: false,
            most_incidents: 1,
            most_extras: 0,
            most_missed_rounds: None,
        }
    }
}

impl ExpectedOutcome {
    /// Returns a copy with every name replaced.
    ///
    /// # Errors
    /// An unknown name.
    pub fn resolved(&self, names: &impl Names) -> anyhow::Result<Self> {
        let all = |patterns: &[IncidentPattern]| -> anyhow::Result<Vec<IncidentPattern>> {
            patterns.iter().map(|saying| saying.resolved(names)).collect()
        };
        Ok(Self {
            named: all(&self.named)?,
            may: all(&self.may)?,
            ..self.clone()
        })
    }
}

impl IncidentPattern {
    fn resolved(&self, names: &impl Names) -> anyhow::Result<Self> {
        let about: anyhow::Result<Vec<String>> = self.about.iter().map(|word| resolve(word, names)).collect();
        Ok(Self {
            about: about?,
            ..self.clone()
        })
    }
}

/// A pattern for incidents: everything given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct IncidentPattern {
    /// The likeliest cause is one of these.
    pub cause: Vec<String>,
    /// The region is one of these.
    pub region: Vec<String>,
    /// The sentence, a cause's title, the subject, the region's members or the targets contain each of these.
    pub about: Vec<String>,
}

impl IncidentPattern {
    /// Reports whether the name of a target contains one of its texts.
    #[must_use]
    pub fn names(&self, target: &str) -> bool {
        self.about.iter().any(|word| target.contains(word.as_str()))
    }
}
