//! What Parallax must say, and what it may say.

use serde::Deserialize;

use super::{Names, resolve};

/// What Parallax must say, and what it may say.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ExpectedOutcome {
    /// The fault: one of these must be said.
    pub named: Vec<IncidentPattern>,
    /// Within how many seconds of the fault.
    pub within: u64,
    /// Destinations that fail while the fault lasts, by the control client. They prove that the fault is there.
    pub felt: Vec<String>,
    /// Destinations at which an ordinary event lets users fail, as by a DNS cache.
    pub may_feel: Vec<String>,
    /// Incidents that may be open beside, and are counted for nothing.
    pub may: Vec<IncidentPattern>,
    /// Alerts that may fire in an ordinary step, or beside the incident's in a fault.
    pub alerts: Vec<String>,
    /// Kinds of findings and hazards of severity warning or above that may be there.
    pub findings: Vec<String>,
    /// Within how many seconds of the cure the incident closes.
    pub closed_within: u64,
    /// The alert of the incident fires from its beginning to the cure without a gap.
    pub alert_uninterrupted: bool,
    /// The incident keeps its id.
    pub keeps_id: bool,
    /// The most incidents that may be open beside it; any number where absent.
    pub most_extras: Option<usize>,
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
            most_extras: None,
        }
    }
}

impl ExpectedOutcome {
    /// The same with every name replaced.
    ///
    /// # Errors
    /// A name that is unknown.
    pub fn resolved(&self, names: &impl Names) -> anyhow::Result<Self> {
        let all = |sayings: &[IncidentPattern]| -> anyhow::Result<Vec<IncidentPattern>> {
            sayings.iter().map(|saying| saying.resolved(names)).collect()
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

/// A description of an incident: everything that is given must hold.
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
    /// Whether one of its words stands in the name of a target.
    #[must_use]
    pub fn names(&self, target: &str) -> bool {
        self.about.iter().any(|word| target.contains(word.as_str()))
    }
}
