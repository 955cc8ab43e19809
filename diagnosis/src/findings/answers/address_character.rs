//! What the addresses of an answer are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use parallax_model::{EventTime, ServiceKey};

use super::{FormerAnswer, name_of, plain, resolver_answers::RoundAnswers};
use crate::topology::{FrontKind, Topology, is_private};

/// What an answer amounts to; the worst of its addresses decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressKind {
    /// The name is said to lead nowhere.
    Nothing,
    /// Balancer addresses of the Services the name stands for.
    Front(ServiceKey),
    /// Addresses of nodes where pods of these listen themselves.
    Machine(ServiceKey),
    /// Cluster or endpoint addresses of these.
    Inside(ServiceKey),
    /// An address of a node itself.
    Node(IpAddr),
    /// Addresses the internet could reach, of nobody here.
    Global,
    /// A private address of nobody here.
    Strange(IpAddr),
    /// Addresses of a Service the name does not stand for.
    Other(ServiceKey),
    /// An address that a Service had until then.
    Gone(IpAddr, ServiceKey, EventTime),
}

impl AddressKind {
    /// The sort of addresses inside the cluster.
    pub(super) const INSIDE: u8 = 2;

    /// What counts as a change of nature: not which address of a sort it is.
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
            Self::Nothing => f.write_str("the name leads nowhere"),
            Self::Front(service) => write!(f, "the balancer of Service {service}"),
            Self::Machine(service) => write!(f, "a node where a pod of Service {service} listens"),
            Self::Inside(service) => write!(f, "Service {service} inside the cluster"),
            Self::Node(address) => write!(f, "{address} is a node's own"),
            Self::Global => f.write_str("no address of this cluster"),
            Self::Strange(address) => {
                write!(
                    f,
                    "{address} belongs to no Service, endpoint or node of this cluster"
                )
            }
            Self::Other(service) => write!(f, "an address of Service {service}"),
            Self::Gone(address, service, _) => {
                write!(f, "{address} was Service {service}'s, which has it no more")
            }
        }
    }
}

/// The Services a name stands for, as the topology says.
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

    /// Every address of these.
    pub(super) fn all(&self) -> impl Iterator<Item = &IpAddr> {
        self.balancers.iter().chain(&self.machines).chain(&self.inside)
    }

    fn any(&self) -> Option<ServiceKey> {
        self.services.first().cloned()
    }
}

/// Which Services each name stands for, and what addresses these have: worked out once for all names.
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
                // Never listed.
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
                // Without a balancer a pod in its node's own network is met where the node is.
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

    /// By the targets that resolve the name; a Service's own name stands for that Service.
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

/// `name.namespace.svc…` of a Service that is there.
fn service_name(topology: &Topology, name: &str) -> Option<ServiceKey> {
    let mut labels = name.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    if labels.next() != Some("svc") {
        return None;
    }
    let key: ServiceKey = format!("{namespace}/{service}").parse().ok()?;
    topology.service(&key).is_some().then_some(key)
}

/// What is where today.
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

/// Every address of a Service, and whose it is.
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
    // A front's address outweighs an endpoint's: hostNetwork pods share their node's.
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
