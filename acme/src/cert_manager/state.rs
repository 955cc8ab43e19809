//! What is known of cert-manager's objects, and why of a kind nothing is.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parallax_kubernetes::{topology_state::SourceError, watch::Key};
use parallax_preflight::{Certificate, Challenge, Issuer};

/// Everything that is known, each kind by namespace and name. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct CertManagerState {
    pub(crate) certificates: ObjectStore<Certificate>,
    pub(crate) issuers: ObjectStore<Issuer>,
    /// Their keys have no namespace.
    pub(crate) cluster_issuers: ObjectStore<Issuer>,
    /// The Challenges.
    pub challenges: ObjectStore<Challenge>,
}

/// Objects of one kind. That there are none is known only of a kind that is [`Shelf::Known`].
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectStore<T> {
    /// All there are.
    Known {
        /// The objects by namespace and name.
        objects: Arc<BTreeMap<Key, Arc<T>>>,
        /// What is wrong with the watch; the objects are the last that could be read.
        stale: Option<SourceError>,
    },
    /// Nothing is known of them.
    Missing(UnavailableReason),
}

/// Why nothing is known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnavailableReason {
    /// The topology comes from files, or the configuration says `certManager: off`.
    NotFollowed,
    /// The first list has not come yet.
    NotReadYet,
    /// The API server knows no such objects: cert-manager is not installed.
    NotInstalled,
    /// The aggregator's account may not read them.
    Forbidden {
        /// The rule that its `ClusterRole` lacks.
        rule: String,
        /// What the API server said.
        message: String,
    },
    /// They could not be read so far.
    Unreadable {
        /// Why.
        message: String,
    },
}

// === impl Picture ===

impl CertManagerState {
    /// Nothing of any kind, for one reason.
    #[must_use]
    pub fn missing(why: &UnavailableReason) -> Self {
        Self {
            certificates: ObjectStore::Missing(why.clone()),
            issuers: ObjectStore::Missing(why.clone()),
            cluster_issuers: ObjectStore::Missing(why.clone()),
            challenges: ObjectStore::Missing(why.clone()),
        }
    }
}

// === impl Shelf ===

impl<T> ObjectStore<T> {
    /// The objects, in order, where they are known.
    pub(crate) fn objects(&self) -> Option<&BTreeMap<Key, Arc<T>>> {
        match self {
            Self::Known { objects, .. } => Some(objects),
            Self::Missing(_) => None,
        }
    }

    /// Why they are not known.
    #[must_use]
    pub const fn why_missing(&self) -> Option<&UnavailableReason> {
        match self {
            Self::Known { .. } => None,
            Self::Missing(why) => Some(why),
        }
    }
}

// === impl Missing ===

impl fmt::Display for UnavailableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFollowed => f.write_str(
                "cert-manager's objects are not followed: that needs topology.kubernetes in the configuration, without certManager: off",
            ),
            Self::NotReadYet => f.write_str("cert-manager's objects have not been read yet"),
            Self::NotInstalled => f.write_str("cert-manager's definitions are not installed in this cluster"),
            Self::Forbidden { rule, message } => write!(
                f,
                "the aggregator's account may not read them ({message}); its ClusterRole lacks {rule}"
            ),
            Self::Unreadable { message } => write!(f, "they could not be read yet: {message}"),
        }
    }
}
