//! Validates a topology spec. Reports all problems at once, each with its path in the file.

mod services;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    net::SocketAddr,
    sync::Arc,
};

use parallax_model::{Front, HostName, NodeName, ProbeSpec, ServiceKey, Target, TargetSpec};

use super::{
    IngressSpec, Node, PlacedTarget, PlanIndex, PublishedSpec, SourceForm, Topology, TopologySpec,
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
        builder.aggregator(spec.aggregator);
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

    fn aggregator(&mut self, node: Option<NodeName>) {
        let unknown = node
            .as_ref()
            .filter(|node| !self.topology.nodes.contains_key(node));
        if let Some(node) = unknown {
            self.add_problem(
                "aggregator",
                format!("expected the name of a node listed above, got {node}"),
            );
        }
        self.topology.aggregator = node;
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
