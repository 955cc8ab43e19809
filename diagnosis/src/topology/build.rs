//! From the written form to the checked one: all complaints at once, each with its path in the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    sync::Arc,
};

use parallax_model::{
    Front, HostName, HttpProbe, ObjectName, ProbeSpec, Scheme, ServiceKey, Target, TargetId, TargetSpec,
};

use crate::plan::Index;

use super::{
    BalancerSpec, Endpoint, EndpointCondition, EndpointSpec, FrontInfo, FrontKind, IngressSpec, Node,
    PlacedTarget, PortSpec, Service, ServiceSpec, Topology, TopologySpec, Written, exposure::exposures,
};

/// Something in a topology that cannot be, with its path (`services[2].endpoints[0].node`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

#[derive(Default)]
struct Builder {
    topology: Topology,
    problems: Vec<Problem>,
}

impl TryFrom<TopologySpec> for Topology {
    type Error = Vec<Problem>;

    fn try_from(spec: TopologySpec) -> Result<Self, Vec<Problem>> {
        let mut builder = Builder::default();
        builder.topology.written = Written(Arc::new(spec.clone()));
        builder.topology.proxy_mode = spec.proxy_mode;
        builder.topology.extra_vantages = spec.vantages;
        builder.nodes(spec.nodes);
        builder.services(spec.services);
        builder.ingresses(&spec.ingresses);
        builder.topology.public_resolvers = spec.resolvers.public.into_iter().collect();
        builder.balancers(spec.balancers);
        for (i, target) in spec.targets.into_iter().enumerate() {
            builder.target(&format!("targets[{i}]"), target, None, None);
        }
        let mut ways: BTreeMap<(ServiceKey, u16), Vec<Front>> = BTreeMap::new();
        for (front, info) in &builder.topology.fronts {
            let entry = (info.service.clone(), info.target_port);
            ways.entry(entry).or_default().push(*front);
        }
        builder.topology.ways = ways;
        if builder.problems.is_empty() {
            builder.topology.exposures = exposures(&builder.topology, &spec.ingresses);
            builder.topology.index = Index::new(&builder.topology);
            Ok(builder.topology)
        } else {
            Err(builder.problems)
        }
    }
}

impl Builder {
    fn wrong(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem {
            path: path.into(),
            message: message.into(),
        });
    }

    fn nodes(&mut self, nodes: Vec<super::NodeSpec>) {
        for (i, spec) in nodes.into_iter().enumerate() {
            let name = spec.name.clone();
            let node = Node {
                name: spec.name,
                zone: spec.zone,
                addresses: spec.addresses,
                prober: spec.prober,
                facts: spec.facts,
            };
            if self.topology.nodes.insert(name.clone(), node).is_some() {
                self.wrong(
                    format!("nodes[{i}].name"),
                    format!("the node {name} is listed twice"),
                );
            }
        }
    }

    fn services(&mut self, services: Vec<ServiceSpec>) {
        for (i, spec) in services.into_iter().enumerate() {
            let path = format!("services[{i}]");
            let key = spec.key();
            if self.topology.services.contains_key(&key) {
                self.wrong(&path, format!("the Service {key} is listed twice"));
                continue;
            }
            if spec.ports.is_empty() {
                self.wrong(format!("{path}.ports"), "a Service has at least one port");
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
                    ports: spec.ports,
                    endpoints,
                    health_check_node_port: spec.health_check_node_port,
                    annotations: spec.annotations,
                    ingress_class: spec.ingress_class,
                },
            );
        }
    }

    fn balancers(&mut self, balancers: Vec<BalancerSpec>) {
        let mut carried: BTreeMap<ServiceKey, ObjectName> = BTreeMap::new();
        for (i, balancer) in balancers.iter().enumerate() {
            for (j, key) in balancer.services.iter().enumerate() {
                let path = format!("balancers[{i}].services[{j}]");
                // A Service that is not there (yet) is no mistake of the cluster's: the forecast says so.
                if let Some(other) = carried.insert(key.clone(), balancer.name.clone()) {
                    self.wrong(
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
                self.wrong(
                    format!("{path}.pod"),
                    format!("the pod {} is listed twice", spec.pod),
                );
            }
            if let Some(node) = spec
                .node
                .as_ref()
                .filter(|n| !self.topology.nodes.contains_key(n))
            {
                self.wrong(
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
                    self.wrong(
                        path,
                        format!("{front} belongs to the Service {} already", other.service),
                    );
                }
            }
        }
    }

    /// The cluster addresses of Services that speak HTTP are targets too: the control for their balancer address.
    fn cluster_ip_targets(&mut self, path: &str, spec: &ServiceSpec) {
        for port in spec
            .ports
            .iter()
            .filter(|port| speaks(port) == Some(Scheme::Http))
        {
            for ip in &spec.cluster_ips {
                let host = HostName::new(format!("{}.{}.svc", spec.name, spec.namespace));
                let Ok(host) = host else {
                    self.wrong(path, "the Service's name is too long for a host name");
                    continue;
                };
                let front = SocketAddr::new(*ip, port.port);
                let Ok(id) = TargetId::new(format!("http://{front}/")) else {
                    continue;
                };
                let probe = ProbeSpec::Http(HttpProbe::get(Scheme::Http, host, port.port, "/".to_owned()));
                let target = Target {
                    id,
                    probe,
                    interval: None,
                    timeout: None,
                };
                self.place(path, target, Some((spec.key(), port.target_port)), Some(front));
            }
        }
    }

    fn ingresses(&mut self, ingresses: &[IngressSpec]) {
        let mut owners: BTreeMap<&HostName, String> = BTreeMap::new();
        for (i, ingress) in ingresses.iter().enumerate() {
            let path = format!("ingresses[{i}]");
            let Some(service) = self.topology.services.get(&ingress.service) else {
                let message = format!(
                    "expected namespace/name of a Service listed above, got {}",
                    ingress.service
                );
                self.wrong(format!("{path}.service"), message);
                continue;
            };
            let wanted: &[(u16, &str)] = if ingress.tls {
                &[(80, "http"), (443, "https")]
            } else {
                &[(80, "http")]
            };
            let ports: Vec<_> = wanted
                .iter()
                .filter_map(|(port, scheme)| {
                    service
                        .ports
                        .iter()
                        .find(|p| p.port == *port)
                        .map(|p| (*scheme, p.target_port))
                })
                .collect();
            if ports.is_empty() {
                let message = format!("the Service {} has neither port 80 nor 443", ingress.service);
                self.wrong(format!("{path}.service"), message);
            }
            for (j, host) in ingress.hosts.iter().enumerate() {
                let path = format!("{path}.hosts[{j}]");
                let name = format!("{}/{}", ingress.namespace, ingress.name);
                if let Some(owner) = owners.insert(host, name) {
                    self.wrong(
                        path,
                        format!("the host {host} is claimed by the Ingress {owner} already"),
                    );
                    continue;
                }
                for (scheme, target_port) in &ports {
                    let spec = TargetSpec::of(format!("{scheme}://{host}/"));
                    self.target(&path, spec, Some((ingress.service.clone(), *target_port)), None);
                }
            }
        }
    }

    fn target(
        &mut self,
        path: &str,
        spec: TargetSpec,
        entry: Option<(ServiceKey, u16)>,
        dial: Option<SocketAddr>,
    ) {
        match Target::try_from(spec) {
            Ok(target) => self.place(path, target, entry, dial),
            Err(problem) => self.wrong(path, problem.to_string()),
        }
    }

    fn place(
        &mut self,
        path: &str,
        target: Target,
        entry: Option<(ServiceKey, u16)>,
        dial: Option<SocketAddr>,
    ) {
        let id = target.id.clone();
        if self
            .topology
            .targets
            .insert(id.clone(), PlacedTarget { target, entry, dial })
            .is_some()
        {
            self.wrong(path, format!("the target {id} is listed twice"));
        }
    }
}

/// What a port speaks, as its `appProtocol` or its name says. A bare TCP connect to a database from every node is an
/// attack in its eyes, so nothing is guessed from the number.
fn speaks(port: &PortSpec) -> Option<Scheme> {
    let word = port.app_protocol.as_ref().or(port.name.as_ref())?.as_str();
    match word {
        "http" => Some(Scheme::Http),
        "https" => Some(Scheme::Https),
        _ if word.starts_with("http-") => Some(Scheme::Http),
        _ if word.starts_with("https-") => Some(Scheme::Https),
        _ => None,
    }
}
