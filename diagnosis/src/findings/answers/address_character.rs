//! Classifies the addresses of a DNS answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use parallax_model::{EventTime, ServiceKey};

use super::{FormerAnswer, name_of, plain, resolver_answers::RoundAnswers};
use crate::topology::{FrontKind, Topology, is_private};

/// The kind of an answer, decided by its worst address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressKind {
    /// The name does not exist or has no address.
    Nothing,
    /// Load balancer addresses of the Services that the name stands for.
    Front(ServiceKey),
    /// Addresses of nodes where Pods of these Services listen in the host network.
    Machine(ServiceKey),
    /// ClusterIPs or endpoint addresses of these Services.
    Inside(ServiceKey),
    /// An address of a node.
    Node(IpAddr),
    /// Public addresses outside the cluster.
    Global,
    /// A private address that no object of the cluster has.
    Strange(IpAddr),
    /// Addresses of a Service that the name does not stand for.
    Other(ServiceKey),
    /// A former address of a Service, with the time it was lost.
    Gone(IpAddr, ServiceKey, EventTime),
}

impl AddressKind {
    /// The group of addresses inside the cluster.
    pub(super) const INSIDE: u8 = 2;

    /// The group that is compared between rounds: a change within a group is not a change of kind.
    pub(super) const fn sort(&self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Front(_) | Self::Machine(_) => 1,
            Self::Inside(_) => Self::INSIDE,
            Self::Global => 3,
            Self::Strange(_) => 4,
            Self::Other(_) => 5,
            Self::Gone(..) => 6,
            Self::Node(_) => 7,
        }
    }

    pub(super) const fn is_own(&self) -> bool {
        matches!(self, Self::Front(_) | Self::Machine(_) | Self::Inside(_))
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no address"),
            Self::Front(service) => write!(f, "the load balancer of Service {service}"),
            Self::Machine(service) => write!(f, "a node on which a Pod of Service {service} listens"),
            Self::Inside(service) => write!(f, "Service {service} inside the cluster"),
            Self::Node(address) => write!(f, "{address} is a node's address"),
            Self::Global => f.write_str("an address outside this cluster"),
            Self::Strange(address) => {
                write!(
                    f,
                    "{address} belongs to no Service, endpoint or node of this cluster"
                )
            }
            Self::Other(service) => write!(f, "an address of Service {service}"),
            Self::Gone(address, service, _) => {
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
    pub(super) machines: BTreeSet<IpAddr>,
    pub(super) inside: BTreeSet<IpAddr>,
}

impl NamedServices {
    pub(super) fn is_known(&self) -> bool {
        self.all().next().is_some()
    }

    /// All addresses of these Services.
    pub(super) fn all(&self) -> impl Iterator<Item = &IpAddr> {
        self.balancers.iter().chain(&self.machines).chain(&self.inside)
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
    machines: BTreeMap<ServiceKey, BTreeSet<IpAddr>>,
    inside: BTreeMap<ServiceKey, BTreeSet<IpAddr>>,
}

impl AddressOwners {
    pub(super) fn of(topology: &Topology) -> Self {
        let mut owners = Self::default();
        for placed in topology.targets().values().filter(|placed| placed.dial.is_none()) {
            if let (Some(name), Some((service, _))) = (name_of(&placed.target.probe), &placed.entry) {
                let services = owners.names.entry(plain(&name)).or_default();
                services.insert(service.clone());
            }
        }
        for (front, info) in topology.fronts() {
            let side = match info.kind {
                FrontKind::LoadBalancer(_) => &mut owners.balancers,
                FrontKind::ClusterIp => &mut owners.inside,
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
                    &mut owners.machines
                } else {
                    &mut owners.inside
                };
                let addresses = side.entry(service.key.clone()).or_default();
                addresses.insert(endpoint.address);
            }
        }
        owners
    }

    /// Returns the Services of the targets that resolve the name; a Service's own DNS name stands for that Service.
    pub(super) fn own(&self, topology: &Topology, name: &str) -> NamedServices {
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
            machines: all(&self.machines),
            inside: all(&self.inside),
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
            services: addresses(topology),
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

/// All addresses of Services, each with its Service.
pub(super) fn addresses(topology: &Topology) -> BTreeMap<IpAddr, ServiceKey> {
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
    endpoints.chain(fronts).collect()
}

pub(super) fn of(
    said: &RoundAnswers,
    own: &NamedServices,
    known: &KnownAddresses,
    former: &BTreeMap<IpAddr, FormerAnswer>,
) -> AddressKind {
    said.addresses
        .iter()
        .map(|address| one(*address, own, known, former))
        .max()
        .unwrap_or(AddressKind::Nothing)
}

fn one(
    address: IpAddr,
    own: &NamedServices,
    known: &KnownAddresses,
    former: &BTreeMap<IpAddr, FormerAnswer>,
) -> AddressKind {
    if let Some(service) = own.any().filter(|_| own.balancers.contains(&address)) {
        return AddressKind::Front(service);
    }
    if let Some(service) = own.any().filter(|_| own.machines.contains(&address)) {
        return AddressKind::Machine(service);
    }
    if let Some(service) = own.any().filter(|_| own.inside.contains(&address)) {
        return AddressKind::Inside(service);
    }
    if let Some(former) = former.get(&address) {
        return AddressKind::Gone(address, former.service.clone(), former.until);
    }
    match known.services.get(&address) {
        Some(service) => AddressKind::Other(service.clone()),
        None if known.nodes.contains(&address) => AddressKind::Node(address),
        None if is_private(address) => AddressKind::Strange(address),
        None => AddressKind::Global,
    }
}
