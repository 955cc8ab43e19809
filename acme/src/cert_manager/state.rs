//! The known objects of cert-manager, or why a kind is not known.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parallax_kubernetes::{topology_state::SourceError, watch::Key};
use parallax_preflight::{Certificate, Challenge, Issuer};

/// All known objects, each kind by namespace and name. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct CertManagerState {
    pub(crate) certificates: ObjectStore<Certificate>,
    pub(crate) issuers: ObjectStore<Issuer>,
    /// Keyed without a namespace.
    pub(crate) cluster_issuers: ObjectStore<Issuer>,
    /// The Challenges.
    pub challenges: ObjectStore<Challenge>,
}

/// The objects of one kind. An empty list is meaningful only in [`ObjectStore::Known`].
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectStore<T> {
    /// The list is complete.
    Known {
        /// The objects by namespace and name.
        objects: Arc<BTreeMap<Key, Arc<T>>>,
        /// The failure of the watch, if any; the objects are then the last that could be read.
        stale: Option<SourceError>,
    },
    /// Nothing is known of this kind.
    Missing(UnavailableReason),
}

/// Why a kind is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnavailableReason {
    /// The topology comes from files, or the configuration contains `certManager: off`.
    NotWatched,
    /// The first list has not arrived yet.
    NotListedYet,
    /// The API server does not know the kind: cert-manager is not installed.
    NotInstalled,
    /// The aggregator's account lacks permission.
    Forbidden {
        /// The rule that its `ClusterRole` lacks.
        rule: String,
        /// The message of the API server.
        message: String,
    },
    /// The objects have never been read successfully.
    Unreadable {
        /// The last error.
        message: String,
    },
}

// === impl CertManagerState ===

impl CertManagerState {
    /// Returns a state in which no kind is known, for one reason.
    #[must_use]
    pub fn missing(reason: &UnavailableReason) -> Self {
        Self {
            certificates: ObjectStore::Missing(reason.clone()),
            issuers: ObjectStore::Missing(reason.clone()),
            cluster_issuers: ObjectStore::Missing(reason.clone()),
            challenges: ObjectStore::Missing(reason.clone()),
        }
    }
}

// === impl ObjectStore ===

impl<T> ObjectStore<T> {
    /// Returns the objects in order, if they are known.
    pub(crate) fn objects(&self) -> Option<&BTreeMap<Key, Arc<T>>> {
        match self {
            Self::Known { objects, .. } => Some(objects),
            Self::Missing(_) => None,
        }
    }

    /// Returns the reason for which they are not known.
    #[must_use]
    pub const fn missing_reason(&self) -> Option<&UnavailableReason> {
        match self {
            Self::Known { .. } => None,
            Self::Missing(reason) => Some(reason),
        }
    }
}

// === impl UnavailableReason ===

impl fmt::Display for UnavailableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWatched => f.write_str(
                "cert-manager's objects are not watched; to watch them, set topology.kubernetes in the configuration, without certManager: off",
            ),
            Self::NotListedYet => f.write_str("cert-manager's objects have not been read yet"),
            Self::NotInstalled => f.write_str("cert-manager's CRDs are not installed in this cluster"),
            Self::Forbidden { rule, message } => write!(
                f,
                "the aggregator's account may not read cert-manager's objects ({message}); its ClusterRole lacks {rule}"
            ),
            Self::Unreadable { message } => write!(f, "cert-manager's objects could not be read yet: {message}"),
        }
    }
}
