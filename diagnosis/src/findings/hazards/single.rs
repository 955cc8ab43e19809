//! All endpoints behind a load balancer are on one node: if that node fails, all hosts fail.

use parallax_model::ProbeSpec;

use super::{Hazard, HazardKind, affected_clients, all_nodes, id};
use crate::{
    findings::Severity,
    topology::{Service, Topology, TrafficPolicy, balancer_quota, entry_nodes},
    verdict::Remedy,
    wording::pluralize,
};

/// Checks a Service behind a load balancer.
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
            placed.dial_address.is_none()
                && matches!(placed.target.probe, ProbeSpec::Http(_))
                && placed.entry.as_ref().is_some_and(|(key, _)| *key == service.key)
        })
        .count();
    let (namespace, name) = (&service.key.namespace, &service.key.name);
    let local = service.external_traffic_policy == TrafficPolicy::Local;
    let affected = affected_clients(&all_nodes(topology), topology, "all clients, including those on ");
    Some(Hazard {
        id: id(HazardKind::SingleNode, &service.key.to_string()),
        kind: HazardKind::SingleNode,
        severity: Severity::Warning,
        subject: format!("Service {}", service.key),
        sentence: format!(
            "all clients would lose Service {} ({}) if node {node} failed: it runs {}",
            service.key,
            pluralize(hosts, "target"),
            if pods.len() == 1 {
                "the only endpoint".to_owned()
            } else {
                format!("all {} endpoints", pods.len())
            },
        ),
        affected,
        evidence: vec![
            format!("endpoints of Service {}: {} on {node}", service.key, pluralize(pods.len(), "Pod")),
            format!("the cluster has {}", pluralize(nodes, "node")),
        ],
        remedies: vec![
            Remedy::new(
                "spread the Pods: two or more replicas with topologySpreadConstraints on kubernetes.io/hostname",
                Some(format!(
                    "kubectl -n {namespace} get endpointslices -l kubernetes.io/service-name={name} -o wide"
                )),
                if local {
                    format!(
                        "one more Pod, or moving one; under policy Local, the load balancer registers one more node \
                         for each of {}",
                        pluralize(service.ports.len(), "port")
                    )
                } else {
                    "one more Pod, or moving one".to_owned()
                },
            )
            .with_ineffective_when("the Pods need a volume or an address that only that node has"),
            Remedy::new(
                "run the endpoints as a DaemonSet",
                None,
                format!(
                    "{} than today, with their memory and CPU; {}",
                    pluralize(nodes - 1, "more Pod"),
                    balancer_quota::describe_with_all_nodes(topology, service)
                ),
            )
            .with_ineffective_when("the other nodes have taints that the Pods do not tolerate"),
        ],
    })
}
