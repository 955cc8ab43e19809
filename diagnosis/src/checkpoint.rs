//! The engine state that outlives its process: what has ever worked, the usual answers of each target, and the open
//! incidents.
//!
//! Evidence is not part of a checkpoint, because the probers keep the last minutes of observations themselves. A
//! checkpoint covers everything older, and the time until the probers have resent those minutes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{EventTime, Front, NodeName, ServiceKey, TargetId};
use serde::{Deserialize, Serialize};

use crate::evidence::baseline::{AnswerChange, AnswerClass, Baseline};
pub use crate::incident::RememberedIncident;

/// The format version that this build writes. A reader takes the fields it knows from other versions.
pub const VERSION: u32 = 1;

/// The state that outlives the process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// End of the last judged round; `None` for an engine without a past.
    #[serde(rename = "judged")]
    pub judged_until: Option<EventTime>,
    /// Memory of each target.
    pub targets: BTreeMap<TargetId, TargetMemory>,
    /// Fronts that have accepted a connection.
    pub fronts: BTreeSet<Front>,
    /// Service ports whose endpoints have accepted a direct connection.
    pub endpoints: BTreeSet<(ServiceKey, u16)>,
    /// Names that have been resolved.
    pub names: BTreeSet<String>,
    /// Nodes whose prober has answered an echo.
    pub nodes: BTreeSet<NodeName>,
    /// Recent former addresses of Services, which DNS caches may still return.
    #[serde(rename = "former")]
    pub former_addresses: BTreeMap<IpAddr, FormerAddress>,
    /// Open incidents, and recently closed ones.
    pub incidents: Vec<RememberedIncident>,
}

/// Memory of one target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetMemory {
    /// Whether the target has ever succeeded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub worked: bool,
    /// The usual answers of the target while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// Time of the last rollout of the application behind it, if recent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "rolled_out")]
    pub last_rollout: Option<EventTime>,
    /// The answer since that rollout, if it is worse.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "changed")]
    pub(crate) answer_change: Option<AnswerChange>,
}

/// A former address of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerAddress {
    /// The Service.
    pub service: ServiceKey,
    /// End of the time in which the Service had the address.
    pub until: EventTime,
}

/// The part of a target's memory that does not change with every answer: whether it ever worked, whether a changed
/// answer is known, and the usual answers by class and status.
type TargetMemoryKey = (bool, bool, Vec<(AnswerClass, u16)>);

impl Checkpoint {
    /// Merges another checkpoint into this one. Where both have an entry, the other one wins.
    pub fn merge(&mut self, other: Self) {
        let Self {
            version,
            judged_until: judged,
            targets,
            fronts,
            endpoints,
            names,
            nodes,
            former_addresses: former,
            incidents,
        } = other;
        self.version = self.version.max(version);
        self.judged_until = judged.or(self.judged_until);
        self.targets.extend(targets);
        self.fronts.extend(fronts);
        self.endpoints.extend(endpoints);
        self.names.extend(names);
        self.nodes.extend(nodes);
        self.former_addresses.extend(former);
        self.incidents.extend(incidents);
    }

    /// Reports whether two checkpoints are equal apart from values that change every round or matter only for
    /// minutes.
    #[must_use]
    pub fn is_equivalent_to(&self, other: &Self) -> bool {
        let answers = |checkpoint: &Self| -> BTreeMap<TargetId, TargetMemoryKey> {
            let each = checkpoint.targets.iter().map(|(target, memory)| {
                let answers = memory.baseline.iter().flat_map(|baseline| &baseline.answers);
                let answers = answers.map(|usual| (usual.class, usual.status)).collect();
                (
                    target.clone(),
                    (memory.worked, memory.answer_change.is_some(), answers),
                )
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
                .all(|(a, b)| a.is_equivalent_to(b))
    }
}
