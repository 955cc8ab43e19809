//! Backends of a load balancer, now and with every node registered: each port of a Service counts once for each
//! registered node.

use parallax_model::ServiceKey;

use super::{BalancerSpec, Service, Topology, TrafficPolicy, entry_nodes};
use crate::wording::pluralize;

/// Backends of one Service on a load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BalancerLoad {
    pub(crate) ports: usize,
    pub(crate) registered_nodes: usize,
}

impl BalancerLoad {
    /// Current backends. With policy Local only nodes with an entry are registered.
    pub(crate) fn current(topology: &Topology, service: &Service) -> Self {
        Self {
            ports: service.ports.len(),
            registered_nodes: match service.external_traffic_policy {
                TrafficPolicy::Cluster => topology.nodes().len(),
                TrafficPolicy::Local => entry_nodes(service).len(),
            },
        }
    }

    /// Backends with policy Cluster, or with an entry on every node.
    pub(crate) fn with_all_nodes(topology: &Topology, service: &Service) -> Self {
        Self {
            ports: service.ports.len(),
            registered_nodes: topology.nodes().len(),
        }
    }

    pub(crate) const fn backends(self) -> usize {
        self.ports * self.registered_nodes
    }

    pub(crate) fn describe(self) -> String {
        format!(
            "{} × {} = {}",
            pluralize(self.ports, "port"),
            pluralize(self.registered_nodes, "node"),
            self.backends()
        )
    }
}

pub(crate) fn total_backends(
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
pub(crate) fn describe_with_all_nodes(topology: &Topology, service: &Service) -> String {
    let load = BalancerLoad::with_all_nodes(topology, service);
    let Some(balancer) = topology
        .balancers()
        .iter()
        .find(|b| b.services.contains(&service.key))
    else {
        return format!(
            "the load balancer gets {} backends: check its quota first",
            load.describe()
        );
    };
    let after = total_backends(topology, balancer, |other| {
        if other.key == service.key {
            load
        } else {
            BalancerLoad::current(topology, other)
        }
    });
    match balancer.quota {
        None => format!(
            "load balancer {} gets {} backends, {after} in total: its quota is not configured, so check it first",
            balancer.name,
            load.describe()
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
                load.describe()
            )
        }
    }
}

/// Reports whether every node can be registered for a Service; `None` without a quota.
pub(crate) fn fits_all_nodes(topology: &Topology, key: &ServiceKey) -> Option<bool> {
    let balancer = topology.balancers().iter().find(|b| b.services.contains(key))?;
    let most = usize::try_from(balancer.quota?.targets).unwrap_or(usize::MAX);
    let after = total_backends(topology, balancer, |other| {
        if other.key == *key {
            BalancerLoad::with_all_nodes(topology, other)
        } else {
            BalancerLoad::current(topology, other)
        }
    });
    Some(after <= most)
}
