//! Load balancer quotas: the current number of backends and the number after each remedy. Each Service uses one backend
//! per port and registered node (I6).

use super::{AffectedClients, Hazard, HazardKind, id};
use crate::{
    findings::Severity,
    topology::{
        BalancerSpec, Service, Topology, TrafficPolicy,
        balancer_quota::{BalancerLoad, fits_all_nodes, total_backends},
        entry_nodes,
    },
    verdict::Remedy,
    wording::pluralize,
};

/// Share of the quota, in percent, from which the next change may exceed it.
const NEAR_QUOTA_PERCENT: usize = 80;

/// Returns one hazard for each load balancer that is near its quota or that a common remedy would push beyond it.
pub(super) fn hazards(topology: &Topology) -> Vec<Hazard> {
    topology
        .balancers()
        .iter()
        .filter_map(|balancer| hazard(topology, balancer))
        .collect()
}

fn hazard(topology: &Topology, balancer: &BalancerSpec) -> Option<Hazard> {
    let most = usize::try_from(balancer.quota?.targets).unwrap_or(usize::MAX);
    let today = total_backends(topology, balancer, |service| {
        BalancerLoad::current(topology, service)
    });
    // Backends per additional node: the ports of every Service that registers all nodes.
    let per_node = balancer
        .services
        .iter()
        .filter_map(|key| topology.service(key))
        .filter(|service| service.external_traffic_policy == TrafficPolicy::Cluster)
        .map(|service| service.ports.len())
        .sum::<usize>();
    let too_far: Vec<&Service> = balancer
        .services
        .iter()
        .filter(|key| fits_all_nodes(topology, key) == Some(false))
        .filter_map(|key| topology.service(key))
        .filter(|service| service.external_traffic_policy == TrafficPolicy::Local)
        .collect();
    let absent: Vec<String> = balancer
        .services
        .iter()
        .filter(|key| topology.service(key).is_none())
        .map(|key| format!("Service {key}"))
        .collect();
    let near = today.saturating_mul(100) >= most.saturating_mul(NEAR_QUOTA_PERCENT);
    let severity = match (today > most, near) {
        (true, _) => Severity::Critical,
        (false, true) => Severity::Warning,
        (false, false) if !too_far.is_empty() || !absent.is_empty() => Severity::Notice,
        (false, false) => return None,
    };
    let nodes = topology.nodes().len();
    let remaining = most.saturating_sub(today).checked_div(per_node);
    let forecast = match (today > most, remaining) {
        (true, _) => format!(
            "{} too many: some nodes or ports are not registered",
            today - most
        ),
        (false, Some(0)) => "one more node does not fit".to_owned(),
        (false, Some(remaining)) => format!(
            "the quota is reached at {}",
            pluralize(nodes.saturating_add(remaining), "node")
        ),
        (false, None) => "more nodes do not change this while the policy is Local".to_owned(),
    };
    let switch = if too_far.is_empty() {
        String::new()
    } else {
        let names: Vec<String> = too_far
            .iter()
            .map(|service| format!("Service {}", service.key))
            .collect();
        format!(
            "; externalTrafficPolicy: Cluster for {} does not fit",
            crate::wording::join_names(&names)
        )
    };
    let left_out = if absent.is_empty() {
        String::new()
    } else {
        format!(
            "; {} is not in the cluster and not counted",
            crate::wording::join_names(&absent)
        )
    };
    Some(Hazard {
        id: id(HazardKind::Quota, balancer.name.as_str()),
        kind: HazardKind::Quota,
        severity,
        subject: format!("balancer {}", balancer.name),
        affected: AffectedClients {
            nodes: Vec::new(),
            total_nodes: nodes,
            description: format!(
                "clients of load balancer {} on nodes or ports that do not fit",
                balancer.name
            ),
        },
        sentence: format!(
            "load balancer {} has {today} of {most} backends; {forecast}{switch}{left_out}",
            balancer.name
        ),
        evidence: evidence(topology, balancer, most),
        remedies: remedies(topology, balancer, most),
    })
}

/// Backends per Service, the current total, and the total if every node were registered for all Services.
fn evidence(topology: &Topology, balancer: &BalancerSpec, most: usize) -> Vec<String> {
    let today = total_backends(topology, balancer, |service| {
        BalancerLoad::current(topology, service)
    });
    let on_all_nodes = total_backends(topology, balancer, |service| {
        BalancerLoad::with_all_nodes(topology, service)
    });
    let mut evidence: Vec<String> = balancer
        .services
        .iter()
        .filter_map(|key| topology.service(key))
        .map(|service| {
            let policy = match service.external_traffic_policy {
                TrafficPolicy::Cluster => "policy Cluster: every node",
                TrafficPolicy::Local => "policy Local: nodes with an endpoint",
            };
            format!(
                "Service {}: {} backends ({policy})",
                service.key,
                BalancerLoad::current(topology, service).describe()
            )
        })
        .collect();
    evidence.push(format!(
        "today {today} of {most} backends (quota from configuration)"
    ));
    evidence.push(format!(
        "with policy Cluster or a DaemonSet for all Services: {on_all_nodes} of {most}"
    ));
    evidence
}

fn remedies(topology: &Topology, balancer: &BalancerSpec, most: usize) -> Vec<Remedy> {
    let services: Vec<&Service> = balancer
        .services
        .iter()
        .filter_map(|key| topology.service(key))
        .collect();
    let nodes = topology.nodes().len();
    let mut all = Vec::new();
    let largest = services
        .iter()
        .max_by_key(|service| (BalancerLoad::current(topology, service).backends(), &service.key));
    if let (Some(largest), true) = (largest, services.len() > 1) {
        let load = BalancerLoad::with_all_nodes(topology, largest);
        all.push(
            Remedy::new(
                format!("give Service {} its own load balancer", largest.key),
                None,
                format!(
                    "one more load balancer and address; it then has up to {} of {most} backends, and the remaining \
                     Services {}",
                    load.describe(),
                    total_backends(topology, balancer, |service| BalancerLoad::current(
                        topology, service
                    ))
                    .saturating_sub(BalancerLoad::current(topology, largest).backends())
                ),
            )
            .with_ineffective_when(if load.backends() > most {
                "it does not fit even on its own load balancer"
            } else {
                "names and certificates must stay on one address"
            }),
        );
    }
    for service in &services {
        let local = BalancerLoad {
            ports: service.ports.len(),
            registered_nodes: entry_nodes(service).len(),
        };
        if service.external_traffic_policy == TrafficPolicy::Cluster && local.registered_nodes < nodes {
            let (namespace, name) = (&service.key.namespace, &service.key.name);
            all.push(
                Remedy::new(
                    format!("set externalTrafficPolicy: Local for Service {}", service.key),
                    Some(format!(
                        "kubectl -n {namespace} patch service {name} --type merge -p '{{\"spec\":{{\"externalTrafficPolicy\":\"Local\"}}}}'"
                    )),
                    format!(
                        "{} backends instead of {}; Pods on nodes without an endpoint may then be refused (F1–F4)",
                        local.describe(),
                        BalancerLoad::current(topology, service).describe()
                    ),
                )
                .with_ineffective_when("the provider registers every node regardless of the policy"),
            );
        }
    }
    all.push(
        Remedy::new(
            "ask the provider to raise the quota",
            None,
            format!("currently {most}; a support request and often a fee"),
        )
        .with_ineffective_when("the limit is the size of the load balancer and not an account quota"),
    );
    all.push(
        Remedy::new(
            "let the load balancer target the Pods directly instead of the nodes' ports",
            None,
            format!(
                "backends are then endpoints: currently {}",
                services
                    .iter()
                    .map(|service| service.ports.len() * service.usable().len())
                    .sum::<usize>()
            ),
        )
        .with_ineffective_when("the Pods have no routable addresses in the cloud network"),
    );
    all
}
