//! Sets up the replica: leader election if there are several, otherwise a leader from the start.

use std::{net::SocketAddr, sync::Arc};

use parallax_kubernetes::replicas::{LeaderElection, ReplicaMetrics, ReplicaState};
use parallax_runtime::random;

use super::error::StartError;
use crate::{checkpoint::NonceSource, config::Config, prober_listener::ProberListener};

/// Returns the replica's state, the source of the echo nonce, and the leader election if there are several replicas.
pub(super) fn replica_setup(
    config: &Config,
    prober_listener: &ProberListener,
    local: SocketAddr,
    metrics: &ReplicaMetrics,
    epoch: u64,
) -> Result<(ReplicaState, NonceSource, Option<LeaderElection>), StartError> {
    let Some(options) = &config.replicas else {
        metrics.set_leader(true);
        let (replica, part) = ReplicaState::starting();
        let fresh = Arc::from(generate_nonce());
        return Ok((
            replica,
            NonceSource::Storage {
                epoch,
                fallback: fresh,
                role: part,
            },
            None,
        ));
    };
    let client = prober_listener.client().ok_or(StartError::NoApiServerForLease)?;
    let name = config
        .environment
        .name
        .as_deref()
        .ok_or(StartError::MissingReplicaName)?;
    let address = config
        .environment
        .address
        .or_else(|| Some(local.ip()).filter(|own| !own.is_unspecified()));
    let page = address.map(|address| SocketAddr::new(address, local.port()).to_string());
    let (election, replica) = LeaderElection::new(client.clone(), options, name, page, metrics.clone());
    Ok((replica, NonceSource::Election, Some(election)))
}

/// Generates an echo nonce for a mesh that has none yet: an echo responds only to its own mesh.
fn generate_nonce() -> String {
    format!("{:016x}{:016x}", random(), random())
}
