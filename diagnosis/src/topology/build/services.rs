//! Adds Services with their endpoints, fronts, load balancers and the targets of their cluster addresses.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use parallax_model::{Front, ObjectName, ServiceKey};

use super::TopologyBuilder;
use crate::topology::{
    BalancerSpec, Endpoint, EndpointCondition, EndpointSpec, FrontInfo, FrontKind, Service, ServiceSpec,
    cluster_addresses::cluster_ip_target,
};

impl TopologyBuilder {
    pub(super) fn services(&mut self, services: Vec<ServiceSpec>) {
        for (i, spec) in services.into_iter().enumerate() {
            let path = format!("services[{i}]");
            let key = spec.key();
            if self.topology.services.contains_key(&key) {
                self.add_problem(&path, format!("the Service {key} is listed twice"));
                continue;
            }
            if spec.ports.is_empty() {
                self.add_problem(format!("{path}.ports"), "a Service has at least one port");
            }
            self.fronts(&path, &spec);
            self.cluster_ip_targets(&path, &spec);
            let endpoints = self.endpoints(&path, &spec.endpoints);
            self.topology.services.insert(
                key.clone(),
                Service {
                    key,
                    service_type: spec.service_type,
                    external_traffic_policy: spec.external_traffic_policy,
                    internal_traffic_policy: spec.internal_traffic_policy,
                    headless: spec.cluster_ips.is_empty() && spec.load_balancer.is_empty(),
                    echo: spec.echo || self.are_probers(&endpoints),
                    ports: spec.ports,
                    endpoints,
                    health_check_node_port: spec.health_check_node_port,
                    annotations: spec.annotations,
                    ingress_class: spec.ingress_class,
                    guarded_by: spec.network_policies,
                    selector: spec.selector,
                },
            );
        }
    }

    /// Reports whether all endpoints are probers of the mesh.
    fn are_probers(&self, endpoints: &[Endpoint]) -> bool {
        let is_prober = |endpoint: &Endpoint| {
            let node = endpoint
                .node
                .as_ref()
                .and_then(|name| self.topology.nodes.get(name));
            let prober = node.and_then(|node| node.prober.as_ref());
            prober.is_some_and(|prober| prober.pod == endpoint.pod)
        };
        !endpoints.is_empty() && endpoints.iter().all(is_prober)
    }

    pub(super) fn balancers(&mut self, balancers: Vec<BalancerSpec>) {
        let mut carried: BTreeMap<ServiceKey, ObjectName> = BTreeMap::new();
        for (i, balancer) in balancers.iter().enumerate() {
            for (j, key) in balancer.services.iter().enumerate() {
                let path = format!("balancers[{i}].services[{j}]");
                // A Service that does not exist (yet) is not an error: the quota hazard reports it.
                if let Some(other) = carried.insert(key.clone(), balancer.name.clone()) {
                    self.add_problem(
                        path,
                        format!("the Service {key} is on the balancer {other} already"),
                    );
                }
            }
        }
        self.topology.balancers = balancers;
    }

    fn endpoints(&mut self, path: &str, specs: &[EndpointSpec]) -> Vec<Endpoint> {
        let mut pods = BTreeSet::new();
        let mut endpoints = Vec::new();
        for (i, spec) in specs.iter().enumerate() {
            let path = format!("{path}.endpoints[{i}]");
            if !pods.insert(&spec.pod) {
                self.add_problem(
                    format!("{path}.pod"),
                    format!("the pod {} is listed twice", spec.pod),
                );
            }
            if let Some(node) = spec
                .node
                .as_ref()
                .filter(|n| !self.topology.nodes.contains_key(n))
            {
                self.add_problem(
                    format!("{path}.node"),
                    format!("expected one of the nodes listed, got {node}"),
                );
            }
            let condition = if spec.ready && !spec.terminating {
                EndpointCondition::Ready
            } else if spec.terminating && spec.serving.unwrap_or(spec.ready) {
                EndpointCondition::Draining
            } else {
                EndpointCondition::Unready
            };
            endpoints.push(Endpoint {
                pod: spec.pod.clone(),
                address: spec.address,
                node: spec.node.clone(),
                condition,
                hints: spec.hints.clone(),
            });
        }
        endpoints.sort();
        endpoints
    }

    fn fronts(&mut self, path: &str, spec: &ServiceSpec) {
        let addresses = spec
            .cluster_ips
            .iter()
            .map(|ip| (*ip, FrontKind::ClusterIp))
            .chain(
                spec.load_balancer
                    .iter()
                    .map(|lb| (lb.ip, FrontKind::LoadBalancer(lb.ip_mode))),
            );
        for (ip, kind) in addresses {
            for port in &spec.ports {
                let front = Front::tcp(SocketAddr::new(ip, port.port));
                let info = FrontInfo {
                    service: spec.key(),
                    kind,
                    port: port.port,
                    target_port: port.target_port,
                };
                if let Some(other) = self.topology.fronts.insert(front, info) {
                    self.add_problem(
                        path,
                        format!("{front} belongs to the Service {} already", other.service),
                    );
                }
            }
        }
    }

    /// The cluster addresses of Services that speak HTTP are targets too: the control group for the balancer
    /// address.
    fn cluster_ip_targets(&mut self, path: &str, spec: &ServiceSpec) {
        for port in &spec.ports {
            for ip in &spec.cluster_ips {
                let front = SocketAddr::new(*ip, port.port);
                match cluster_ip_target(spec, port, front) {
                    Ok(Some(target)) => {
                        self.add_target(
                            path,
                            target,
                            Some((spec.key(), port.target_port)),
                            Some(front),
                            (false, None),
                        );
                    }
                    Ok(None) => {}
                    Err(message) => self.add_problem(path, message),
                }
            }
        }
    }
}
