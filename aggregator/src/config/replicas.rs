//! `replicas`: one of several aggregators, of which the holder of a Lease leads.

use std::time::Duration;

use parallax_model::InvalidName;
use serde::Deserialize;

use parallax_kubernetes::replicas::ReplicaOptions;

/// Shortest and longest span in seconds. Below, a slow API server costs leaders; above, nobody plans for too long.
const LEASE_S: (u64, u64) = (1, 60);
/// Where nothing is said: a leader that dies is replaced after as long, and a look a fifth as often.
const DEFAULT_S: u64 = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawReplicas {
    lease: String,
    lease_seconds: Option<u64>,
}

pub(super) fn replicas(raw: &RawReplicas, wrong: &mut impl FnMut(&str, String)) -> Option<ReplicaOptions> {
    let seconds = raw.lease_seconds.unwrap_or(DEFAULT_S);
    let (low, high) = LEASE_S;
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
