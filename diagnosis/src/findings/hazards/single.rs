//! Every entry of a balancer on one node: with that node all of its hosts go.

use parallax_model::ProbeSpec;

use super::{Hazard, HazardKind, all_nodes, id, who};
use crate::{
    findings::Severity,
    topology::{Service, Topology, TrafficPolicy, entry_nodes, quota},
    verdict::Remedy,
    wording::plural,
};

/// For a Service behind a balancer.
pub(super) fn hazard(topology: &Topology, service: &Service) -> Option<Hazard> {
    let entries = entry_nodes(service);
    let nodes = topology.nodes().len();
    let pods = service.usable();
    // An endpoint without a known node may be anywhere.
    let placed = pods.iter().all(|endpoint| endpoint.node.is_some());
    if entries.len() != 1 || nodes < 2 || !placed {
        return None;
    }
    let node = entries.first()?;
    let hosts = topology
        .targets()
        .values()
        .filter(|placed| {
            placed.dial.is_none()
                && matches!(placed.target.probe, ProbeSpec::Http(_))
                && placed.entry.as_ref().is_some_and(|(key, _)| *key == service.key)
        })
        .count();
    let (namespace, name) = (&service.key.namespace, &service.key.name);
    let local = service.external_traffic_policy == TrafficPolicy::Local;
    let who = who(&all_nodes(topology), topology, "clients of every sort, on ");
    Some(Hazard {
        id: id(HazardKind::SingleNode, &service.key.to_string()),
        kind: HazardKind::SingleNode,
        severity: Severity::Warning,
        subject: format!("Service {}", service.key),
        sentence: format!(
            "everybody loses Service {} ({}) when node {node} goes: it holds {}",
            service.key,
            plural(hosts, "target"),
            if pods.len() == 1 {
                "the only entry".to_owned()
            } else {
                format!("all {} entries", pods.len())
            },
        ),
        who,
        evidence: vec![
            format!("entries of Service {}: {} on {node}", service.key, plural(pods.len(), "pod")),
            format!("the cluster has {}", plural(nodes, "node")),
        ],
        remedies: vec![
            Remedy::new(
                "spread the pods: two replicas or more with topologySpreadConstraints over kubernetes.io/hostname",
                Some(format!(
                    "kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name} -o wide"
                )),
                if local {
                    format!(
                        "one pod more or a move; under policy Local the balancer registers one node more for each of {}",
                        plural(service.ports.len(), "port")
                    )
                } else {
                    "one pod more, or a move of one".to_owned()
                },
            )
            .not_when("the pods need a volume or an address that only that node has"),
            Remedy::new(
                "run the entries as a DaemonSet",
                None,
                format!(
                    "{} more than today, with their memory and CPU; {}",
                    plural(nodes - 1, "pod"),
                    quota::consequence(topology, service)
                ),
            )
            .not_when("the other nodes carry taints that the pods do not tolerate"),
        ],
    })
}
