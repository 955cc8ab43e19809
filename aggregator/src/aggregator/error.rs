//! Errors of starting and of running an aggregator.

use std::{io, net::SocketAddr};

use parallax_history::recording::RecordError;
use parallax_notify::NotifierError;

use crate::prober_listener::ProberListenerError;

/// The aggregator cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use.
    #[error(
        "cannot listen on {address}: the address is in use by another process; stop it or set another `listen` address"
    )]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address is not one of this machine's.
    #[error(
        "cannot listen on {address}: this machine does not have this address; set `listen` to one of its addresses or to 0.0.0.0:{}",
        address.port()
    )]
    AddressNotAvailable {
        /// The address.
        address: SocketAddr,
    },
    /// The listener for probers cannot start.
    #[error(transparent)]
    ProberListener(#[from] ProberListenerError),
    /// The recording cannot start.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Notifications cannot start.
    #[error(transparent)]
    Notify(#[from] NotifierError),
    /// Leader election needs a name for this replica.
    #[error("replicas: this aggregator has no name; set its Pod's name with --pod or PARALLAX_POD")]
    MissingReplicaName,
    /// Leader election needs an API server.
    #[error("replicas: no API server for the Lease; run in a cluster, or set KUBECONFIG")]
    NoApiServerForLease,
    /// A checkpoint in a `ConfigMap` needs an API server.
    #[error(
        "checkpoint.configMap: no API server for the ConfigMap; run in a cluster, set KUBECONFIG, or set \
         checkpoint.file instead"
    )]
    NoApiServerForCheckpoint,
    /// Any other reason.
    #[error("cannot listen on {address}: {source}; set another `listen` address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A task of the aggregator failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It panicked, and its message was logged. State that it shares may be inconsistent.
    #[error("the aggregator's {task} task failed: {reason}; restart the aggregator and report this as a bug")]
    Failed {
        /// The task.
        task: &'static str,
        /// Its error.
        reason: String,
    },
}
