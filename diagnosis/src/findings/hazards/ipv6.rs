//! An AAAA record that nothing serves: a CA tries IPv6 first and does not fall back if something else answers (F17).

use std::{collections::BTreeSet, net::IpAddr};

use parallax_model::ProbeSpec;

use super::{AffectedClients, Hazard, HazardKind, id, listed};
use crate::{
    findings::{ObservedFacts, Severity},
    topology::Topology,
    verdict::Remedy,
};

pub(super) fn hazards(topology: &Topology, facts: &ObservedFacts) -> Vec<Hazard> {
    let listed = topology.fronts().keys().map(|front| front.address.ip());
    let machines = topology.host_fronts().map(|(address, _)| address.ip());
    let served: BTreeSet<IpAddr> = listed.chain(machines).collect();
    let hosts = hosts(topology);
    facts
        .published
        .iter()
        .filter(|(name, _)| hosts.contains(*name))
        .filter_map(|(name, addresses)| {
            let dead: BTreeSet<IpAddr> = addresses
                .iter()
                .filter(|address| address.is_ipv6())
                .filter(|address| !served.contains(address) && !facts.reached.contains(address))
                .copied()
                .collect();
            (!dead.is_empty()).then(|| hazard(topology, name, &dead))
        })
        .collect()
}

/// Hosts of this cluster's own fronts; hosts that others serve are ignored.
fn hosts(topology: &Topology) -> BTreeSet<String> {
    topology
        .targets()
        .values()
        .filter(|placed| placed.dial_address.is_none() && placed.entry.is_some())
        .filter_map(|placed| match &placed.target.probe {
            ProbeSpec::Http(http) => Some(http.host.as_str().trim_end_matches('.').to_ascii_lowercase()),
            _ => None,
        })
        .collect()
}

fn hazard(topology: &Topology, name: &str, dead: &BTreeSet<IpAddr>) -> Hazard {
    let addresses = listed(dead);
    Hazard {
        id: id(HazardKind::UnservedIpv6, name),
        kind: HazardKind::UnservedIpv6,
        severity: Severity::Warning,
        subject: name.to_owned(),
        affected: AffectedClients {
            nodes: Vec::new(),
            total_nodes: topology.nodes().len(),
            description: "IPv6 clients, above all an ACME CA".to_owned(),
        },
        sentence: format!(
            "IPv6 clients would not reach {name}: it resolves to {addresses}, which no front of this cluster serves \
             and no vantage has reached; an ACME CA tries IPv6 first"
        ),
        evidence: vec![
            format!("{name} resolves to {addresses}"),
            "no Service of this cluster has that address".to_owned(),
        ],
        remedies: vec![
            Remedy::new(
                format!("remove or correct the AAAA record of {name}"),
                Some(format!("dig +short AAAA {name}")),
                "IPv6-only clients lose the name; caches keep the record for its TTL",
            )
            .with_ineffective_when("external-dns writes it from an Ingress status: then correct that status"),
            Remedy::new(
                "serve the address: a dual-stack Service (ipFamilyPolicy: PreferDualStack) and a load balancer that \
                 has the address",
                None,
                "one more front per port, and its share of the load balancer's quota",
            )
            .with_ineffective_when("the cluster or the provider does not support IPv6"),
        ],
    }
}
