//! `replicas`: leader election of several aggregators by a Lease.

use std::time::Duration;

use parallax_model::InvalidName;
use serde::Deserialize;

use parallax_kubernetes::replicas::ReplicaOptions;

/// Minimum and maximum lease duration in seconds. Shorter, a slow API server causes leader changes; longer, a failover
/// leaves the mesh without plans for too long.
const LEASE_RANGE_S: (u64, u64) = (1, 60);
/// Default lease duration in seconds: time until a dead leader is replaced.
const DEFAULT_LEASE_S: u64 = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawReplicas {
    lease: String,
    lease_seconds: Option<u64>,
}

pub(super) fn validate(raw: &RawReplicas, wrong: &mut impl FnMut(&str, String)) -> Option<ReplicaOptions> {
    let seconds = raw.lease_seconds.unwrap_or(DEFAULT_LEASE_S);
    let (low, high) = LEASE_RANGE_S;
    if !(low..=high).contains(&seconds) {
        wrong(
            "replicas.leaseSeconds",
            format!("expected {low} to {high} seconds, found {seconds}"),
        );
    }
    let lease = raw
        .lease
        .parse()
        .map_err(|error: InvalidName| wrong("replicas.lease", error.to_string()))
        .ok()?;
    Some(ReplicaOptions {
        lease,
        duration: Duration::from_secs(seconds.clamp(low, high)),
    })
}
