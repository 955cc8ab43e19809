//! Services with their endpoints, and the index from addresses to them.

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
    annotations::{ProbeAnnotations, wish},
    endpoints::{ServiceSlices, endpoints, is_tcp, target_port},
    notes::NoteCollector,
    policies::{by_namespace, guards},
};
use crate::{
    cluster::ClusterState,
    objects::resource::ResourceKind,
    objects::{EndpointSlice, Key, PortRef, Service, ServicePort},
};

/// Label of the Services over the mesh's own probers.
const ECHO: &str = "parallax.dev/echo";

/// A Service and what a [`ServiceSpec`] has no place for.
#[derive(Debug)]
pub(super) struct ConvertedService<'a> {
    pub(super) spec: ServiceSpec,
    pub(super) object: &'a Service,
    pub(super) wish: ProbeAnnotations,
    /// Some endpoint has an address of its own node: pods with `hostNetwork`.
    on_nodes: bool,
    /// Its Pods are those of Jobs, and none of them serves at present.
    pub(super) between_jobs: bool,
}

impl ConvertedService<'_> {
    /// `Service shop/web`.
    pub(super) fn label(&self) -> String {
        format!("Service {}", self.spec.key())
    }

    /// Whether new connections go anywhere at all.
    pub(super) fn has_endpoints(&self) -> bool {
        let serves = |e: &EndpointSpec| e.ready || (e.terminating && e.serving.unwrap_or(e.ready));
        self.spec.endpoints.iter().any(serves)
    }

    /// It has a TCP port of that number.
    pub(super) fn has_port(&self, number: u16) -> bool {
        self.spec.ports.iter().any(|port| port.port == number)
    }

    /// The Service's own port for what clients ask for at a number: that number, else the port behind which pods listen at
    /// it in the network of their node.
    pub(super) fn entry_port(&self, number: u16) -> Option<u16> {
        if self.has_port(number) {
            return Some(number);
        }
        self.listens_at(number)
    }

    /// The port behind which pods listen at a number in the network of their node.
    fn listens_at(&self, number: u16) -> Option<u16> {
        let mut ports = self.spec.ports.iter().filter(|_| self.on_nodes);
        ports
            .find(|port| port.target_port == number)
            .map(|port| port.port)
    }

    /// Names of its balancer, where that has any.
    pub(super) fn balancer_names(&self) -> impl Iterator<Item = &str> {
        let addresses = &self.object.status.load_balancer.ingress;
        addresses
            .iter()
            .map(|a| a.hostname.as_str())
            .filter(|name| !name.is_empty())
    }
}

/// All Services of the cluster.
#[derive(Debug, Default)]
pub(super) struct ServiceIndex<'a> {
    pub(super) all: BTreeMap<ServiceKey, ConvertedService<'a>>,
    by_address: BTreeMap<IpAddr, Vec<ServiceKey>>,
    by_name: BTreeMap<&'a str, Vec<ServiceKey>>,
    /// Whose each address of a node is.
    nodes: BTreeMap<IpAddr, NodeName>,
    /// Services whose pods listen at an address of their node.
    at_node: BTreeMap<IpAddr, Vec<ServiceKey>>,
}

impl<'a> ServiceIndex<'a> {
    pub(super) fn read(
        cluster: &'a ClusterState,
        slices: &ServiceSlices<'_>,
        machines: &[NodeSpec],
        notes: &mut NoteCollector,
    ) -> Self {
        let mut services = Self::default();
        let names: BTreeSet<&NodeName> = machines.iter().map(|node| &node.name).collect();
        for node in machines {
            let own = node.addresses.iter().map(|ip| (*ip, node.name.clone()));
            services.nodes.extend(own);
        }
        let known = cluster.listed.contains(&ResourceKind::NetworkPolicies);
        let policies = known.then(|| by_namespace(cluster));
        let mut taken: BTreeMap<SocketAddr, ServiceKey> = BTreeMap::new();
        for (key, object) in &cluster.services {
            let slices = slices.get(key).map_or(&[][..], Vec::as_slice);
            if let Some(mut found) = read(key, object, slices, &names, notes) {
                found.spec.guarded_by = policies.as_ref().and_then(|all| guards(all, key, object));
                found.leave_to_others(&mut taken, notes);
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
                found.on_nodes = true;
                self.at_node
                    .entry(endpoint.address)
                    .or_default()
                    .push(key.clone());
            }
        }
        for address in &found.spec.load_balancer {
            self.by_address.entry(address.ip).or_default().push(key.clone());
        }
        for address in &found.object.status.load_balancer.ingress {
            if !address.hostname.is_empty() {
                let named = self.by_name.entry(address.hostname.as_str()).or_default();
                named.push(key.clone());
            }
        }
        self.all.insert(key, found);
    }

    /// The Service that some addresses (or names of balancers) lead to at one of these ports: a balancer's, else one whose
    /// pods listen at the addresses of their own nodes.
    pub(super) fn way_in(&self, addresses: &[&str], ports: &[u16]) -> Option<ServiceKey> {
        let found = |key: &ServiceKey| self.all.get(key);
        let balances = |key: &&ServiceKey| {
            found(key).is_some_and(|found| ports.iter().any(|port| found.has_port(*port)))
        };
        let listens = |key: &&ServiceKey| {
            found(key).is_some_and(|found| ports.iter().any(|port| found.listens_at(*port).is_some()))
        };
        let mut behind = addresses.iter().flat_map(|address| self.behind(address));
        let mut at_nodes = addresses.iter().flat_map(|address| self.listening(address));
        behind.find(balances).or_else(|| at_nodes.find(listens)).cloned()
    }

    /// The Services behind an address or a name of a balancer.
    fn behind(&self, address: &str) -> &[ServiceKey] {
        let found = match address.parse::<IpAddr>() {
            Ok(ip) => self.by_address.get(&ip),
            Err(_) => self.by_name.get(address),
        };
        found.map_or(&[], Vec::as_slice)
    }

    /// The Services whose pods listen at an address of their own node.
    fn listening(&self, address: &str) -> &[ServiceKey] {
        let found = address.parse().ok().and_then(|ip: IpAddr| self.at_node.get(&ip));
        found.map_or(&[], Vec::as_slice)
    }

    /// The node that has an address of its own.
    pub(super) fn node_at(&self, address: &str) -> Option<&NodeName> {
        self.nodes.get(&address.parse().ok()?)
    }
}

impl ConvertedService<'_> {
    /// An address and port that another Service has already are left to that one.
    fn leave_to_others(&mut self, taken: &mut BTreeMap<SocketAddr, ServiceKey>, notes: &mut NoteCollector) {
        let key = self.spec.key();
        let ports: Vec<u16> = self.spec.ports.iter().map(|port| port.port).collect();
        let label = self.label();
        let mut free = |ip: IpAddr| {
            let fronts = || ports.iter().map(|port| SocketAddr::new(ip, *port));
            if let Some((front, other)) = fronts().find_map(|f| Some((f, taken.get(&f)?))) {
                notes.say(
                    &label,
                    format_args!(
                        "{front} belongs to the Service {other} already; this one is not probed there"
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

fn read<'a>(
    key: &Key,
    object: &'a Service,
    slices: &[&EndpointSlice],
    machines: &BTreeSet<&NodeName>,
    notes: &mut NoteCollector,
) -> Option<ConvertedService<'a>> {
    // A name elsewhere: nothing of it is in the cluster.
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
    for node in found.strangers {
        notes.say(
            &label,
            format_args!(
                "an endpoint is on the node {node}, which is not (any more) there; its placement is unknown"
            ),
        );
    }
    let wish = wish(&label, &object.metadata, notes);
    if wish.extra_roots.is_some() {
        notes.say(
            &label,
            "parallax.dev/extra-roots counts on an Ingress or an HTTPRoute, whose hosts are asked over TLS",
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
        endpoints: found.all,
        // Zero where there is none.
        health_check_node_port: u16::try_from(object.spec.health_check_node_port)
            .ok()
            .filter(|port| *port != 0),
        annotations: object
            .metadata
            .annotations
            .iter()
            .filter(|(name, _)| !name.starts_with(crate::objects::ANNOTATION))
            .map(|(name, value)| (name.clone(), value.chars().take(256).collect()))
            .collect(),
        ingress_class: None,
        guarded_by: None,
        echo: object.metadata.label(ECHO) == Some("true"),
        probe: ServiceProbe {
            wanted: None,
            path: wish.path.clone(),
            expect_status: wish.expect.clone(),
            interval_ms: wish.interval_ms,
            pending: wish.pending,
        },
    };
    Some(ConvertedService {
        spec,
        object,
        wish,
        on_nodes: false,
        between_jobs: false,
    })
}

fn policy(text: &str) -> TrafficPolicy {
    if text == "Local" {
        TrafficPolicy::Local
    } else {
        TrafficPolicy::Cluster
    }
}

/// None for a headless Service, whose address is the word `None`.
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

/// Addresses of the balancer, and `externalIPs`: nodes answer for these as for a balancer's (`ipMode: VIP`).
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
    let said = match &port.target_port {
        PortRef::Number(target) => u16::try_from(*target).ok(),
        PortRef::Name(_) | PortRef::Unset => None,
    };
    // Only the slices know the number behind a name; the Service's own word counts while there is none.
    let target_port = target_port(slices, &port.name).or(said).unwrap_or(number);
    let word = |text: &str| ObjectName::new(text).ok();
    Some(PortSpec {
        name: word(&port.name),
        app_protocol: word(&port.app_protocol),
        port: number,
        target_port,
        node_port: u16::try_from(port.node_port).ok().filter(|port| *port > 0),
    })
}
