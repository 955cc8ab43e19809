//! External data plane: the lab builds nodes, Pods and balancers, and a hook implements the Services, for example with
//! real kube-proxies. The hook's input is a contract, documented in `docs/contributing/lab.md`.
//!
//! Before the first probe and after every change of the cluster, the lab runs `HOOK EVENT FILE` inside the machine.
//! When it exits, the rules must be in effect.

use std::net::Ipv4Addr;

use parallax_model::{NodeName, PodName};
use serde::Serialize;

use crate::{
    cluster::{Cluster, Service, addresses},
    command::GuestCommand,
    incident::{IpMode, ServicePort, TrafficPolicy},
};

/// Input file of the hook.
pub const FILE: &str = "/run/cluster.json";

/// Output of the hook and of everything it starts.
pub const LOG: &str = "/run/hook.log";

/// Reason for running the hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookEvent {
    /// The network namespaces exist; no Service works yet.
    Built,
    /// The cluster has changed.
    Changed,
}

impl HookEvent {
    const fn word(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::Changed => "changed",
        }
    }
}

/// The cluster as the hook's input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookInput<'a> {
    /// CIDR of all Pods.
    #[serde(rename = "podCIDR")]
    pod_cidr: &'static str,
    /// CIDR of all ClusterIPs.
    #[serde(rename = "serviceCIDR")]
    service_cidr: &'static str,
    /// The host's loopback, where an API server may listen.
    host: Ipv4Addr,
    nodes: Vec<Node<'a>>,
    services: Vec<ServiceOf<'a>>,
    resolver: Resolver,
}

/// A node. Its network namespace is `/run/netns/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node<'a> {
    name: &'a NodeName,
    address: Ipv4Addr,
    #[serde(rename = "podCIDR")]
    pod_cidr: String,
    /// Whether it is part of the cluster now.
    present: bool,
    /// Whether its rules must stay unchanged.
    frozen: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceOf<'a> {
    service: String,
    /// Absent for a headless Service.
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<Ipv4Addr>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: Option<Ipv4Addr>,
    ip_mode: IpMode,
    external_traffic_policy: TrafficPolicy,
    internal_traffic_policy: TrafficPolicy,
    ports: &'a [ServicePort],
    endpoints: Vec<Endpoint<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Endpoint<'a> {
    pod: &'a PodName,
    node: &'a NodeName,
    address: Ipv4Addr,
}

/// The resolver's Service: port 53, UDP and TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Resolver {
    #[serde(rename = "clusterIP")]
    cluster_ip: Ipv4Addr,
    endpoints: Vec<Ipv4Addr>,
}

impl<'a> HookInput<'a> {
    /// Builds the hook's input from a cluster.
    #[must_use]
    pub fn from_cluster(cluster: &'a Cluster) -> Self {
        let node = |node: &'a crate::cluster::Node| Node {
            name: &node.name,
            address: addresses::underlay_address(node.number),
            pod_cidr: addresses::pod_cidr(node.number),
            present: node.present,
            frozen: cluster.is_kube_proxy_stopped(&node.name),
        };
        Self {
            pod_cidr: addresses::POD_CIDR,
            service_cidr: addresses::SERVICE_CIDR,
            host: addresses::HOST,
            nodes: cluster.nodes.iter().map(node).collect(),
            services: cluster.services.iter().map(service).collect(),
            resolver: Resolver {
                cluster_ip: addresses::DNS_SERVICE,
                endpoints: cluster
                    .resolver_service
                    .usable_pods()
                    .iter()
                    .map(|pod| pod.address)
                    .collect(),
            },
        }
    }
}

fn service(service: &Service) -> ServiceOf<'_> {
    let endpoints = service.usable_pods().into_iter().map(|pod| Endpoint {
        pod: &pod.name,
        node: &pod.node,
        address: pod.address,
    });
    ServiceOf {
        service: service.key.to_string(),
        cluster_ip: service.cluster_ip,
        load_balancer_ip: service.load_balancer_ip,
        ip_mode: service.ip_mode,
        external_traffic_policy: service.policy,
        internal_traffic_policy: service.internal_policy,
        ports: &service.ports,
        endpoints: endpoints.collect(),
    }
}

/// Builds the hook's command. Processes that it leaves running end with the machine; they write to a file, so that
/// nothing waits for them.
#[must_use]
pub fn command(hook: &str, event: HookEvent) -> GuestCommand {
    let script =
        format!("\"$@\" >> {LOG} 2>&1 < /dev/null || {{ status=$?; tail -n 20 {LOG} >&2; exit $status; }}");
    GuestCommand::new(["sh", "-c", &script, "sh", hook, event.word(), FILE])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_a_hook_receives_for_i1() {
        let text = include_str!("../incidents/i1.yaml");
        let incident = crate::incident_file::parse(Path::new("i1.yaml"), text).unwrap();
        let cluster = Cluster::derive(&incident).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&HookInput::from_cluster(&cluster)).unwrap());
    }
}
