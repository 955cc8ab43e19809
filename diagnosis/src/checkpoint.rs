//! What an engine must not forget when its process ends: what ever worked, what it answers while it does, and which
//! incidents are open.
//!
//! Evidence is not part of it: the probers remember the last minutes themselves. A checkpoint bridges what is older, and
//! the time until they have been asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{EventTime, Front, NodeName, ServiceKey, TargetId};
use serde::{Deserialize, Serialize};

use crate::evidence::baseline::{AnswerChange, AnswerClass, Baseline};
pub use crate::incident::RememberedIncident;

/// The form written today. A reader takes what it knows of another one.
pub const VERSION: u32 = 1;

/// Everything that outlives the process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Rounds that ended by then were judged; none in what an engine starts with that has no past.
    pub judged: Option<EventTime>,
    /// What is remembered of each target.
    pub targets: BTreeMap<TargetId, TargetMemory>,
    /// Fronts that took a connection.
    pub fronts: BTreeSet<Front>,
    /// Ports of Services whose endpoints took a direct connection.
    pub endpoints: BTreeSet<(ServiceKey, u16)>,
    /// Names that were resolved.
    pub names: BTreeSet<String>,
    /// Nodes whose prober answered an echo.
    pub nodes: BTreeSet<NodeName>,
    /// Addresses that Services had until lately, and caches of names may still know.
    pub former: BTreeMap<IpAddr, FormerAddress>,
    /// Incidents that are open, and those that were until lately.
    pub incidents: Vec<RememberedIncident>,
}

/// What is remembered of a target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetMemory {
    /// It succeeded once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub worked: bool,
    /// What it answers while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// When the application behind it was last changed, if that was lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_out: Option<EventTime>,
    /// What it answers since, where that is worse.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changed: Option<AnswerChange>,
}

/// An address that a Service had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerAddress {
    /// The Service.
    pub service: ServiceKey,
    /// Until when.
    pub until: EventTime,
}

/// Of a target's memory, what does not change with every answer: whether it ever worked, whether a change of its answers was
/// noticed, and which answers are usual.
type TargetMemoryKey = (bool, bool, Vec<(AnswerClass, u16)>);

impl Checkpoint {
    /// Takes in the parts of another one; what both hold is as the other one says.
    pub fn absorb(&mut self, other: Self) {
        let Self {
            version,
            judged,
            targets,
            fronts,
            endpoints,
            names,
            nodes,
            former,
            incidents,
        } = other;
        self.version = self.version.max(version);
        self.judged = judged.or(self.judged);
        self.targets.extend(targets);
        self.fronts.extend(fronts);
        self.endpoints.extend(endpoints);
        self.names.extend(names);
        self.nodes.extend(nodes);
        self.former.extend(former);
        self.incidents.extend(incidents);
    }

    /// Whether two checkpoints differ only in what changes with every round, or matters for minutes.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        let answers = |checkpoint: &Self| -> BTreeMap<TargetId, TargetMemoryKey> {
            let each = checkpoint.targets.iter().map(|(target, memory)| {
                let answers = memory.baseline.iter().flat_map(|baseline| &baseline.answers);
                let answers = answers.map(|usual| (usual.class, usual.status)).collect();
                (target.clone(), (memory.worked, memory.changed.is_some(), answers))
            });
            each.collect()
        };
        self.fronts == other.fronts
            && self.endpoints == other.endpoints
            && self.names == other.names
            && self.nodes == other.nodes
            && answers(self) == answers(other)
            && self.incidents.len() == other.incidents.len()
            && self
                .incidents
                .iter()
                .zip(&other.incidents)
                .all(|(a, b)| a.agrees_with(b))
    }
}
