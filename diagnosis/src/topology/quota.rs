//! Backends of a load balancer, now and with every node registered: each port of a Service counts once for each
//! registered node.

use parallax_model::ServiceKey;

use super::{BalancerSpec, Service, Topology, TrafficPolicy, entry_nodes};
use crate::wording::plural;

/// Backends of one Service on a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BalancerLoad {
    pub(crate) ports: usize,
    pub(crate) nodes: usize,
}

impl BalancerLoad {
    /// Current backends. With policy Local only nodes with an entry are registered.
    pub(crate) fn today(topology: &Topology, service: &Service) -> Self {
        Self {
            ports: service.ports.len(),
            nodes: match service.external_traffic_policy {
                TrafficPolicy::Cluster => topology.nodes().len(),
                TrafficPolicy::Local => entry_nodes(service).len(),
            },
        }
    }

    /// Backends with policy Cluster, or with an entry on every node.
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

/// Describes the backends of a Service's load balancer with every node registered: "load balancer b gets 4 ports ×
/// 50 nodes = 200 backends, 200 of 200 in total (quota from configuration)".
pub(crate) fn consequence(topology: &Topology, service: &Service) -> String {
    let load = BalancerLoad::everywhere(topology, service);
    let Some(balancer) = topology
        .balancers()
        .iter()
        .find(|b| b.services.contains(&service.key))
    else {
        return format!(
            "the load balancer gets {} backends: check its quota first",
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
            "load balancer {} gets {} backends, {after} in total: its quota is not configured, so check it first",
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
                "load balancer {} gets {} backends, {after} of {most} in total (quota from configuration){fits}",
                balancer.name,
                load.words()
            )
        }
    }
}

/// Reports whether every node can be registered for a Service; `None` without a quota.
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
