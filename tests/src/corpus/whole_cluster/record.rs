//! Writes a probe as the observation that a prober reports.

use std::net::{IpAddr, SocketAddr};

use parallax_diagnosis::replay::RecordLine;
use parallax_model::{
    AssignmentId, Channel, DnsAnswer, EventTime, Front, Incarnation, Micros, Observation, Outcome,
    PhaseTimes, Recorded, ReportSeq, TargetId, Vantage,
};

use super::{
    hops::ScheduledProbe,
    layout::{Cluster, ClusterTarget, NodeIx, ServiceFront},
    simulate::SeenProbe,
    topology::RESOLVER,
};

/// Returns the vantage of a node's prober.
#[must_use]
pub fn vantage(cluster: &Cluster, node: NodeIx) -> String {
    format!("{}/pod", cluster.node_name(node))
}

/// Returns the line of a probe; `life` counts the restarts of its prober. `None` if a name is not valid.
#[must_use]
pub fn line(cluster: &Cluster, seen: &SeenProbe, life: usize, seq: u64) -> Option<String> {
    let recorded = recorded(cluster, seen, life, seq)?;
    serde_json::to_string(&RecordLine::Observation(&recorded)).ok()
}

/// Builds the observation in the model's own types, so that a change of the wire format fails here first.
fn recorded(cluster: &Cluster, seen: &SeenProbe, life: usize, seq: u64) -> Option<Recorded> {
    let channel = seen.probe.channel();
    let target = match seen.probe {
        ScheduledProbe::Mesh(peer) => format!("echo://{}", cluster.node_name(peer)),
        other => other.target()?.id(),
    };
    let succeeded = seen.fault.is_none() && matches!(seen.outcome, Outcome::Ok { .. });
    // Through an address or a name, a prober knows the Pod only from its answer.
    let entry = seen.entry.filter(|_| channel != Channel::Vip || succeeded);
    let assignment = match (&seen.requested, seen.probe) {
        (Some(requested), _) => requested.clone(),
        (None, ScheduledProbe::Direct(_, pod)) => format!("direct|{target}|{}", cluster.pods[pod].name),
        (None, _) => format!("{}|{target}", channel.label()),
    };
    let dialled = matches!(channel, Channel::Direct | Channel::Mesh);
    let micros = |us: i64| u64::try_from(us).ok().map(Micros);
    Some(Recorded {
        vantage: vantage(cluster, seen.client).parse::<Vantage>().ok()?,
        incarnation: Incarnation::new(format!("prober-{}.{life}", seen.client)).ok()?,
        observation: Observation {
            seq: ReportSeq(seq),
            started: EventTime(seen.started),
            assignment: AssignmentId::new(assignment).ok(),
            target: TargetId::new(target).ok()?,
            channel,
            front: dialled_front(cluster, seen).and_then(|front| front.parse::<Front>().ok()),
            entry: entry.and_then(|pod| cluster.pods[pod].name.parse().ok()),
            dst_node: seen
                .entry
                .filter(|_| dialled)
                .and_then(|pod| cluster.node_name(cluster.node_of(pod)).parse().ok()),
            outcome: seen.outcome.clone(),
            times: PhaseTimes {
                resolve: seen.lookup.and_then(|lookup| micros(lookup.took)),
                connect: seen.phases.0.and_then(micros),
                first_byte: seen.phases.1.and_then(micros),
                total: micros(seen.took),
                ..PhaseTimes::default()
            },
            dns: answer(cluster, seen),
            echo: None,
            ttl: None,
            server: None,
            fingerprint: None,
            challenge: None,
            names: None,
        },
    })
}

/// Returns the address that a probe connected to; `None` if it did not get that far.
#[must_use]
pub fn dialled_front(cluster: &Cluster, seen: &SeenProbe) -> Option<String> {
    if seen.is_unresolved() {
        return None;
    }
    match seen.probe {
        ScheduledProbe::Name => None,
        ScheduledProbe::Vip(target) => match target.front() {
            Some(front) => Some(front.name()),
            None => seen.entry.map(|pod| cluster.pod_front(pod)),
        },
        ScheduledProbe::Direct(..) | ScheduledProbe::Mesh(_) => seen.entry.map(|pod| cluster.pod_front(pod)),
    }
}

fn answer(cluster: &Cluster, seen: &SeenProbe) -> Option<DnsAnswer> {
    let lookup = seen.lookup?;
    let target = seen.probe.target()?;
    let texts = match target {
        _ if lookup.failed.is_some() => Vec::new(),
        ClusterTarget::Headless(app) => cluster.origins[app]
            .iter()
            .map(|pod| cluster.pod_address(*pod))
            .collect(),
        ClusterTarget::Host(_) => vec![ServiceFront::Balancer.address()],
        ClusterTarget::Name | ClusterTarget::AppAddress(_) | ClusterTarget::IngressAddress => {
            vec!["10.96.0.1".to_owned()]
        }
    };
    let mut addresses: Vec<IpAddr> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    addresses.sort_unstable();
    Some(DnsAnswer {
        resolver: SocketAddr::new(RESOLVER.parse().ok()?, 53),
        name: target.host()?,
        ttl_s: lookup.failed.is_none().then_some(5),
        addresses,
        tcp: false,
        unanswered: lookup.failed.map(|lost| lost.unanswered),
    })
}
