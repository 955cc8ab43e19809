//! Rule-based requests: probes suggested by failure kinds and configuration instead of the posterior.

use parallax_model::{Channel, FailureKind, KindClass};

use super::{
    ProbeVariant, candidates::ProbeCapabilities, choice::WantedProbe, information_gain::ExplanationWeights,
};
use crate::{
    evidence::cells::{CellKey, Destination},
    ids::VantageIx,
    regions::Region,
};

/// Echo sizes for suspected MTU faults: one that just fits common tunnels, and one that does not.
const ECHO_SIZES: [u32; 2] = [1_300, 8_192];
/// Maximum number of clients per rule.
const MAX_CLIENTS: usize = 2;
/// Minimum share of failures of the matching kinds.
const MIN_KIND_SHARE: f64 = 0.5;
/// Minimum posterior probability of an explanation that a rule acts on.
const MIN_PROBABILITY: f64 = 0.05;

/// Returns the probes that the failure kinds suggest.
pub(crate) fn suggested_by_kinds(
    beliefs: &ExplanationWeights,
    ground: &ProbeCapabilities<'_>,
) -> Vec<WantedProbe> {
    let mut wants = Vec::new();
    large_echoes(ground, &mut wants);
    dns_over_tcp(ground, &mut wants);
    proxy_header(beliefs, ground, &mut wants);
    node_port(beliefs, ground, &mut wants);
    wants
}

/// Returns the clients with the most failures of a kind, if most failures on these channels are of that kind.
fn clients_failing_with(
    ground: &ProbeCapabilities<'_>,
    channels: &[Channel],
    is_sought: impl Fn(&FailureKind, Option<u16>) -> bool,
) -> Vec<VantageIx> {
    let mut sums: std::collections::BTreeMap<VantageIx, (u64, u64)> = std::collections::BTreeMap::new();
    for (key, counts) in ground
        .cells
        .iter()
        .filter(|(key, _)| channels.contains(&key.channel))
    {
        for ((kind, status), (_, seen)) in &counts.kinds {
            let sum = sums.entry(key.client).or_default();
            sum.1 += seen;
            if is_sought(ground.registry.kinds.name(*kind), *status) {
                sum.0 += seen;
            }
        }
    }
    let (like, all) = sums.values().fold((0, 0), |(a, b), (x, y)| (a + x, b + y));
    if crate::evidence::weights::to_probes(like) < MIN_KIND_SHARE * crate::evidence::weights::to_probes(all)
        || like == 0
    {
        return Vec::new();
    }
    let mut clients: Vec<(u64, VantageIx)> = sums
        .into_iter()
        .filter(|(client, (like, _))| *like > 0 && ground.reporting_vantages.contains(client))
        .map(|(client, (like, _))| (like, client))
        .collect();
    clients.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    clients
        .into_iter()
        .take(MAX_CLIENTS)
        .map(|(_, client)| client)
        .collect()
}

fn rule_probe(key: CellKey, variant: ProbeVariant, reason: &str) -> WantedProbe {
    WantedProbe {
        key,
        variant,
        bits: 0.0,
        separates: None,
        reason: Some(reason.to_owned()),
    }
}

/// Connects succeed and responses stall: does the path carry full-size packets?
fn large_echoes(ground: &ProbeCapabilities<'_>, wants: &mut Vec<WantedProbe>) {
    let stalls = |kind: &FailureKind, _| {
        matches!(
            kind,
            FailureKind::FirstByteTimeout | FailureKind::BodyStalled | FailureKind::TlsTimeout
        )
    };
    let paths = ground.paths;
    for client in clients_failing_with(ground, &[Channel::Vip, Channel::Direct, Channel::Mesh], stalls) {
        let own = paths.node_of_client(client);
        let far = paths
            .local_nodes
            .iter()
            .find(|node| Some(**node) != own && paths.mesh.prober_pods.values().any(|n| n == *node));
        let (Some(_), Some(node)) = (own, far) else {
            continue;
        };
        for size in ECHO_SIZES {
            let key = CellKey {
                channel: Channel::Mesh,
                client,
                dest: Destination::Peer(*node),
            };
            let reason = "connections succeed and responses stall: does the path carry full-size packets?";
            wants.push(rule_probe(key, ProbeVariant::Size(size), reason));
        }
    }
}

/// Queries time out: are they answered over TCP?
fn dns_over_tcp(ground: &ProbeCapabilities<'_>, wants: &mut Vec<WantedProbe>) {
    if !ground.dns_possible {
        return;
    }
    let lost = |kind: &FailureKind, _| *kind == FailureKind::ResolveTimeout;
    let Some(name) = ground.paths.names.iter().next() else {
        return;
    };
    for client in clients_failing_with(ground, &[Channel::Dns], lost) {
        let key = CellKey {
            channel: Channel::Dns,
            client,
            dest: Destination::Name(*name),
        };
        let reason = "queries to the resolver time out: are they answered over TCP?";
        if ground.may_probe(&key) {
            wants.push(rule_probe(key, ProbeVariant::DnsOverTcp, reason));
        }
    }
}

/// Closed or rejected right after the connect, and only through the front: does a PROXY header help?
fn proxy_header(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>, wants: &mut Vec<WantedProbe>) {
    let likely = beliefs
        .explanations
        .iter()
        .any(|b| b.region == Region::Vip && b.probability >= MIN_PROBABILITY);
    let tried = ground.cells.keys().any(|key| key.channel == Channel::Proxied);
    if !likely || tried || ground.front.is_none() {
        return;
    }
    let rejected = |kind: &FailureKind, status| {
        let class = kind.class(status);
        matches!(class, KindClass::Reset | KindClass::Tls | KindClass::Http4xx)
            && !kind.proves_header_accepted(status)
    };
    for client in clients_failing_with(ground, &[Channel::Vip], rejected) {
        let key = CellKey {
            channel: Channel::Proxied,
            client,
            dest: Destination::Unknown,
        };
        let reason = "the address accepts connections and then rejects them: does a PROXY header help?";
        wants.push(rule_probe(key, ProbeVariant::Plain, reason));
    }
}

/// Is the balancer's address or the Service's traffic policy the reason that nodes without an endpoint fail?
fn node_port(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>, wants: &mut Vec<WantedProbe>) {
    let p = |region: Region| {
        beliefs
            .explanations
            .iter()
            .find(|b| b.region == region)
            .map_or(0.0, |b| b.probability)
    };
    let open = p(Region::NoLocal) >= MIN_PROBABILITY && p(Region::NoLocal) <= 1.0 - MIN_PROBABILITY;
    let tried = ground.cells.keys().any(|key| key.channel == Channel::NodePort);
    if !open || tried || !ground.has_node_port {
        return;
    }
    for client in clients_failing_with(ground, &[Channel::Vip], |_, _| true) {
        let outside_local = ground
            .paths
            .node_of_client(client)
            .is_some_and(|node| !ground.paths.local_nodes.contains(&node));
        if outside_local {
            let key = CellKey {
                channel: Channel::NodePort,
                client,
                dest: Destination::Unknown,
            };
            let reason = "the node port follows the Service's traffic policy without the balancer's address";
            wants.push(rule_probe(key, ProbeVariant::Plain, reason));
        }
    }
}
