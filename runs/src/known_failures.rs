//! What the mesh knows of a host beside a challenge's own fetches.

use std::borrow::Cow;

use parallax_diagnosis::{
    topology::Topology,
    verdict::{Incident, IncidentState, Verdict},
    view::View,
};
use parallax_model::{ChallengeClient, ChallengeProbe, FailureKind, KindClass, TargetId};

/// Maximum number of sentences.
const MAX_SENTENCES: usize = 4;

/// Regions on the path of clients outside the cluster. The others are regions of nodes, of Pods as clients, and of the
/// cluster's resolvers.
const OUTSIDE_REGIONS: [&str; 6] = [
    "target",
    "vip",
    "backend",
    "bnode",
    "outside-all",
    "outside-front-node",
];

/// Classes of failures of the path to the host, not of the application behind it.
const PATH_FAILURES: [KindClass; 4] = [
    KindClass::Refused,
    KindClass::Unreachable,
    KindClass::Timeout,
    KindClass::Reset,
];

/// Returns the incidents on the path from the internet to a challenge's host, as sentences. A CA takes the same path,
/// and its few fetches can pass by luck. A failed probe without an incident counts for nothing: a balancer that takes
/// out an endpoint loses connections for seconds, and a path that fails for a share of the connections also fails for
/// some of the challenge's fetches.
pub(super) fn known_failures(probe: &ChallengeProbe, topology: &Topology, view: &View) -> Vec<String> {
    if probe.client == ChallengeClient::CertManager {
        return Vec::new();
    }
    let of_host = |target: &TargetId| {
        let placed = topology.targets().get(target);
        let host = placed.and_then(|placed| placed.target.probe.resolved_host());
        host.is_some_and(|host| *host == probe.host)
    };
    view.incidents
        .iter()
        .filter(|incident| may_fail_now(incident) && is_on_path_from_outside(&incident.verdict))
        .filter(|incident| incident.verdict.targets.iter().any(of_host))
        .map(|incident| format!("incident {}: {}", incident.id, incident.verdict.sentence))
        .take(MAX_SENTENCES)
        .collect()
}

/// Reports whether an incident may make connections fail now. A fault that has recurred may recur while it recovers.
const fn may_fail_now(incident: &Incident) -> bool {
    match incident.state {
        IncidentState::Open => true,
        IncidentState::Recovering => incident.occurrences > 1,
        IncidentState::Closed { .. } => false,
    }
}

/// Only the named region counts, not the others of its class: while a fault of the nodes is new, the few scheduled probes from
/// outside do not separate it from one of the address, and the challenge's own fetches do.
fn is_on_path_from_outside(verdict: &Verdict) -> bool {
    let is_path_failure = |(label, _): &(String, u64)| {
        // A label is the kind, and the status if there is one.
        let kind = label.split(' ').next().unwrap_or(label);
        PATH_FAILURES.contains(&FailureKind::from(Cow::Borrowed(kind)).class(None))
    };
    let mut predicted = verdict.evidence.iter().filter(|row| row.predicted);
    OUTSIDE_REGIONS.contains(&verdict.region.region.as_str())
        && predicted.any(|row| row.kinds.iter().any(is_path_failure))
}
