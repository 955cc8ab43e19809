//! What a balancer holds, and what it would hold with every node registered: every port of a Service once for each node
//! it is registered with.

use parallax_model::ServiceKey;

use super::{BalancerSpec, Service, Topology, TrafficPolicy, entry_nodes};
use crate::wording::plural;

/// What a balancer holds of one Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BalancerLoad {
    pub(crate) ports: usize,
    pub(crate) nodes: usize,
}

impl BalancerLoad {
    /// Under policy Local only nodes with an entry are registered.
    pub(crate) fn today(topology: &Topology, service: &Service) -> Self {
        Self {
            ports: service.ports.len(),
            nodes: match service.external_traffic_policy {
                TrafficPolicy::Cluster => topology.nodes().len(),
                TrafficPolicy::Local => entry_nodes(service).len(),
            },
        }
    }

    /// With policy Cluster, or an entry on every node.
    pub(crate) fn everywhere(topology: &Topology, service: &Service) -> Self {
        Self {
            ports: service.ports.len(),
            nodes: topology.nodes().len(),
        }
    }

    pub(crate) const fn backends(self) -> usize {
        self.ports * self.nodes
    }

    pub(crate) fn words(self) -> String {
        format!(
            "{} × {} = {}",
            plural(self.ports, "port"),
            plural(self.nodes, "node"),
            self.backends()
        )
    }
}

pub(crate) fn sum(
    topology: &Topology,
    balancer: &BalancerSpec,
    load: impl Fn(&Service) -> BalancerLoad,
) -> usize {
    balancer
        .services
        .iter()
        .filter_map(|key| topology.service(key))
        .map(|service| load(service).backends())
        .sum()
}

/// What the balancer of a Service would hold with every node registered for it: "4 ports × 50 nodes = 200 backends, and
/// 200 of 200 on balancer b (quota from configuration)".
pub(crate) fn consequence(topology: &Topology, service: &Service) -> String {
    let load = BalancerLoad::everywhere(topology, service);
    let Some(balancer) = topology
        .balancers()
        .iter()
        .find(|b| b.services.contains(&service.key))
    else {
        return format!(
            "the balancer gets {} backends: compare with its quota first",
            load.words()
        );
    };
    let after = sum(topology, balancer, |other| {
        if other.key == service.key {
            load
        } else {
            BalancerLoad::today(topology, other)
        }
    });
    match balancer.quota {
        None => format!(
            "the balancer {} gets {} backends, {after} in all: its quota is not configured, compare first",
            balancer.name,
            load.words()
        ),
        Some(quota) => {
            let most = usize::try_from(quota.targets).unwrap_or(usize::MAX);
            let fits = if after > most {
                format!(": {} too many", after - most)
            } else {
                String::new()
            };
            format!(
                "the balancer {} gets {} backends, {after} of {most} in all (quota from configuration){fits}",
                balancer.name,
                load.words()
            )
        }
    }
}

/// Whether every node of the cluster could be registered for a Service; unknown without a quota.
pub(crate) fn fits(topology: &Topology, key: &ServiceKey) -> Option<bool> {
    let balancer = topology.balancers().iter().find(|b| b.services.contains(key))?;
    let most = usize::try_from(balancer.quota?.targets).unwrap_or(usize::MAX);
    let after = sum(topology, balancer, |other| {
        if other.key == *key {
            BalancerLoad::everywhere(topology, other)
        } else {
            BalancerLoad::today(topology, other)
        }
    });
    Some(after <= most)
}
