//! What the fold asks of a topology, by number: looked up once a topology instead of once an observation.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{EventTime, Front, HostName, Observation, TargetId};

use super::{block::EvidenceKind, cells::Destination};
use crate::{
    ids::{NameIx, NameRegistry, PodIx, ServiceIx, TargetIx},
    topology::Topology,
};

/// What a target's probes go through.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Route {
    /// The name its probes ask for.
    pub(crate) name: Option<NameIx>,
    /// The same as names are compared; none where an address stands in its place.
    pub(crate) plain: Option<NameIx>,
    /// Where users' connections for it go, as far as the topology knows.
    pub(crate) front: Option<Front>,
    /// The Service that selects its endpoints, and their port.
    pub(crate) entry: Option<(ServiceIx, u16)>,
    /// Asked where no answer is due: no evidence of what users meet.
    pub(crate) apart: Option<ControlQuestion>,
}

/// Why a question is asked where no answer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlQuestion {
    /// A host of one ingress class at a front of another.
    Exposure,
    /// A target says itself that there must be none.
    Forbidden,
}

/// The routes of a topology.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    targets: Vec<Route>,
    /// Endpoints that new connections are sent to.
    pub(super) usable: BTreeMap<ServiceIx, BTreeSet<PodIx>>,
    pub(super) fronts: BTreeMap<Front, (ServiceIx, u16)>,
    /// Endpoints of Services without an address of their own, by their address.
    pub(super) headless: BTreeMap<ServiceIx, BTreeMap<IpAddr, PodIx>>,
    /// Addresses that a Service had until lately and no other one has now, each with its end.
    pub(super) former: BTreeMap<IpAddr, EventTime>,
    /// Until when a cache may say of a name that there is nothing, though there is.
    negative_until: BTreeMap<NameIx, EventTime>,
}

/// Of a target that the topology does not hold.
const NO_ROUTE: &Route = &Route {
    name: None,
    plain: None,
    front: None,
    entry: None,
    apart: None,
};

impl Routes {
    /// Numbers the names of a topology in their own order.
    pub(crate) fn new(topology: &Topology, world: &mut NameRegistry) -> Self {
        let mut routes = Self::default();
        for (key, service) in topology.services() {
            let usable = service.usable();
            let pods = usable.iter().map(|endpoint| world.pods.intern(&endpoint.pod));
            let pods = pods.collect();
            let number = world.services.intern(key);
            routes.usable.insert(number, pods);
            if service.is_headless() {
                let at = |endpoint: &&crate::topology::Endpoint| {
                    (endpoint.address, world.pods.intern(&endpoint.pod))
                };
                let all = usable.iter().map(at).collect();
                routes.headless.insert(number, all);
            }
        }
        let hosts = topology.host_fronts();
        let hosts = hosts.map(|(address, info)| (Front::tcp(*address), info));
        let listed = topology.fronts().iter().map(|(front, info)| (*front, info));
        // What is listed comes last: a balancer's address at a node is the balancer's.
        for (front, info) in hosts.chain(listed) {
            let service = world.services.intern(&info.service);
            routes.fronts.insert(front, (service, info.target_port));
        }
        for (id, placed) in topology.targets() {
            let name = placed.target.probe.host().map(HostName::as_str);
            let entry = placed.entry.as_ref();
            let route = Route {
                name: name.map(|name| world.names.intern(name)),
                plain: name
                    .filter(|name| name.parse::<IpAddr>().is_err())
                    .map(|name| world.names.intern(&plain(name))),
                front: default_front(topology, id),
                entry: entry.map(|(service, port)| (world.services.intern(service), *port)),
                apart: None,
            };
            routes.put(world.targets.intern(id), route);
        }
        let exposures = topology
            .exposures()
            .keys()
            .map(|id| (id, ControlQuestion::Exposure));
        let forbidden = topology
            .forbidden()
            .keys()
            .map(|id| (id, ControlQuestion::Forbidden));
        for (id, apart) in exposures.chain(forbidden) {
            let route = Route {
                apart: Some(apart),
                ..Route::default()
            };
            routes.put(world.targets.intern(id), route);
        }
        routes
    }

    fn put(&mut self, target: TargetIx, route: Route) {
        let at = usize::from(target);
        if self.targets.len() <= at {
            self.targets.resize(at + 1, Route::default());
        }
        self.targets[at] = route;
    }

    /// The route of a target.
    pub(crate) fn of(&self, target: TargetIx) -> &Route {
        self.targets.get(usize::from(target)).unwrap_or(NO_ROUTE)
    }

    /// Whether any target's probes ask for a name.
    pub(crate) fn asks(&self, name: NameIx) -> bool {
        let mut routes = self.targets.iter();
        routes.any(|route| route.name == Some(name) || route.plain == Some(name))
    }

    /// Every name that a target resolves, as names are compared.
    pub(crate) fn names(&self) -> BTreeSet<NameIx> {
        self.targets.iter().filter_map(|route| route.plain).collect()
    }

    /// Takes over until when the absence of names may be cached.
    pub(crate) fn excuse(&mut self, negative_until: BTreeMap<NameIx, EventTime>) {
        self.negative_until = negative_until;
    }

    /// Whether an answer without addresses, of a probe that started then, may be one of before the name had any.
    pub(crate) fn may_be_cached(&self, name: Destination, at: EventTime) -> bool {
        let Destination::Name(name) = name else {
            return false;
        };
        self.negative_until.get(&name).is_some_and(|until| at <= *until)
    }

    /// Until when a cache may say of a target's name that it has no address, though it has.
    pub(crate) fn absence_until(&self, target: TargetIx) -> Option<EventTime> {
        let name = self.of(target).name?;
        self.negative_until.get(&name).copied()
    }

    /// Until when a cache may say of names that they have no address, by the names as they are compared.
    pub(crate) fn cached_absences(&self) -> BTreeMap<NameIx, EventTime> {
        if self.negative_until.is_empty() {
            return BTreeMap::new();
        }
        let routes = self.targets.iter();
        routes
            .filter_map(|route| Some((route.plain?, *self.negative_until.get(&route.name?)?)))
            .collect()
    }

    /// Whether a target enters through a headless Service without an endpoint: then its name leads nowhere, as it should.
    pub(crate) fn leads_nowhere(&self, target: TargetIx) -> bool {
        let entry = self.of(target).entry;
        entry.is_some_and(|(service, _)| self.headless.get(&service).is_some_and(BTreeMap::is_empty))
    }

    /// Takes over which addresses are former ones, and since when.
    pub(crate) fn forget(&mut self, former: BTreeMap<IpAddr, EventTime>) {
        self.former = former;
    }

    /// When an address ceased to be one of a Service, if no Service has it now.
    pub(crate) fn ended(&self, address: IpAddr) -> Option<EventTime> {
        self.former.get(&address).copied()
    }

    /// The endpoints behind a front.
    pub(crate) fn behind(&self, front: &Front) -> Option<EvidenceKind> {
        let (service, port) = self.fronts.get(front)?;
        Some(EvidenceKind::Direct(*service, *port))
    }
}

/// As names are compared: without the root's dot, in lower case.
pub(crate) fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// The front a probe went to or would have gone to: what it says, else what the topology says of its target.
pub(crate) fn front_of(topology: &Topology, observation: &Observation) -> Option<Front> {
    observation
        .front
        .or_else(|| default_front(topology, &observation.target))
}

/// Where a user's connection for a target goes, as far as the topology knows.
pub(crate) fn default_front(topology: &Topology, target: &TargetId) -> Option<Front> {
    let placed = topology.targets().get(target)?;
    if let Some(address) = placed.dial {
        return Some(Front::tcp(address));
    }
    topology.usual_front(placed.entry.as_ref()?)
}
