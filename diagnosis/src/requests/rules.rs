//! Probes that no region of the posterior asks for: kinds of failure and configuration do.

use parallax_model::{Channel, FailureKind, KindClass};

use super::{ProbeVariant, candidates::ProbeCapabilities, choice::WantedProbe, gain::ExplanationWeights};
use crate::{
    evidence::cells::{CellKey, Destination},
    ids::VantageIx,
    regions::Region,
};

/// Sizes asked for where large answers are suspected: a packet that just fits a common tunnel, and one that does not.
const SIZES: [u32; 2] = [1_300, 8_192];
/// Clients asked by a rule.
const CLIENTS: usize = 2;
/// Share of the failures that must look so.
const SHARE: f64 = 0.5;
/// An explanation that a rule may act on.
const LIKELY: f64 = 0.05;

/// What the kinds of failure suggest.
pub(crate) fn by_kinds(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>) -> Vec<WantedProbe> {
    let mut wants = Vec::new();
    large_answers(ground, &mut wants);
    names_over_tcp(ground, &mut wants);
    proxy_header(beliefs, ground, &mut wants);
    own_nodes_port(beliefs, ground, &mut wants);
    wants
}

/// Clients whose failures on these channels are mostly of a sort, most failures first.
fn failing_so(
    ground: &ProbeCapabilities<'_>,
    channels: &[Channel],
    so: impl Fn(&FailureKind, KindClass) -> bool,
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
            if so(
                ground.world.kinds.name(*kind),
                ground.world.class_of(*kind, *status),
            ) {
                sum.0 += seen;
            }
        }
    }
    let (like, all) = sums.values().fold((0, 0), |(a, b), (x, y)| (a + x, b + y));
    if crate::evidence::weights::probes(like) < SHARE * crate::evidence::weights::probes(all) || like == 0 {
        return Vec::new();
    }
    let mut clients: Vec<(u64, VantageIx)> = sums
        .into_iter()
        .filter(|(client, (like, _))| *like > 0 && ground.speaking.contains(client))
        .map(|(client, (like, _))| (like, client))
        .collect();
    clients.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    clients
        .into_iter()
        .take(CLIENTS)
        .map(|(_, client)| client)
        .collect()
}

fn rule(key: CellKey, variant: ProbeVariant, reason: &str) -> WantedProbe {
    WantedProbe {
        key,
        variant,
        bits: 0.0,
        separates: None,
        reason: Some(reason.to_owned()),
    }
}

/// Connects pass and answers stall: does the path carry a full packet?
fn large_answers(ground: &ProbeCapabilities<'_>, wants: &mut Vec<WantedProbe>) {
    let stalls = |kind: &FailureKind, _| {
        matches!(
            kind,
            FailureKind::FirstByteTimeout | FailureKind::BodyStalled | FailureKind::TlsTimeout
        )
    };
    let scene = ground.scene;
    for client in failing_so(ground, &[Channel::Vip, Channel::Direct, Channel::Mesh], stalls) {
        let own = scene.node_of_client(client);
        let far = scene
            .local
            .iter()
            .find(|node| Some(**node) != own && scene.nodes.prober_pods.values().any(|n| n == *node));
        let (Some(_), Some(node)) = (own, far) else {
            continue;
        };
        for size in SIZES {
            let key = CellKey {
                channel: Channel::Mesh,
                client,
                dest: Destination::Peer(*node),
            };
            let reason = "connections stand and answers stall: does the path carry a full packet?";
            wants.push(rule(key, ProbeVariant::Size(size), reason));
        }
    }
}

/// Questions get lost: do they over TCP as well?
fn names_over_tcp(ground: &ProbeCapabilities<'_>, wants: &mut Vec<WantedProbe>) {
    if !ground.names {
        return;
    }
    let lost = |kind: &FailureKind, _| *kind == FailureKind::ResolveTimeout;
    let Some(name) = ground.scene.names.iter().next() else {
        return;
    };
    for client in failing_so(ground, &[Channel::Dns], lost) {
        let key = CellKey {
            channel: Channel::Dns,
            client,
            dest: Destination::Name(*name),
        };
        let reason = "questions to the resolver get lost: are they answered over TCP?";
        if ground.may_ask(&key) {
            wants.push(rule(key, ProbeVariant::DnsOverTcp, reason));
        }
    }
}

/// Closed or rejected right after the connect, through the front only: does a header help?
fn proxy_header(beliefs: &ExplanationWeights, ground: &ProbeCapabilities<'_>, wants: &mut Vec<WantedProbe>) {
    let likely = beliefs
        .list
        .iter()
        .any(|b| b.region == Region::Vip && b.p >= LIKELY);
    let tried = ground.cells.keys().any(|key| key.channel == Channel::Proxied);
    if !likely || tried || ground.front.is_none() {
        return;
    }
    let rejected =
        |_: &FailureKind, class| matches!(class, KindClass::Reset | KindClass::Tls | KindClass::Http4xx);
    for client in failing_so(ground, &[Channel::Vip], rejected) {
        let key = CellKey {
            channel: Channel::Proxied,
            client,
            dest: Destination::Unknown,
        };
        let reason =
            "separates vip from proto-vip: rejected right after the connect, does a PROXY header help?";
        wants.push(rule(key, ProbeVariant::Plain, reason));
    }
}

/// Is it the balancer's address, or the policy of the Service, that a node without an endpoint fails of?
fn own_nodes_port(
    beliefs: &ExplanationWeights,
    ground: &ProbeCapabilities<'_>,
    wants: &mut Vec<WantedProbe>,
) {
    let p = |region: Region| {
        beliefs
            .list
            .iter()
            .find(|b| b.region == region)
            .map_or(0.0, |b| b.p)
    };
    let open = p(Region::NoLocal) >= LIKELY && p(Region::NoLocal) <= 1.0 - LIKELY;
    let tried = ground.cells.keys().any(|key| key.channel == Channel::NodePort);
    if !open || tried || !ground.node_port {
        return;
    }
    for client in failing_so(ground, &[Channel::Vip], |_, _| true) {
        let outside_local = ground
            .scene
            .node_of_client(client)
            .is_some_and(|node| !ground.scene.local.contains(&node));
        if outside_local {
            let key = CellKey {
                channel: Channel::NodePort,
                client,
                dest: Destination::Unknown,
            };
            let reason = "the node's own port follows the Service's policy without the balancer's address";
            wants.push(rule(key, ProbeVariant::Plain, reason));
        }
    }
}
