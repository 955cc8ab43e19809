//! What an incident is about, coarse enough that one cause is one incident.

use parallax_model::{Front, ServiceKey, TargetId};
use serde::{Deserialize, Serialize};

/// What an incident is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Causes that concern every subject: nodes, pairs, zones, the overlay, the resolvers.
    Cluster,
    /// Endpoints that Kubernetes withdrew from nodes that are not ready, whatever their Service.
    Withdrawn,
    /// All fronts and endpoints of a Service.
    Service(ServiceKey),
    /// A front that no known Service owns.
    Front(Front),
    /// The answers of targets behind one Service that fail alike (by class of failure).
    Answers(ServiceKey, usize),
    /// A target alone.
    Target(TargetId),
    /// The same, slow instead of failing.
    Slow(Box<Scope>),
}

impl Scope {
    /// The same for slow and for failing.
    pub(crate) fn plain(&self) -> &Self {
        match self {
            Self::Slow(inner) => inner,
            other => other,
        }
    }

    pub(super) const fn is_slow(&self) -> bool {
        matches!(self, Self::Slow(_))
    }
}
