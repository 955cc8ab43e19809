//! Classifies the addresses of a DNS answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use parallax_model::{EventTime, ServiceKey};

use super::{FormerAnswer, name_of, normalize_name, resolver_answers::RoundAnswers};
use crate::topology::{FrontKind, Topology, is_private};

/// The kind of an answer, decided by its worst address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressKind {
    /// The name does not exist or has no address.
    NoAddress,
    /// Load balancer addresses of the Services that the name stands for.
    Front(ServiceKey),
    /// Addresses of nodes where Pods of these Services listen in the host network.
    HostNetwork(ServiceKey),
    /// ClusterIPs or endpoint addresses of these Services.
    Internal(ServiceKey),
    /// An address of a node.
    Node(IpAddr),
    /// Public addresses outside the cluster.
    Global,
    /// A private address that no object of the cluster has.
    UnknownPrivate(IpAddr),
    /// Addresses of a Service that the name does not stand for.
    OtherService(ServiceKey),
    /// A former address of a Service, with the time it was lost.
    Former(IpAddr, ServiceKey, EventTime),
}

impl AddressKind {
    /// The group of addresses inside the cluster.
    pub(super) const INSIDE: u8 = 2;

    /// The group that is compared between rounds: a change within a group is not a change of kind.
    pub(super) const fn group(&self) -> u8 {
        match self {
            Self::NoAddress => 0,
            Self::Front(_) | Self::HostNetwork(_) => 1,
            Self::Internal(_) => Self::INSIDE,
            Self::Global => 3,
            Self::UnknownPrivate(_) => 4,
            Self::OtherService(_) => 5,
            Self::Former(..) => 6,
            Self::Node(_) => 7,
        }
    }

    pub(super) const fn is_own(&self) -> bool {
        matches!(self, Self::Front(_) | Self::HostNetwork(_) | Self::Internal(_))
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("no address"),
            Self::Front(service) => write!(f, "the load balancer of Service {service}"),
            Self::HostNetwork(service) => write!(f, "a node on which a Pod of Service {service} listens"),
            Self::Internal(service) => write!(f, "Service {service} inside the cluster"),
            Self::Node(address) => write!(f, "{address} is a node's address"),
            Self::Global => f.write_str("an address outside this cluster"),
            Self::UnknownPrivate(address) => {
                write!(
                    f,
                    "{address} belongs to no Service, endpoint or node of this cluster"
                )
            }
            Self::OtherService(service) => write!(f, "an address of Service {service}"),
            Self::Former(address, service, _) => {
                write!(
                    f,
                    "{address} belonged to Service {service}, which no longer has it"
                )
            }
        }
    }
}

/// The Services that a name stands for according to the topology, and their addresses.
#[derive(Debug, Default)]
pub(super) struct NamedServices {
    pub(super) services: BTreeSet<ServiceKey>,
    pub(super) balancers: BTreeSet<IpAddr>,
    pub(super) host_network: BTreeSet<IpAddr>,
    pub(super) internal: BTreeSet<IpAddr>,
}

impl NamedServices {
    pub(super) fn is_known(&self) -> bool {
        self.all().next().is_some()
    }

    /// All addresses of these Services.
    pub(super) fn all(&self) -> impl Iterator<Item = &IpAddr> {
        self.balancers
            .iter()
            .chain(&self.host_network)
            .chain(&self.internal)
    }

    fn any(&self) -> Option<ServiceKey> {
        self.services.first().cloned()
    }
}

/// Services by name and addresses by Service, computed once for all names.
#[derive(Debug, Default)]
pub(super) struct AddressOwners {
    names: BTreeMap<String, BTreeSet<ServiceKey>>,
    balancers: BTreeMap<ServiceKey, BTreeSet<IpAddr>>,
    host_network: BTreeMap<ServiceKey, BTreeSet<IpAddr>>,
    internal: BTreeMap<ServiceKey, BTreeSet<IpAddr>>,
}

impl AddressOwners {
    pub(super) fn of(topology: &Topology) -> Self {
        let mut owners = Self::default();
        for placed in topology
            .targets()
            .values()
            .filter(|placed| placed.dial_address.is_none())
        {
            if let (Some(name), Some((service, _))) = (name_of(&placed.target.probe), &placed.entry) {
                let services = owners.names.entry(normalize_name(&name)).or_default();
                services.insert(service.clone());
            }
        }
        for (front, info) in topology.fronts() {
            let side = match info.kind {
                FrontKind::LoadBalancer(_) => &mut owners.balancers,
                FrontKind::ClusterIp => &mut owners.internal,
                // `fronts()` never contains these kinds.
                FrontKind::NodePort | FrontKind::Host => continue,
            };
            side.entry(info.service.clone())
                .or_default()
                .insert(front.address.ip());
        }
        for service in topology.services().values() {
            let balanced = owners.balancers.contains_key(&service.key);
            for endpoint in &service.endpoints {
                let node = topology.node_at(&endpoint.address);
                // Without a balancer, clients reach a hostNetwork Pod at the address of its node.
                let side = if !balanced && node.is_some() && node == endpoint.node.as_ref() {
                    &mut owners.host_network
                } else {
                    &mut owners.internal
                };
                let addresses = side.entry(service.key.clone()).or_default();
                addresses.insert(endpoint.address);
            }
        }
        owners
    }

    /// Returns the Services of the targets that resolve the name; a Service's own DNS name stands for that Service.
    pub(super) fn services_of(&self, topology: &Topology, name: &str) -> NamedServices {
        let mut services = self.names.get(name).cloned().unwrap_or_default();
        services.extend(service_name(topology, name));
        let all = |side: &BTreeMap<ServiceKey, BTreeSet<IpAddr>>| {
            services
                .iter()
                .filter_map(|service| side.get(service))
                .flatten()
                .copied()
                .collect()
        };
        NamedServices {
            balancers: all(&self.balancers),
            host_network: all(&self.host_network),
            internal: all(&self.internal),
            services,
        }
    }
}

/// Parses `name.namespace.svc…` of an existing Service.
fn service_name(topology: &Topology, name: &str) -> Option<ServiceKey> {
    let mut labels = name.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    if labels.next() != Some("svc") {
        return None;
    }
    let key: ServiceKey = format!("{namespace}/{service}").parse().ok()?;
    topology.service(&key).is_some().then_some(key)
}

/// Current addresses of Services and nodes.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses {
    services: BTreeMap<IpAddr, ServiceKey>,
    nodes: BTreeSet<IpAddr>,
}

impl KnownAddresses {
    pub(super) fn of(topology: &Topology) -> Self {
        Self {
            services: address_owners(topology)
                .into_iter()
                .filter_map(|(address, mut owners)| Some((address, owners.pop()?)))
                .collect(),
            nodes: topology
                .nodes()
                .values()
                .flat_map(|node| node.addresses.iter().copied())
                .collect(),
        }
    }

    pub(super) fn is_of_service(&self, address: IpAddr) -> bool {
        self.services.contains_key(&address)
    }
}

/// All addresses of Services, each with the Services that have it; the last one takes precedence.
pub(super) fn address_owners(topology: &Topology) -> BTreeMap<IpAddr, Vec<ServiceKey>> {
    let endpoints = topology.services().values().flat_map(|service| {
        service
            .endpoints
            .iter()
            .map(|endpoint| (endpoint.address, service.key.clone()))
    });
    let fronts = topology
        .fronts()
        .iter()
        .map(|(front, info)| (front.address.ip(), info.service.clone()));
    // A front's address takes precedence over an endpoint's: hostNetwork Pods share the address of their node.
    let mut owners: BTreeMap<IpAddr, Vec<ServiceKey>> = BTreeMap::new();
    for (address, service) in endpoints.chain(fronts) {
        let services = owners.entry(address).or_default();
        if services.last() != Some(&service) {
            services.push(service);
        }
    }
    owners
}

pub(super) fn of(
    answers: &RoundAnswers,
    own: &NamedServices,
    known: &KnownAddresses,
    former: &BTreeMap<IpAddr, FormerAnswer>,
) -> AddressKind {
    answers
        .addresses
        .iter()
        .map(|address| classify_address(*address, own, known, former))
        .max()
        .unwrap_or(AddressKind::NoAddress)
}

fn classify_address(
    address: IpAddr,
    own: &NamedServices,
    known: &KnownAddresses,
    former: &BTreeMap<IpAddr, FormerAnswer>,
) -> AddressKind {
    if let Some(service) = own.any().filter(|_| own.balancers.contains(&address)) {
        return AddressKind::Front(service);
    }
    if let Some(service) = own.any().filter(|_| own.host_network.contains(&address)) {
        return AddressKind::HostNetwork(service);
    }
    if let Some(service) = own.any().filter(|_| own.internal.contains(&address)) {
        return AddressKind::Internal(service);
    }
    if let Some(former) = former.get(&address) {
        let service = former.service_among(&own.services);
        return AddressKind::Former(address, service.clone(), former.until);
    }
    match known.services.get(&address) {
        Some(service) => AddressKind::OtherService(service.clone()),
        None if known.nodes.contains(&address) => AddressKind::Node(address),
        None if is_private(address) => AddressKind::UnknownPrivate(address),
        None => AddressKind::Global,
    }
}
