//! Services with their endpoints, and the index of their addresses.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use parallax_diagnosis::topology::{
    EndpointSpec, IpMode, LoadBalancerSpec, NodeSpec, PortSpec, ServiceProbe, ServiceSpec, ServiceType,
    TrafficPolicy,
};
use parallax_model::{NodeName, ObjectName, ServiceKey};

use super::{
    annotations::{ProbeAnnotations, parse_annotations},
    endpoints::{ServiceSlices, endpoints, is_tcp, target_port},
    notes::NoteCollector,
    policies::{by_namespace, selecting_policies},
    source_ranges::refuses_all,
};
use crate::{
    cluster::ClusterState,
    objects::resource::ResourceKind,
    objects::{EndpointSlice, Key, PortRef, Service, ServicePort},
};

/// Label of the Services over the mesh's own probers.
const ECHO_LABEL: &str = "parallax.dev/echo";

/// A Service, with the properties that a [`ServiceSpec`] cannot represent.
#[derive(Debug)]
pub(super) struct ConvertedService<'a> {
    pub(super) spec: ServiceSpec,
    pub(super) object: &'a Service,
    pub(super) annotations: ProbeAnnotations,
    /// Some endpoints have an address of their own node, that is, they use `hostNetwork`.
    uses_host_network: bool,
    /// The Service's Pods belong to Jobs, and none of them is serving.
    pub(super) between_jobs: bool,
    /// `loadBalancerSourceRanges` contain no address of a node, so that a balancer that enforces them refuses the probers.
    pub(super) refuses_nodes: bool,
}

impl ConvertedService<'_> {
    /// Display name, such as `Service shop/web`.
    pub(super) fn label(&self) -> String {
        format!("Service {}", self.spec.key())
    }

    /// Whether new connections reach any endpoint.
    pub(super) fn has_endpoints(&self) -> bool {
        let serves = |e: &EndpointSpec| e.ready || (e.terminating && e.serving.unwrap_or(e.ready));
        self.spec.endpoints.iter().any(serves)
    }

    /// Whether the Service has a TCP port with this number.
    pub(super) fn has_port(&self, number: u16) -> bool {
        self.spec.ports.iter().any(|port| port.port == number)
    }

    /// The Service's port for a port number that clients use: the same number, otherwise the port whose Pods
    /// listen on that number in the host network.
    pub(super) fn entry_port(&self, number: u16) -> Option<u16> {
        if self.has_port(number) {
            return Some(number);
        }
        self.host_network_port(number)
    }

    /// The port whose Pods listen on a number in the host network.
    fn host_network_port(&self, number: u16) -> Option<u16> {
        let mut ports = self.spec.ports.iter().filter(|_| self.uses_host_network);
        ports
            .find(|port| port.target_port == number)
            .map(|port| port.port)
    }

    /// Host names of the load balancer, if it has any.
    pub(super) fn balancer_names(&self) -> impl Iterator<Item = &str> {
        let addresses = &self.object.status.load_balancer.ingress;
        addresses
            .iter()
            .map(|a| a.hostname.as_str())
            .filter(|name| !name.is_empty())
    }
}

/// The Services of the cluster, indexed by address.
#[derive(Debug, Default)]
pub(super) struct ServiceIndex<'a> {
    pub(super) all: BTreeMap<ServiceKey, ConvertedService<'a>>,
    by_balancer_address: BTreeMap<IpAddr, Vec<ServiceKey>>,
    by_balancer_name: BTreeMap<&'a str, Vec<ServiceKey>>,
    /// Nodes by address.
    nodes: BTreeMap<IpAddr, NodeName>,
    /// Services whose Pods listen on an address of their node, by that address.
    by_node_address: BTreeMap<IpAddr, Vec<ServiceKey>>,
}

impl<'a> ServiceIndex<'a> {
    pub(super) fn new(
        cluster: &'a ClusterState,
        slices: &ServiceSlices<'_>,
        nodes: &[NodeSpec],
        collector: &mut NoteCollector,
    ) -> Self {
        let mut services = Self::default();
        let names: BTreeSet<&NodeName> = nodes.iter().map(|node| &node.name).collect();
        for node in nodes {
            let own = node.addresses.iter().map(|ip| (*ip, node.name.clone()));
            services.nodes.extend(own);
        }
        let known = cluster.listed.contains(&ResourceKind::NetworkPolicies);
        let policies = known.then(|| by_namespace(cluster));
        let mut taken: BTreeMap<SocketAddr, ServiceKey> = BTreeMap::new();
        for (key, object) in &cluster.services {
            let slices = slices.get(key).map_or(&[][..], Vec::as_slice);
            if let Some(mut found) = convert(key, object, slices, &names, collector) {
                found.spec.network_policies = policies
                    .as_ref()
                    .and_then(|all| selecting_policies(all, key, object));
                found.release_taken_addresses(&mut taken, collector);
                found.refuses_nodes = refuses_all(object, services.nodes.keys());
                if found.refuses_nodes {
                    collector.add(
                        found.label(),
                        "its loadBalancerSourceRanges contain no address of a node; its load balancer is not in service for the \
                         probers until one of them gets an answer",
                    );
                }
                services.add(found);
            }
        }
        services
    }

    fn add(&mut self, mut found: ConvertedService<'a>) {
        let key = found.spec.key();
        for endpoint in &found.spec.endpoints {
            let owner = self.nodes.get(&endpoint.address);
            if owner.is_some() && owner == endpoint.node.as_ref() {
                found.uses_host_network = true;
                self.by_node_address
                    .entry(endpoint.address)
                    .or_default()
                    .push(key.clone());
            }
        }
        for address in &found.spec.load_balancer {
            self.by_balancer_address
                .entry(address.ip)
                .or_default()
                .push(key.clone());
        }
        for address in &found.object.status.load_balancer.ingress {
            if !address.hostname.is_empty() {
                let named = self
                    .by_balancer_name
                    .entry(address.hostname.as_str())
                    .or_default();
                named.push(key.clone());
            }
        }
        self.all.insert(key, found);
    }

    /// Finds the Service that addresses or load balancer names lead to on one of these ports: a load
    /// balancer's Service first, otherwise a Service whose Pods listen on the addresses of their own nodes.
    pub(super) fn entry_for(&self, addresses: &[&str], ports: &[u16]) -> Option<ServiceKey> {
        let found = |key: &ServiceKey| self.all.get(key);
        let balances = |key: &&ServiceKey| {
            found(key).is_some_and(|found| ports.iter().any(|port| found.has_port(*port)))
        };
        let listens = |key: &&ServiceKey| {
            found(key).is_some_and(|found| ports.iter().any(|port| found.host_network_port(*port).is_some()))
        };
        let mut behind = addresses.iter().flat_map(|address| self.behind_balancer(address));
        let mut at_nodes = addresses
            .iter()
            .flat_map(|address| self.listening_on_node(address));
        behind.find(balances).or_else(|| at_nodes.find(listens)).cloned()
    }

    /// The Services with this load balancer address or name.
    fn behind_balancer(&self, address: &str) -> &[ServiceKey] {
        let found = match address.parse::<IpAddr>() {
            Ok(ip) => self.by_balancer_address.get(&ip),
            Err(_) => self.by_balancer_name.get(address),
        };
        found.map_or(&[], Vec::as_slice)
    }

    /// The Services whose Pods listen on this address of their own node.
    fn listening_on_node(&self, address: &str) -> &[ServiceKey] {
        let found = address
            .parse()
            .ok()
            .and_then(|ip: IpAddr| self.by_node_address.get(&ip));
        found.map_or(&[], Vec::as_slice)
    }

    /// The node with this address.
    pub(super) fn node_at(&self, address: &str) -> Option<&NodeName> {
        self.nodes.get(&address.parse().ok()?)
    }
}

impl ConvertedService<'_> {
    /// Removes addresses on which another Service already uses one of the ports, and notes them.
    fn release_taken_addresses(
        &mut self,
        taken: &mut BTreeMap<SocketAddr, ServiceKey>,
        collector: &mut NoteCollector,
    ) {
        let key = self.spec.key();
        let ports: Vec<u16> = self.spec.ports.iter().map(|port| port.port).collect();
        let label = self.label();
        let mut free = |ip: IpAddr| {
            let fronts = || ports.iter().map(|port| SocketAddr::new(ip, *port));
            if let Some((front, other)) = fronts().find_map(|f| Some((f, taken.get(&f)?))) {
                collector.add(
                    &label,
                    format_args!(
                        "{front} already belongs to the Service {other}; this Service is not probed there"
                    ),
                );
                return false;
            }
            taken.extend(fronts().map(|front| (front, key.clone())));
            true
        };
        self.spec.cluster_ips.retain(|ip| free(*ip));
        self.spec.load_balancer.retain(|lb| free(lb.ip));
    }
}

fn convert<'a>(
    key: &Key,
    object: &'a Service,
    slices: &[&EndpointSlice],
    machines: &BTreeSet<&NodeName>,
    collector: &mut NoteCollector,
) -> Option<ConvertedService<'a>> {
    // An ExternalName refers to a host outside the cluster.
    if object.spec.kind == "ExternalName" {
        return None;
    }
    let ports: Vec<PortSpec> = object
        .spec
        .ports
        .iter()
        .filter(|port| is_tcp(&port.protocol))
        .filter_map(|port| self::port(port, slices))
        .collect();
    if ports.is_empty() {
        return None;
    }
    let cluster_ips = cluster_ips(object);
    let prefers_v6 = cluster_ips.first().map(IpAddr::is_ipv6);
    let found = endpoints(slices, prefers_v6, machines);
    let label = format!("Service {key}");
    for node in found.unknown_nodes {
        collector.add(
            &label,
            format_args!(
                "an endpoint is on the node {node}, which does not exist (any more); its placement is unknown"
            ),
        );
    }
    let wish = parse_annotations(&label, &object.metadata, collector);
    if wish.extra_roots.is_some() {
        collector.add(
            &label,
            "parallax.dev/extra-roots is supported on an Ingress or HTTPRoute only, whose hosts are probed over TLS",
        );
    }
    let spec = ServiceSpec {
        namespace: key.namespace.parse().ok()?,
        name: key.name.parse().ok()?,
        service_type: match object.spec.kind.as_str() {
            "LoadBalancer" => ServiceType::LoadBalancer,
            "NodePort" => ServiceType::NodePort,
            _ => ServiceType::ClusterIP,
        },
        cluster_ips,
        load_balancer: load_balancer(object),
        external_traffic_policy: policy(&object.spec.external_traffic_policy),
        internal_traffic_policy: policy(&object.spec.internal_traffic_policy),
        ports,
        endpoints: found.endpoints,
        // Zero if not allocated.
        health_check_node_port: u16::try_from(object.spec.health_check_node_port)
            .ok()
            .filter(|port| *port != 0),
        annotations: object
            .metadata
            .annotations
            .iter()
            .filter(|(name, _)| !name.starts_with(crate::objects::ANNOTATION_PREFIX))
            .map(|(name, value)| (name.clone(), value.chars().take(256).collect()))
            .collect(),
        ingress_class: None,
        network_policies: None,
        selector: object.spec.selector.clone(),
        echo: object.metadata.label(ECHO_LABEL) == Some("true"),
        probe: ServiceProbe {
            enabled: None,
            path: wish.path.clone(),
            expect_status: wish.expect.clone(),
            interval_ms: wish.interval_ms,
            pending: wish.pending,
        },
    };
    Some(ConvertedService {
        spec,
        object,
        annotations: wish,
        uses_host_network: false,
        between_jobs: false,
        refuses_nodes: false,
    })
}

fn policy(text: &str) -> TrafficPolicy {
    if text == "Local" {
        TrafficPolicy::Local
    } else {
        TrafficPolicy::Cluster
    }
}

/// Empty for a headless Service, whose address is `None`.
fn cluster_ips(object: &Service) -> Vec<IpAddr> {
    let spec = &object.spec;
    let mut all: Vec<IpAddr> = Vec::new();
    for text in spec.cluster_ips.iter().chain([&spec.cluster_ip]) {
        if let Ok(ip) = text.parse()
            && !all.contains(&ip)
        {
            all.push(ip);
        }
    }
    all
}

/// Addresses of the load balancer, and `externalIPs`, which nodes treat like a load balancer's address
/// (`ipMode: VIP`).
fn load_balancer(object: &Service) -> Vec<LoadBalancerSpec> {
    let mut all: Vec<LoadBalancerSpec> = Vec::new();
    let balancer = object.status.load_balancer.ingress.iter().map(|address| {
        let mode = if address.ip_mode == "Proxy" {
            IpMode::Proxy
        } else {
            IpMode::Vip
        };
        (&address.ip, mode)
    });
    let external = object.spec.external_ips.iter().map(|ip| (ip, IpMode::Vip));
    for (text, ip_mode) in balancer.chain(external) {
        if let Ok(ip) = text.parse::<IpAddr>()
            && all.iter().all(|known| known.ip != ip)
        {
            all.push(LoadBalancerSpec { ip, ip_mode });
        }
    }
    all
}

fn port(port: &ServicePort, slices: &[&EndpointSlice]) -> Option<PortSpec> {
    let number = u16::try_from(port.port).ok()?;
    let declared_port = match &port.target_port {
        PortRef::Number(target) => u16::try_from(*target).ok(),
        PortRef::Name(_) | PortRef::Unset => None,
    };
    // Only EndpointSlices resolve a named target port; the Service's own number is the fallback.
    let target_port = target_port(slices, &port.name)
        .or(declared_port)
        .unwrap_or(number);
    let word = |text: &str| ObjectName::new(text).ok();
    Some(PortSpec {
        name: word(&port.name),
        app_protocol: word(&port.app_protocol),
        port: number,
        target_port,
        node_port: u16::try_from(port.node_port).ok().filter(|port| *port > 0),
    })
}
