//! Routes: the parts of a topology that the fold needs, by id, looked up once per topology instead of once per
//! observation.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use parallax_model::{EventTime, Front, HostName, Observation, ProbeSpec, TargetId};

use super::block::EvidenceKind;
use crate::{
    ids::{NameIx, NameRegistry, NodeIx, PodIx, ServiceIx, TargetIx},
    topology::{Endpoint, EndpointCondition, Topology},
};

/// The path of a target's probes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Route {
    /// The name that its probes resolve.
    pub(crate) name: Option<NameIx>,
    /// The same name, normalized for comparison; `None` for an IP address.
    pub(crate) normalized_name: Option<NameIx>,
    /// The front of users' connections, as far as the topology knows.
    pub(crate) front: Option<Front>,
    /// The Service that selects its endpoints, and their port.
    pub(crate) entry: Option<(ServiceIx, u16)>,
    /// The Service to which the entry forwards the requests, if known.
    pub(crate) origin: Option<ServiceIx>,
    /// Set if the probe must stay unanswered; such probes are no evidence of what users meet.
    pub(crate) must_not_answer: Option<NegativeProbe>,
    /// Whether the probe succeeds by getting no answer.
    pub(crate) requires_silence: bool,
    /// Whether the target's owner chose the resolver for a probe that also connects, so that its answers are no deviation
    /// from those of the machine's resolvers.
    pub(crate) chosen_resolver: bool,
    /// Whether a probe of the name alone looks it up as a client does, along the search list.
    pub(crate) searches: bool,
}

/// Why a probe that must stay unanswered is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NegativeProbe {
    /// A host of one ingress class at a front of another.
    Exposure,
    /// The target declares that it must not answer.
    Forbidden,
}

/// The routes of a topology.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes {
    targets: Vec<Route>,
    /// Endpoints that receive new connections.
    pub(super) usable: BTreeMap<ServiceIx, BTreeSet<PodIx>>,
    pub(super) fronts: BTreeMap<Front, (ServiceIx, u16)>,
    /// The prober on each node.
    probers: BTreeMap<NodeIx, PodIx>,
    /// Endpoints of headless Services, by address.
    pub(super) headless: BTreeMap<ServiceIx, BTreeMap<IpAddr, PodIx>>,
    /// Headless Services without a ready endpoint. A draining one keeps its connections, but resolvers leave it out.
    unready_headless: BTreeSet<ServiceIx>,
    /// Recent addresses of Services that no Service has now, with the end of that time.
    pub(super) former: BTreeMap<IpAddr, EventTime>,
    /// Until when a cache may return a negative answer for an existing name.
    negative_until: BTreeMap<NameIx, EventTime>,
}

/// Route of a target that is not in the topology.
const NO_ROUTE: &Route = &Route {
    name: None,
    normalized_name: None,
    front: None,
    entry: None,
    origin: None,
    must_not_answer: None,
    requires_silence: false,
    chosen_resolver: false,
    searches: false,
};

impl Routes {
    /// Interns the names of a topology in their own order.
    pub(crate) fn new(topology: &Topology, world: &mut NameRegistry) -> Self {
        let mut routes = Self::default();
        for (name, node) in topology.nodes() {
            if let Some(prober) = &node.prober {
                let (node, pod) = (world.nodes.intern(name), world.pods.intern(&prober.pod));
                routes.probers.insert(node, pod);
            }
        }
        for (key, service) in topology.services() {
            let usable = service.usable();
            let pods = usable.iter().map(|endpoint| world.pods.intern(&endpoint.pod));
            let pods = pods.collect();
            let number = world.services.intern(key);
            routes.usable.insert(number, pods);
            if service.is_headless() {
                let at = |endpoint: &&Endpoint| (endpoint.address, world.pods.intern(&endpoint.pod));
                let all = usable.iter().map(at).collect();
                routes.headless.insert(number, all);
                let is_ready = |endpoint: &Endpoint| endpoint.condition == EndpointCondition::Ready;
                if !service.endpoints.iter().any(is_ready) {
                    routes.unready_headless.insert(number);
                }
            }
        }
        let hosts = topology.host_fronts();
        let hosts = hosts.map(|(address, info)| (Front::tcp(*address), info));
        let listed = topology.fronts().iter().map(|(front, info)| (*front, info));
        // Published fronts come last: a balancer's address at a node belongs to the balancer.
        for (front, info) in hosts.chain(listed) {
            let service = world.services.intern(&info.service);
            routes.fronts.insert(front, (service, info.target_port));
        }
        for (id, placed) in topology.targets() {
            let name = placed.target.probe.resolved_host().map(HostName::as_str);
            let entry = placed.entry.as_ref();
            let route = Route {
                name: name.map(|name| world.names.intern(name)),
                normalized_name: name
                    .filter(|name| name.parse::<IpAddr>().is_err())
                    .map(|name| world.names.intern(&normalize_name(name))),
                front: default_front(topology, id),
                entry: entry.map(|(service, port)| (world.services.intern(service), *port)),
                origin: placed
                    .origin
                    .as_ref()
                    .map(|service| world.services.intern(service)),
                must_not_answer: None,
                requires_silence: placed.target.probe.requires_silence(),
                chosen_resolver: placed.target.probe.resolver().is_some()
                    && placed.target.probe.port().is_some(),
                searches: matches!(&placed.target.probe, ProbeSpec::Dns(dns) if dns.search.is_some()),
            };
            routes.set(world.targets.intern(id), route);
        }
        let exposures = topology
            .exposures()
            .keys()
            .map(|id| (id, NegativeProbe::Exposure));
        let forbidden = topology
            .forbidden()
            .keys()
            .map(|id| (id, NegativeProbe::Forbidden));
        for (id, apart) in exposures.chain(forbidden) {
            let route = Route {
                must_not_answer: Some(apart),
                requires_silence: true,
                ..Route::default()
            };
            routes.set(world.targets.intern(id), route);
        }
        routes
    }

    fn set(&mut self, target: TargetIx, route: Route) {
        let at = usize::from(target);
        if self.targets.len() <= at {
            self.targets.resize(at + 1, Route::default());
        }
        self.targets[at] = route;
    }

    /// Reports whether the prober on a node is another Pod now.
    pub(super) fn is_former_prober(&self, node: NodeIx, pod: PodIx) -> bool {
        self.probers.get(&node).is_some_and(|prober| *prober != pod)
    }

    /// Returns the route of a target.
    pub(crate) fn of(&self, target: TargetIx) -> &Route {
        self.targets.get(usize::from(target)).unwrap_or(NO_ROUTE)
    }

    /// Reports whether any target's probes resolve a name.
    pub(crate) fn resolves(&self, name: NameIx) -> bool {
        let mut routes = self.targets.iter();
        routes.any(|route| route.name == Some(name) || route.normalized_name == Some(name))
    }

    /// All names that targets resolve, normalized.
    pub(crate) fn names(&self) -> BTreeSet<NameIx> {
        self.targets
            .iter()
            .filter_map(|route| route.normalized_name)
            .collect()
    }

    /// Sets until when negative answers for names may be cached.
    pub(crate) fn set_negative_until(&mut self, negative_until: BTreeMap<NameIx, EventTime>) {
        self.negative_until = negative_until;
    }

    /// Reports whether a negative answer to a probe started at `at` may come from a cache.
    pub(crate) fn may_be_cached(&self, name: NameIx, at: EventTime) -> bool {
        self.negative_until.get(&name).is_some_and(|until| at <= *until)
    }

    /// Time until which a cache may return a negative answer for a target's name, although the name has an address.
    pub(crate) fn negative_cache_until(&self, target: TargetIx) -> Option<EventTime> {
        let name = self.of(target).name?;
        self.negative_until.get(&name).copied()
    }

    /// Times until which caches may return negative answers, by normalized name.
    pub(crate) fn negative_cache_times(&self) -> BTreeMap<NameIx, EventTime> {
        if self.negative_until.is_empty() {
            return BTreeMap::new();
        }
        let routes = self.targets.iter();
        routes
            .filter_map(|route| Some((route.normalized_name?, *self.negative_until.get(&route.name?)?)))
            .collect()
    }

    /// Returns the Service that selects the endpoints of a target, and their port, if known.
    pub(crate) fn entry(&self, target: TargetIx) -> Option<(ServiceIx, u16)> {
        self.of(target).entry
    }

    /// Returns the Service to which the entry of a target forwards its requests, if known.
    pub(crate) fn origin(&self, target: TargetIx) -> Option<ServiceIx> {
        self.of(target).origin
    }

    /// Reports whether a target enters through a headless Service without ready endpoints; its name then rightly does not
    /// resolve.
    pub(crate) fn has_no_endpoints(&self, target: TargetIx) -> bool {
        let entry = self.of(target).entry;
        entry.is_some_and(|(service, _)| self.unready_headless.contains(&service))
    }

    /// Sets the former addresses and when each ended.
    pub(crate) fn set_former(&mut self, former: BTreeMap<IpAddr, EventTime>) {
        self.former = former;
    }

    /// Returns when an address ceased to belong to a Service, if no Service has it now.
    pub(crate) fn ended_at(&self, address: IpAddr) -> Option<EventTime> {
        self.former.get(&address).copied()
    }

    /// Reports whether a target enters through a headless Service that does not have this address.
    pub(crate) fn is_unknown_endpoint(&self, target: TargetIx, address: IpAddr) -> bool {
        let endpoints = self
            .of(target)
            .entry
            .and_then(|(service, _)| self.headless.get(&service));
        endpoints.is_some_and(|endpoints| !endpoints.contains_key(&address))
    }

    /// Returns the endpoints behind a front.
    pub(crate) fn endpoints_behind(&self, front: &Front) -> Option<EvidenceKind> {
        let (service, port) = self.fronts.get(front)?;
        Some(EvidenceKind::Direct(*service, *port))
    }
}

/// Normalizes a name for comparison: lower case, without the root dot.
pub(crate) fn normalize_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns the front of a probe: as reported, or else as the topology gives it for the target.
pub(crate) fn front_of(topology: &Topology, observation: &Observation) -> Option<Front> {
    observation
        .front
        .or_else(|| default_front(topology, &observation.target))
}

/// Returns the front of a user's connection to a target, as far as the topology knows.
pub(crate) fn default_front(topology: &Topology, target: &TargetId) -> Option<Front> {
    let placed = topology.targets().get(target)?;
    if let Some(address) = placed.dial_address {
        return Some(Front::tcp(address));
    }
    topology.usual_front(placed.entry.as_ref()?)
}
