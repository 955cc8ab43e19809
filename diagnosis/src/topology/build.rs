//! Validates a topology spec. Reports all problems at once, each with its path in the file.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
    net::SocketAddr,
    sync::Arc,
};

use parallax_model::{Front, HostName, ObjectName, ProbeSpec, ServiceKey, Target, TargetSpec};

use super::{
    BalancerSpec, Endpoint, EndpointCondition, EndpointSpec, FrontInfo, FrontKind, IngressSpec, Node,
    PlacedTarget, PlanIndex, PublishedSpec, Service, ServiceSpec, SourceForm, Topology, TopologySpec,
    cluster_addresses::cluster_ip_target,
    exposure::{HostClaim, build_exposures},
    node_listeners::NodeListeners,
};

/// An invalid part of a topology spec, with its path (`services[2].endpoints[0].node`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyProblem {
    /// Path in the spec.
    pub path: String,
    /// The value found and the value expected.
    pub message: String,
}

impl fmt::Display for TopologyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

#[derive(Default)]
struct TopologyBuilder {
    topology: Topology,
    /// The ingress class of each host.
    claims: Vec<HostClaim>,
    problems: Vec<TopologyProblem>,
}

impl TryFrom<TopologySpec> for Topology {
    type Error = Vec<TopologyProblem>;

    fn try_from(spec: TopologySpec) -> Result<Self, Vec<TopologyProblem>> {
        let mut builder = TopologyBuilder::default();
        builder.topology.source = SourceForm(Arc::new(spec.clone()));
        builder.topology.platform = spec.platform;
        builder.topology.proxy_mode = spec.proxy_mode;
        builder.topology.extra_vantages = spec.vantages;
        builder.nodes(spec.nodes);
        builder.services(spec.services);
        builder.ingresses(&spec.ingresses);
        builder.published(spec.published);
        builder.topology.node_listeners = NodeListeners::new(&builder.topology);
        builder.topology.query_authoritative = spec.resolvers.authoritative;
        builder.topology.public_resolvers = spec.resolvers.public.into_iter().collect();
        builder.balancers(spec.balancers);
        for (i, target) in spec.targets.into_iter().enumerate() {
            builder.target(&format!("targets[{i}]"), target, None);
        }
        let mut ways: BTreeMap<(ServiceKey, u16), Vec<Front>> = BTreeMap::new();
        for (front, info) in &builder.topology.fronts {
            let entry = (info.service.clone(), info.target_port);
            ways.entry(entry).or_default().push(*front);
        }
        builder.topology.fronts_by_entry = ways;
        if builder.problems.is_empty() {
            builder.topology.exposures = build_exposures(&builder.topology, &builder.claims);
            builder.topology.plan_index = PlanIndex::new(&builder.topology);
            Ok(builder.topology)
        } else {
            Err(builder.problems)
        }
    }
}

impl TopologyBuilder {
    fn add_problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(TopologyProblem {
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
                readiness: spec.readiness,
                cordoned: spec.cordoned,
                facts: spec.facts,
            };
            if self.topology.nodes.insert(name.clone(), node).is_some() {
                self.add_problem(
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

    fn balancers(&mut self, balancers: Vec<BalancerSpec>) {
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

    fn ingresses(&mut self, ingresses: &[IngressSpec]) {
        let mut owners: BTreeMap<&HostName, String> = BTreeMap::new();
        for (i, ingress) in ingresses.iter().enumerate() {
            let path = format!("ingresses[{i}]");
            let Some(service) = self.topology.services.get(&ingress.service) else {
                let message = format!(
                    "expected namespace/name of a Service listed above, got {}",
                    ingress.service
                );
                self.add_problem(format!("{path}.service"), message);
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
                self.add_problem(format!("{path}.service"), message);
            }
            for (j, host) in ingress.hosts.iter().enumerate() {
                let path = format!("{path}.hosts[{j}]");
                let name = format!("{}/{}", ingress.namespace, ingress.name);
                if let Some(owner) = owners.insert(host, name) {
                    self.add_problem(
                        path,
                        format!("the host {host} is claimed by the Ingress {owner} already"),
                    );
                    continue;
                }
                self.claims.push(HostClaim {
                    host: host.clone(),
                    class: ingress.class.clone(),
                    service: ingress.service.clone(),
                });
                for (scheme, target_port) in &ports {
                    let spec = TargetSpec::new(format!("{scheme}://{host}/"));
                    self.target(&path, spec, Some((ingress.service.clone(), *target_port)));
                }
            }
        }
    }

    fn published(&mut self, published: Vec<PublishedSpec>) {
        for (i, spec) in published.into_iter().enumerate() {
            let path = format!("published[{i}]");
            let service = self.topology.services.get(&spec.service);
            let port = service.and_then(|service| service.ports.iter().find(|p| p.port == spec.port));
            let Some(port) = port else {
                let message = format!(
                    "expected namespace/name and port of a Service listed above, got {} port {}",
                    spec.service, spec.port
                );
                self.add_problem(format!("{path}.service"), message);
                continue;
            };
            let entry = (spec.service.clone(), port.target_port);
            let routed = spec.class.is_some() || spec.origin.is_some();
            match Target::try_from(spec.target) {
                Ok(target) => {
                    if let ProbeSpec::Http(http) = &target.probe {
                        self.claims.push(HostClaim {
                            host: http.host.clone(),
                            class: spec.class,
                            service: spec.service,
                        });
                    }
                    self.add_target(&path, target, Some(entry), None, (routed, spec.origin));
                }
                Err(problem) => self.add_problem(format!("{path}.target"), problem.to_string()),
            }
        }
    }

    fn target(&mut self, path: &str, spec: TargetSpec, entry: Option<(ServiceKey, u16)>) {
        match Target::try_from(spec) {
            Ok(target) => {
                // A given entry is that of an Ingress; otherwise it is the Service's own.
                let routed = entry.is_some();
                let entry = entry.or_else(|| self.entry_of(&target));
                self.add_target(path, target, entry, None, (routed, None));
            }
            Err(problem) => self.add_problem(path, problem.to_string()),
        }
    }

    /// Resolves an address or a Service's DNS name to the Service and target port.
    fn entry_of(&self, target: &Target) -> Option<(ServiceKey, u16)> {
        let (host, port) = target.probe.server()?;
        if let Ok(ip) = host.as_str().parse() {
            let info = self.topology.front(&Front::tcp(SocketAddr::new(ip, port)))?;
            return Some((info.service.clone(), info.target_port));
        }
        let mut labels = host.as_str().trim_end_matches('.').splitn(4, '.');
        let (name, namespace) = (labels.next()?, labels.next()?);
        if labels.next() != Some("svc") {
            return None;
        }
        let key: ServiceKey = format!("{namespace}/{name}").parse().ok()?;
        let service = self.topology.services.get(&key)?;
        let port = service.ports.iter().find(|p| p.port == port)?;
        Some((key, port.target_port))
    }

    fn add_target(
        &mut self,
        path: &str,
        target: Target,
        entry: Option<(ServiceKey, u16)>,
        dial: Option<SocketAddr>,
        (routed, origin): (bool, Option<ServiceKey>),
    ) {
        let id = target.id.clone();
        let forbidden = target.forbidden_probes.clone();
        let placed = PlacedTarget {
            target,
            entry,
            dial_address: dial,
            origin,
            routed,
        };
        match self.topology.targets.entry(id) {
            Entry::Vacant(free) => {
                free.insert(placed);
                let questions = forbidden
                    .into_iter()
                    .map(|question| (question.id.clone(), question));
                self.topology.forbidden.extend(questions);
            }
            Entry::Occupied(mut taken) => match taken.get_mut().target.add_forbidden(&placed.target) {
                Ok(()) => {
                    let questions = forbidden
                        .into_iter()
                        .map(|question| (question.id.clone(), question));
                    self.topology.forbidden.extend(questions);
                }
                Err(message) => self.add_problem(path, message),
            },
        }
    }
}
