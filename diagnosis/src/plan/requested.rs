//! Requested probes, as assignments in addition to the base plan.

use std::net::SocketAddr;

use parallax_model::{
    Assignment, Channel, DialAddress, DnsProbe, DnsTransport, EntryRef, ProbeSpec, RecordType, TargetId,
    Vantage,
};

use super::{PlanConfig, assignments};
use crate::{
    requests::{ProbeRequest, ProbeVariant, RequestDestination},
    topology::{PlacedTarget, Topology},
};

/// Returns the base plan of a vantage and the requested probes, sorted by id. A request whose endpoint or host no
/// longer exists is left out, because its result could not be interpreted.
#[must_use]
pub fn with_requests(
    topology: &Topology,
    config: &PlanConfig,
    vantage: &Vantage,
    asks: &[ProbeRequest],
) -> Vec<Assignment> {
    let mut plan = assignments(topology, config, vantage);
    let own = asks.iter().filter(|ask| ask.vantage == *vantage);
    plan.extend(own.filter_map(|ask| assignment(topology, config, ask)));
    plan.sort_by(|a, b| a.id.cmp(&b.id));
    plan
}

fn assignment(topology: &Topology, config: &PlanConfig, ask: &ProbeRequest) -> Option<Assignment> {
    let base = Assignment {
        id: ask.id.clone(),
        target: ask.target.clone(),
        channel: ask.channel,
        probe: ProbeSpec::Echo {
            nonce: config.echo_nonce.clone(),
            size: match ask.variant {
                ProbeVariant::Size(bytes) => Some(bytes),
                ProbeVariant::Plain | ProbeVariant::DnsOverTcp => None,
            },
        },
        dial: DialAddress::Resolve,
        entry: None,
        peer: None,
        interval: config.interval,
        timeout: config.timeout,
    };
    if let RequestDestination::Peer(node) = &ask.destination {
        let prober = topology.nodes().get(node)?.prober.as_ref()?;
        return Some(Assignment {
            target: TargetId::new(format!("echo://{node}")).ok()?,
            channel: Channel::Mesh,
            dial: DialAddress::Address(prober.address),
            entry: Some(EntryRef {
                pod: prober.pod.clone(),
                node: Some(node.clone()),
            }),
            peer: Some(node.clone()),
            ..base
        });
    }
    let placed = topology.targets().get(&ask.target)?;
    if matches!(
        ask.destination,
        RequestDestination::Entry(_) | RequestDestination::NodePort(_)
    ) && topology.terminates_tls_before(placed)
    {
        return None;
    }
    let base = Assignment {
        probe: placed.target.probe.clone(),
        timeout: placed.target.timeout.unwrap_or(config.timeout),
        ..base
    };
    match &ask.destination {
        // Dials the front's address directly: name resolution is tested separately.
        RequestDestination::Front(front) | RequestDestination::NodePort(front) => Some(Assignment {
            dial: DialAddress::Address(front.address),
            ..base
        }),
        RequestDestination::Entry(pod) => {
            let (service, target_port) = placed.entry.as_ref()?;
            let service = topology.service(service)?;
            let endpoint = service.usable().into_iter().find(|e| e.pod == *pod)?;
            Some(Assignment {
                dial: DialAddress::Address(SocketAddr::new(endpoint.address, *target_port)),
                entry: Some(EntryRef {
                    pod: endpoint.pod.clone(),
                    node: endpoint.node.clone(),
                }),
                ..base
            })
        }
        RequestDestination::Name(_) => Some(Assignment {
            probe: ProbeSpec::Dns(dns_query(placed, ask.variant)?),
            ..base
        }),
        RequestDestination::Peer(_) => None,
    }
}

/// Returns the lookup of the name that the target's own probe makes. Most names in a cluster exist only with a domain of the search
/// list; a given resolver is queried for the name as it is.
fn dns_query(placed: &PlacedTarget, variant: ProbeVariant) -> Option<DnsProbe> {
    let mut question = match &placed.target.probe {
        ProbeSpec::Dns(dns) => dns.clone(),
        other => DnsProbe {
            resolver: other.resolver(),
            search: other.resolver().is_none().then(|| other.search()),
            ..DnsProbe::new(other.resolved_host()?.clone(), RecordType::A)
        },
    };
    if variant == ProbeVariant::DnsOverTcp {
        question.transport = DnsTransport::Tcp;
        question.search = None;
    }
    Some(question)
}
