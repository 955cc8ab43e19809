//! Probes that are asked for, as assignments of their own beside the base plan.

use std::net::SocketAddr;

use parallax_model::{
    Assignment, Channel, Dial, DnsProbe, DnsTransport, EntryRef, ProbeSpec, RecordType, TargetId, Vantage,
};

use super::{PlanConfig, assignments};
use crate::{
    requests::{Ask, To, Variant},
    topology::{PlacedTarget, Topology},
};

/// The base plan of a vantage and what is asked of it, sorted by id. An ask whose endpoint or host is gone is left out:
/// nobody could say any more what its answer means.
#[must_use]
pub fn with_asks(
    topology: &Topology,
    config: &PlanConfig,
    vantage: &Vantage,
    asks: &[Ask],
) -> Vec<Assignment> {
    let mut plan = assignments(topology, config, vantage);
    let own = asks.iter().filter(|ask| ask.vantage == *vantage);
    plan.extend(own.filter_map(|ask| assignment(topology, config, ask)));
    plan.sort_by(|a, b| a.id.cmp(&b.id));
    plan
}

fn assignment(topology: &Topology, config: &PlanConfig, ask: &Ask) -> Option<Assignment> {
    let base = Assignment {
        id: ask.id.clone(),
        target: ask.target.clone(),
        channel: ask.channel,
        probe: ProbeSpec::Echo {
            nonce: config.echo_nonce.clone(),
            size: match ask.variant {
                Variant::Size(bytes) => Some(bytes),
                Variant::Plain | Variant::DnsOverTcp => None,
            },
        },
        dial: Dial::Resolve,
        entry: None,
        peer: None,
        interval: config.interval,
        timeout: config.timeout,
    };
    if let To::Peer(node) = &ask.to {
        let prober = topology.nodes().get(node)?.prober.as_ref()?;
        return Some(Assignment {
            target: TargetId::new(format!("echo://{node}")).ok()?,
            channel: Channel::Mesh,
            dial: Dial::Address(prober.address),
            entry: Some(EntryRef {
                pod: prober.pod.clone(),
                node: Some(node.clone()),
            }),
            peer: Some(node.clone()),
            ..base
        });
    }
    let placed = topology.targets().get(&ask.target)?;
    if matches!(ask.to, To::Entry(_) | To::NodePort(_)) && topology.ends_tls_before(placed) {
        return None;
    }
    let base = Assignment {
        probe: placed.target.probe.clone(),
        timeout: placed.target.timeout.unwrap_or(config.timeout),
        ..base
    };
    match &ask.to {
        // The address is forced: what the name resolves to at the moment is another question.
        To::Front(front) | To::NodePort(front) => Some(Assignment {
            dial: Dial::Address(front.address),
            ..base
        }),
        To::Entry(pod) => {
            let (service, target_port) = placed.entry.as_ref()?;
            let service = topology.service(service)?;
            let endpoint = service.usable().into_iter().find(|e| e.pod == *pod)?;
            Some(Assignment {
                dial: Dial::Address(SocketAddr::new(endpoint.address, *target_port)),
                entry: Some(EntryRef {
                    pod: endpoint.pod.clone(),
                    node: endpoint.node.clone(),
                }),
                ..base
            })
        }
        To::Name(_) => Some(Assignment {
            probe: ProbeSpec::Dns(question(placed, ask.variant)?),
            ..base
        }),
        To::Peer(_) => None,
    }
}

/// The name alone, as the target's own probe asks for it.
fn question(placed: &PlacedTarget, variant: Variant) -> Option<DnsProbe> {
    let mut question = match &placed.target.probe {
        ProbeSpec::Dns(dns) => dns.clone(),
        other => DnsProbe::ask(other.host()?.clone(), RecordType::A),
    };
    if variant == Variant::DnsOverTcp {
        question.transport = DnsTransport::Tcp;
        question.search = None;
    }
    Some(question)
}
