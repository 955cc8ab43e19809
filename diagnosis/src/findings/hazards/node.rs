//! Problems that a node reports before clients fail: a conntrack table that fills up, a kube-proxy that is out of date
//! or not healthy, packets dropped because they come from the node's own addresses.

use std::collections::BTreeSet;

use parallax_model::NodeName;

use super::{Hazard, HazardKind, affected_clients, id, listed};
use crate::{
    findings::Severity,
    topology::{FrontKind, IpMode, ProxyMode, Topology, nodes_matching, stale_kube_proxies},
    verdict::Remedy,
    wording::pluralize,
};

/// Fill level that makes a hazard; from 95 % the diagnosis uses it as a prior.
const CONNTRACK_HAZARD_PERCENT: u8 = 80;

pub(super) fn hazards(topology: &Topology) -> Vec<Hazard> {
    [
        conntrack(topology),
        outdated_kube_proxy(topology),
        own_sources(topology),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn owned(nodes: Vec<&NodeName>) -> BTreeSet<NodeName> {
    nodes.into_iter().cloned().collect()
}

fn conntrack(topology: &Topology) -> Option<Hazard> {
    let fill = |percent: Option<u8>| percent.filter(|percent| *percent >= CONNTRACK_HAZARD_PERCENT);
    let nodes = owned(nodes_matching(topology, |facts| {
        fill(facts.conntrack_percent).is_some()
    }));
    let first = nodes.first()?;
    let evidence = nodes
        .iter()
        .filter_map(|node| {
            let percent = fill(topology.nodes().get(node)?.facts.conntrack_percent)?;
            Some(format!("the conntrack table of {node} is {percent} % full"))
        })
        .collect();
    let remedy = Remedy::new(
        "raise net.netfilter.nf_conntrack_max, or find out which workload opens so many connections",
        Some(format!(
            "kubectl debug node/{first} -it --image=busybox -- sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max"
        )),
        "about 300 bytes of kernel memory per entry; kube-proxy sets the limit with --conntrack-max-per-core",
    )
    .with_ineffective_when("the number of connections keeps growing: a larger table then fills up too");
    let affected = affected_clients(&nodes, topology, "clients on ");
    Some(Hazard {
        id: id(HazardKind::Conntrack, "conntrack"),
        kind: HazardKind::Conntrack,
        severity: Severity::Warning,
        subject: format!("conntrack on {}", listed(&nodes)),
        sentence: format!(
            "new connections of {} would fail intermittently: the conntrack table is nearly full there",
            affected.description
        ),
        affected,
        evidence,
        remedies: vec![remedy],
    })
}

fn outdated_kube_proxy(topology: &Topology) -> Option<Hazard> {
    let mut nodes = BTreeSet::new();
    let mut evidence = Vec::new();
    for service in topology.services().values() {
        for (node, known, published) in stale_kube_proxies(topology, service) {
            nodes.insert(node.name.clone());
            evidence.push(format!(
                "kube-proxy on {} has {} of Service {} on that node, the EndpointSlices have {published}",
                node.name,
                pluralize(usize::try_from(known).unwrap_or(usize::MAX), "endpoint"),
                service.key
            ));
        }
    }
    for node in nodes_matching(topology, |facts| facts.proxy_healthy == Some(false)) {
        nodes.insert(node.clone());
        evidence.push(format!("kube-proxy on {node} reports that it is not healthy"));
    }
    let first = nodes.first()?;
    let remedy = Remedy::new(
        format!("check kube-proxy on {first} and restart it"),
        Some(format!(
            "kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName={first}"
        )),
        "kube-proxy rewrites its rules once; established connections survive",
    )
    .with_ineffective_when(
        "kube-proxy cannot reach the API server: then it restarts with the same stale rules",
    );
    let affected = affected_clients(&nodes, topology, "clients on ");
    Some(Hazard {
        id: id(HazardKind::StaleProxy, "kube-proxy"),
        kind: HazardKind::StaleProxy,
        severity: Severity::Warning,
        subject: format!("kube-proxy on {}", listed(&nodes)),
        sentence: format!(
            "{} would be sent to removed endpoints, or load balancers to nodes without endpoints: kube-proxy there is \
             out of date or not healthy",
            affected.description
        ),
        affected,
        evidence,
        remedies: vec![remedy],
    })
}

fn own_sources(topology: &Topology) -> Option<Hazard> {
    let nodes = owned(nodes_matching(topology, |facts| {
        facts.drops_own_source_addresses == Some(true)
    }));
    let first = nodes.first()?;
    let services: BTreeSet<_> = topology
        .fronts()
        .values()
        .filter(|info| info.kind == FrontKind::LoadBalancer(IpMode::Vip))
        .map(|info| &info.service)
        .collect();
    // In other proxy modes nodes do not hold the balancer's address, so such packets have another cause.
    if topology.proxy_mode() != ProxyMode::Ipvs || services.is_empty() {
        return None;
    }
    let affected = affected_clients(
        &nodes,
        topology,
        "external clients that the load balancer sends to ",
    );
    let mut evidence = vec![format!(
        "in_martian_src in /proc/net/stat/rt_cache increases on {}",
        listed(&nodes)
    )];
    evidence.push(format!(
        "kube-proxy in IPVS mode binds the load balancer addresses of {}",
        listed(services)
    ));
    Some(Hazard {
        id: id(HazardKind::OwnSources, "martian sources"),
        kind: HazardKind::OwnSources,
        severity: Severity::Warning,
        subject: format!("packets from own addresses on {}", listed(&nodes)),
        sentence: format!(
            "{} would fail while in-cluster clients pass: the nodes drop packets from their own addresses, including \
             health checks from a load balancer address",
            affected.description
        ),
        affected,
        evidence,
        remedies: vec![
            Remedy::new(
                "configure the load balancer to send health checks from other addresses than its own, or the cloud \
                 controller to set ipMode: Proxy",
                Some(format!("kubectl debug node/{first} -it --image=busybox -- cat /proc/net/stat/rt_cache")),
                "a provider setting; with ipMode: Proxy, every in-cluster connection takes the detour through the \
                 load balancer",
            )
            .with_ineffective_when("the packets have another origin: check their source with tcpdump first"),
        ],
    })
}
