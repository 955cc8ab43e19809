//! Scope of an incident, coarse enough that one cause is one incident.

use parallax_model::{Front, ServiceKey, TargetId};
use serde::{Deserialize, Serialize};

/// Scope of an incident.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Causes that affect every subject: nodes, pairs, zones, the overlay, the resolvers.
    Cluster,
    /// Endpoints that Kubernetes withdrew from nodes that are not ready, of any Service.
    Withdrawn,
    /// All fronts and endpoints of a Service.
    Service(ServiceKey),
    /// A front that no known Service owns.
    Front(Front),
    /// The answers of targets behind one Service that fail alike (by class of failure).
    Answers(ServiceKey, usize),
    /// A single target.
    Target(TargetId),
    /// Slow successes within a scope, instead of failures.
    Slow(Box<Scope>),
}

impl Scope {
    /// Returns the scope regardless of slow or failing.
    pub(crate) fn base(&self) -> &Self {
        match self {
            Self::Slow(inner) => inner,
            other => other,
        }
    }

    /// Returns the Service of a scope that is about one, unless it is about slowness.
    pub(super) const fn service(&self) -> Option<&ServiceKey> {
        match self {
            Self::Service(service) | Self::Answers(service, _) => Some(service),
            Self::Cluster | Self::Withdrawn | Self::Front(_) | Self::Target(_) | Self::Slow(_) => None,
        }
    }

    /// Reports whether an incident or a report of this scope decides a tie that one of another scope is in: whether the
    /// cluster or a Service is at fault. A slow request has causes of its own.
    pub(super) fn decides_tie_of(&self, other: &Self) -> bool {
        *self == Self::Cluster && !other.is_slow()
    }

    pub(super) const fn is_slow(&self) -> bool {
        matches!(self, Self::Slow(_))
    }
}
