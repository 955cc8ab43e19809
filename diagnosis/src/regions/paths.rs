//! What is known of the paths of one subject: who can be sent where.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_model::{Channel, Front, ServiceKey, Vantage};

use crate::{
    evidence::cells::{Destination, RoundCells},
    ids::{IndexedTable, NameIx, NameRegistry, NodeIx, PodIx, VantageIx, ZoneIx},
    topology::{FrontKind, IpMode, ProxyMode, Service, Topology, TrafficPolicy},
};

/// The mesh itself: the same for every subject, and shared by all.
#[derive(Debug, Clone, Default)]
pub(crate) struct MeshNodes {
    /// Nodes that a probe can start from or arrive at.
    pub(crate) all: BTreeSet<NodeIx>,
    /// Vantages that probe, with their node; none outside the cluster.
    pub(crate) clients: IndexedTable<VantageIx, Option<NodeIx>>,
    /// Nodes that hold a vantage.
    pub(crate) of_clients: BTreeSet<NodeIx>,
    /// Zones of nodes, where known.
    pub(crate) zones: IndexedTable<NodeIx, ZoneIx>,
    /// All of these.
    pub(crate) zone_set: BTreeSet<ZoneIx>,
    /// Pods that are probers: a client may be its own endpoint.
    pub(crate) prober_pods: IndexedTable<PodIx, NodeIx>,
    /// Node of every endpoint that a cell may name, former ones included.
    pub(crate) pods: IndexedTable<PodIx, NodeIx>,
    /// How Services are implemented.
    pub(crate) proxy_mode: ProxyMode,
}

/// The paths of one subject.
#[derive(Debug, Clone, Default)]
pub(crate) struct SubjectPaths {
    pub(crate) nodes: Arc<MeshNodes>,
    /// Usable endpoints of the subject.
    pub(crate) backends: Vec<PodIx>,
    /// Nodes that hold a usable endpoint; empty where endpoints are unknown.
    pub(crate) local: BTreeSet<NodeIx>,
    /// Endpoints a client can be sent to through the front, uniformly; all backends where absent.
    pub(crate) eligible: BTreeMap<VantageIx, Vec<PodIx>>,
    /// Names asked at the resolvers.
    pub(crate) names: BTreeSet<NameIx>,
    /// Nodes that the balancer in front may hand a connection to; empty where none is, or where connections from inside
    /// never leave the node.
    pub(crate) pool: Vec<NodeIx>,
    /// Connections from inside to the balancer's address really go there, as far as known.
    pub(crate) leaves_the_node: bool,
    /// The node that a balancer chooses serves with its own endpoints only.
    pub(crate) pool_is_local: bool,
    /// The front has policy Local, clients without an endpoint mostly fail, and nobody with an endpoint was answered by
    /// another node's: whoever has one uses it.
    pub(crate) strict: bool,
}

impl MeshNodes {
    /// Nodes, clients and zones of a topology, and where endpoints are or were.
    pub(crate) fn new(topology: &Topology, world: &mut NameRegistry, vantages: &BTreeSet<Vantage>) -> Self {
        let mut nodes = Self {
            proxy_mode: topology.proxy_mode(),
            ..Self::default()
        };
        for (name, node) in topology.nodes() {
            let ix = world.nodes.intern(name);
            nodes.all.insert(ix);
            if let Some(zone) = &node.zone {
                let zone = world.zones.intern(zone);
                nodes.zones.insert(ix, zone);
                nodes.zone_set.insert(zone);
            }
            if let Some(prober) = &node.prober {
                nodes.prober_pods.insert(world.pods.intern(&prober.pod), ix);
            }
        }
        for vantage in vantages {
            let node = vantage.node().map(|name| world.nodes.intern(name));
            nodes.add_client(world.vantages.intern(vantage), node);
        }
        let listed = topology.fronts().values();
        let hosts = topology.host_fronts().map(|(_, info)| info);
        let fronted = listed.chain(hosts).map(|info| &info.service);
        let entries = topology.targets().values();
        let entries = entries.filter_map(|placed| Some(&placed.entry.as_ref()?.0));
        let services: BTreeSet<&ServiceKey> = fronted.chain(entries).collect();
        for service in services.into_iter().filter_map(|key| topology.service(key)) {
            for endpoint in &service.endpoints {
                let pod = world.pods.intern(&endpoint.pod);
                if let Some(node) = &endpoint.node {
                    let node = world.nodes.intern(node);
                    world.pod_nodes.insert(pod, node);
                }
            }
        }
        nodes.pods.clone_from(&world.pod_nodes);
        nodes
    }

    /// A vantage that probes.
    pub(crate) fn add_client(&mut self, client: VantageIx, node: Option<NodeIx>) {
        self.clients.insert(client, node);
        self.of_clients.extend(node);
    }

    /// The node a vantage sits on; none outside the cluster.
    pub(crate) fn of_client(&self, client: VantageIx) -> Option<NodeIx> {
        self.clients.get(&client).copied().flatten()
    }

    /// The node that a probe arrives at, where its path is known.
    pub(crate) fn of_dest(&self, dest: Destination) -> Option<NodeIx> {
        match dest {
            Destination::Entry(pod) => self.pods.get(&pod).copied(),
            Destination::Peer(node) => Some(node),
            Destination::Unknown | Destination::Name(_) => None,
        }
    }
}

impl SubjectPaths {
    /// The node a vantage sits on; none outside the cluster.
    pub(crate) fn node_of_client(&self, client: VantageIx) -> Option<NodeIx> {
        self.nodes.of_client(client)
    }

    /// The endpoints a client can be sent to.
    pub(crate) fn eligible(&self, client: VantageIx) -> &[PodIx] {
        self.eligible.get(&client).map_or(&self.backends, Vec::as_slice)
    }

    /// Nodes that hold a vantage.
    pub(crate) fn client_nodes(&self) -> &BTreeSet<NodeIx> {
        &self.nodes.of_clients
    }

    /// All zones that hold a node of the scene.
    pub(crate) fn zone_set(&self) -> &BTreeSet<ZoneIx> {
        &self.nodes.zone_set
    }

    /// The paths to the endpoints of a Service, whichever a client chooses by name.
    pub(crate) fn with_endpoints(mut self, world: &NameRegistry, service: &Service) -> Self {
        let usable = service.usable();
        self.backends = usable.iter().filter_map(|e| world.pods.get(&e.pod)).collect();
        self.local = usable
            .iter()
            .filter_map(|e| world.nodes.get(e.node.as_ref()?))
            .collect();
        self
    }

    /// The paths through a Service, seen through a front. Choices are worked out for the clients given only.
    pub(crate) fn with_service(
        mut self,
        topology: &Topology,
        world: &NameRegistry,
        front: &Front,
        service: &Service,
        clients: &BTreeSet<VantageIx>,
    ) -> Self {
        let entries = topology.entries(front);
        self.backends = entries.iter().filter_map(|e| world.pods.get(&e.pod)).collect();
        self.local = topology
            .holders(front)
            .into_iter()
            .filter_map(|n| world.nodes.get(n))
            .collect();
        let external = service.external_traffic_policy == TrafficPolicy::Local;
        let kind = topology.front(front).map(|info| info.kind);
        self.strict = topology.is_strict(front);
        if let Some(FrontKind::LoadBalancer(ip_mode)) = kind {
            // Under policy Local a balancer leaves out nodes without an endpoint, unless all of its checks fail: then it
            // sends to every node.
            self.pool = self.nodes.all.iter().copied().collect();
            self.pool_is_local = external;
            self.leaves_the_node = ip_mode == IpMode::Proxy || self.nodes.proxy_mode == ProxyMode::Unknown;
        }
        for vantage in clients {
            let Some(node) = world.vantages.name(*vantage).node() else {
                continue;
            };
            let pods: Vec<PodIx> = topology
                .eligible(front, node)
                .iter()
                .filter_map(|e| world.pods.get(&e.pod))
                .collect();
            if pods != self.backends {
                self.eligible.insert(*vantage, pods);
            }
        }
        self
    }

    /// Lets the cells correct the rules: an endpoint that answered a client is one it can be sent to. With affinity it is
    /// the only one.
    pub(crate) fn learn_from(&mut self, cells: &RoundCells, affinity: bool) {
        let mut crossed = false;
        let (mut lacking, mut failing) = (0, 0);
        for (key, counts) in cells.iter().filter(|(key, _)| key.channel == Channel::Vip) {
            let node = self.node_of_client(key.client);
            if node.is_some_and(|node| !self.local.contains(&node)) {
                lacking += counts.n;
                failing += counts.f;
            }
        }
        let mut answered: BTreeMap<VantageIx, BTreeSet<PodIx>> = BTreeMap::new();
        for key in cells.keys() {
            match (key.channel, key.dest) {
                (Channel::Vip, Destination::Entry(pod)) if self.backends.contains(&pod) => {
                    answered.entry(key.client).or_default().insert(pod);
                    let node = self.node_of_client(key.client);
                    crossed |= node.is_some_and(|node| {
                        self.local.contains(&node) && self.nodes.pods.get(&pod) != Some(&node)
                    });
                }
                (_, Destination::Name(name)) => {
                    self.names.insert(name);
                }
                _ => {}
            }
        }
        self.strict &= !crossed && failing * 2 > lacking;
        for (client, pods) in answered {
            let known: BTreeSet<PodIx> = self.eligible(client).iter().copied().collect();
            let pods = if affinity {
                pods
            } else if pods.is_subset(&known) {
                continue;
            } else {
                // The rules said less than what happened: this client is not held to its own node after all.
                self.backends.iter().copied().collect()
            };
            self.eligible.insert(client, pods.into_iter().collect());
        }
    }
}
