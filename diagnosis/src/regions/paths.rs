//! The possible paths of one subject: which client can reach which endpoint.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_model::{Channel, Front, ServiceKey, Vantage};

use super::{
    Region, balancer_pool::BalancerPool, front_origins::FrontOrigins, local_reach::nodes_with_local_reach,
};
use crate::{
    evidence::cells::{Destination, RoundCells},
    ids::{IndexedTable, NameIx, NameRegistry, NodeIx, PodIx, VantageIx, ZoneIx},
    topology::{FrontKind, IpMode, ProxyMode, Service, Topology, TrafficPolicy},
};

/// The nodes, vantages and endpoints of the mesh, shared by all subjects.
#[derive(Debug, Clone, Default)]
pub(crate) struct MeshNodes {
    /// Nodes at which a probe can start or end.
    pub(crate) node_set: BTreeSet<NodeIx>,
    /// Probing vantages with their node; `None` outside the cluster.
    pub(crate) clients: IndexedTable<VantageIx, Option<NodeIx>>,
    /// Nodes that have a vantage.
    pub(crate) client_nodes: BTreeSet<NodeIx>,
    /// Zones of nodes, if known.
    pub(crate) zones: IndexedTable<NodeIx, ZoneIx>,
    /// All zones.
    pub(crate) zone_set: BTreeSet<ZoneIx>,
    /// Prober Pods, with their node: a client may be its own endpoint.
    pub(crate) prober_pods: IndexedTable<PodIx, NodeIx>,
    /// Node of every endpoint that a cell may refer to, including former endpoints.
    pub(crate) pod_nodes: IndexedTable<PodIx, NodeIx>,
    /// The kube-proxy mode.
    pub(crate) proxy_mode: ProxyMode,
}

/// How many questions must be answered for a lookup to succeed. It depends on the C library, the name and the search list of the
/// prober's Pod, and decides how many lookups fail if one of several resolver Pods does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum QuestionsPerLookup {
    /// The question for one address family.
    #[default]
    One,
    /// Those for both families.
    BothFamilies,
    /// Those for both families and each name of the search list, as for a name outside of the cluster.
    SearchList,
}

impl QuestionsPerLookup {
    pub(crate) const ALL: [Self; 3] = [Self::One, Self::BothFamilies, Self::SearchList];

    /// Returns the number of questions. The search list of a Pod has three domains (`dns.GetPodDNS` in the kubelet), and the
    /// name itself comes last, because the kubelet sets `ndots:5`.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Self::One => 1,
            Self::BothFamilies => 2,
            Self::SearchList => 8,
        }
    }
}

/// Whether the balancer of a front sends connections to nodes whose own connections fail. Health checks take such nodes out of
/// its pool, unless they test less than what fails, and only after some seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum UnhealthyNodes {
    #[default]
    InPool,
    OutOfPool,
}

/// The paths of one subject.
#[derive(Debug, Clone, Default)]
pub(crate) struct SubjectPaths {
    pub(crate) mesh: Arc<MeshNodes>,
    /// Usable endpoints of the subject.
    pub(crate) backends: Vec<PodIx>,
    /// Nodes that have a usable endpoint; empty if endpoints are unknown.
    pub(crate) local_nodes: BTreeSet<NodeIx>,
    /// Endpoints that the front selects for a client, uniformly; all backends for clients without an entry.
    pub(crate) eligible: BTreeMap<VantageIx, Vec<PodIx>>,
    /// Pods that answer the questions of the clients, if the resolver is a Service.
    pub(crate) resolver_pods: Vec<PodIx>,
    /// Questions of which a lookup needs every answer. Each may reach another resolver Pod.
    pub(crate) questions: QuestionsPerLookup,
    /// Client nodes from which connections to other nodes fail and those within the node succeed.
    pub(crate) local_reach: BTreeSet<NodeIx>,
    /// Pods to which the entry forwards the requests of a host, if known.
    pub(crate) origin_pods: Vec<PodIx>,
    /// Pods to which the entry forwards the requests of the hosts of a front.
    pub(crate) front_origins: FrontOrigins,
    /// Names queried at the resolvers.
    pub(crate) names: BTreeSet<NameIx>,
    /// Nodes to which the load balancer of the front may send a connection. Empty without a balancer.
    pub(crate) balancer_pool: BalancerPool,
    pub(crate) unhealthy_nodes: UnhealthyNodes,
    /// Whether connections from inside the cluster to the balancer's address leave the node, as far as known.
    pub(crate) is_forwarded_to_balancer: bool,
    /// Whether the node selected by the balancer uses only its own endpoints.
    pub(crate) pool_uses_local_endpoints: bool,
    /// The traffic policy of the front, if known. With policy Cluster each node may select any endpoint.
    pub(crate) front_policy: Option<TrafficPolicy>,
    /// Whether policy Local is observed in practice: the front has the policy, clients on nodes without an
    /// endpoint mostly fail, and no client on a node with an endpoint was answered by an endpoint of another node.
    pub(crate) enforces_local: bool,
}

impl MeshNodes {
    /// Creates the mesh from the nodes, probers and zones of a topology and its current and former endpoints.
    pub(crate) fn new(topology: &Topology, world: &mut NameRegistry, vantages: &BTreeSet<Vantage>) -> Self {
        let mut nodes = Self {
            proxy_mode: topology.proxy_mode(),
            ..Self::default()
        };
        for (name, node) in topology.nodes() {
            let ix = world.nodes.intern(name);
            nodes.node_set.insert(ix);
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
        let placed = || topology.targets().values();
        let entries = placed().filter_map(|placed| Some(&placed.entry.as_ref()?.0));
        let origins = placed().filter_map(|placed| placed.origin.as_ref());
        let services: BTreeSet<&ServiceKey> = fronted.chain(entries).chain(origins).collect();
        for service in services.into_iter().filter_map(|key| topology.service(key)) {
            for endpoint in &service.endpoints {
                let pod = world.pods.intern(&endpoint.pod);
                if let Some(node) = &endpoint.node {
                    let node = world.nodes.intern(node);
                    world.pod_nodes.insert(pod, node);
                }
            }
        }
        nodes.pod_nodes.clone_from(&world.pod_nodes);
        nodes
    }

    /// Adds a probing vantage.
    pub(crate) fn add_client(&mut self, client: VantageIx, node: Option<NodeIx>) {
        self.clients.insert(client, node);
        self.client_nodes.extend(node);
    }

    /// Returns the node of a vantage; `None` outside the cluster.
    pub(crate) fn client_node(&self, client: VantageIx) -> Option<NodeIx> {
        self.clients.get(&client).copied().flatten()
    }

    /// Returns the node of a Pod, if it is known.
    pub(crate) fn pod_node(&self, pod: PodIx) -> Option<NodeIx> {
        self.pod_nodes.get(&pod).copied()
    }

    /// Returns the destination node of a probe, if its path is known.
    pub(crate) fn destination_node(&self, dest: Destination) -> Option<NodeIx> {
        match dest {
            Destination::Entry(pod) => self.pod_node(pod),
            Destination::Peer(node) => Some(node),
            Destination::Unknown | Destination::Name(_) | Destination::Lookup(_) => None,
        }
    }
}

impl SubjectPaths {
    /// The paths of a subject without endpoints.
    pub(crate) fn of_mesh(mesh: &Arc<MeshNodes>) -> Self {
        Self {
            mesh: Arc::clone(mesh),
            ..Self::default()
        }
    }

    /// Returns the node of a vantage; `None` outside the cluster.
    pub(crate) fn node_of_client(&self, client: VantageIx) -> Option<NodeIx> {
        self.mesh.client_node(client)
    }

    /// Reports whether a connection between two nodes leads from one zone into another.
    pub(crate) fn is_between_zones(
        &self,
        (from, to): (Option<NodeIx>, Option<NodeIx>),
        (first, second): (ZoneIx, ZoneIx),
    ) -> bool {
        let zone = |node: Option<NodeIx>| node.and_then(|node| self.mesh.zones.get(&node)).copied();
        zone(from) == Some(first) && zone(to) == Some(second)
    }

    /// Returns every Pod at which a hop of the subject may end.
    pub(crate) fn pods(&self) -> BTreeSet<PodIx> {
        let all = self.backends.iter().chain(&self.resolver_pods);
        all.chain(&self.origin_pods).copied().collect()
    }

    /// Returns the links over which entries forward the requests of a host to its origins.
    pub(crate) fn onward_links(&self) -> BTreeSet<Region> {
        let node_of = |pod: &PodIx| self.mesh.pod_node(*pod);
        let origins: BTreeSet<NodeIx> = self.origin_pods.iter().filter_map(node_of).collect();
        let entries = self.backends.iter().filter_map(node_of);
        let links = entries.flat_map(|entry| origins.iter().map(move |origin| (entry, *origin)));
        links
            .filter(|(entry, origin)| entry != origin)
            .map(|(a, b)| Region::Link(a.min(b), a.max(b)))
            .collect()
    }

    /// Returns the nodes of these links, each with all of its connections to other nodes.
    pub(crate) fn onward_node_links(&self) -> BTreeSet<Region> {
        let nodes = self.onward_links().into_iter().flat_map(Region::nodes).flatten();
        nodes.map(Region::NodeLink).collect()
    }

    /// Reports whether a Pod that answers questions runs on a node.
    pub(crate) fn has_resolver_on(&self, node: NodeIx) -> bool {
        let mut nodes = self
            .resolver_pods
            .iter()
            .filter_map(|pod| self.mesh.pod_nodes.get(pod));
        nodes.any(|own| *own == node)
    }

    /// Reports whether a connection of a client on `node`, or outside the cluster, runs to any node that the balancer selects,
    /// also to one that fails, and from there to any endpoint.
    pub(crate) fn has_receiver_hop(&self, node: Option<NodeIx>) -> bool {
        self.unhealthy_nodes == UnhealthyNodes::InPool && self.is_balanced_over_nodes(node)
    }

    /// Reports whether a connection of a client on `node`, or outside the cluster, runs to a node of a balancer's pool, and
    /// from there to any endpoint.
    pub(crate) fn is_balanced_over_nodes(&self, node: Option<NodeIx>) -> bool {
        self.balancer_pool.len() > 1
            && !self.pool_uses_local_endpoints
            && (node.is_none() || self.is_forwarded_to_balancer)
    }

    /// Returns the endpoints that the front may select for a client.
    pub(crate) fn eligible(&self, client: VantageIx) -> &[PodIx] {
        self.eligible.get(&client).map_or(&self.backends, Vec::as_slice)
    }

    /// Reports whether the front may select a Pod for any client.
    pub(crate) fn may_select(&self, pod: PodIx) -> bool {
        self.backends.contains(&pod) || self.eligible.values().any(|pods| pods.contains(&pod))
    }

    /// Returns the nodes that have a vantage.
    pub(crate) fn client_nodes(&self) -> &BTreeSet<NodeIx> {
        &self.mesh.client_nodes
    }

    /// Returns the zones of all nodes.
    pub(crate) fn zone_set(&self) -> &BTreeSet<ZoneIx> {
        &self.mesh.zone_set
    }

    /// Sets the paths to the endpoints of a headless Service, from which the client itself chooses.
    pub(crate) fn with_endpoints(mut self, world: &NameRegistry, service: &Service) -> Self {
        let usable = service.usable();
        self.backends = usable.iter().filter_map(|e| world.pods.get(&e.pod)).collect();
        self.local_nodes = usable
            .iter()
            .filter_map(|e| world.nodes.get(e.node.as_ref()?))
            .collect();
        self
    }

    /// Sets the paths through the front of a Service. Eligible endpoints are computed only for `clients`.
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
        self.local_nodes = topology
            .entry_nodes(front)
            .into_iter()
            .filter_map(|n| world.nodes.get(n))
            .collect();
        let external = service.external_traffic_policy == TrafficPolicy::Local;
        let kind = topology.front(front).map(|info| info.kind);
        self.enforces_local = topology.uses_local_policy(front);
        self.front_policy = kind.is_some().then_some(if self.enforces_local {
            TrafficPolicy::Local
        } else {
            TrafficPolicy::Cluster
        });
        if let Some(FrontKind::LoadBalancer(ip_mode)) = kind {
            // With policy Local a balancer skips nodes without an endpoint, unless all of its health checks fail:
            // then it uses every node.
            let nodes = self.mesh.node_set.iter().copied();
            self.balancer_pool =
                BalancerPool::new(nodes, &self.mesh.zones, |node| self.local_nodes.contains(&node));
            self.pool_uses_local_endpoints = external;
            self.is_forwarded_to_balancer =
                ip_mode == IpMode::Proxy || self.mesh.proxy_mode == ProxyMode::Unknown;
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

    /// Corrects the computed paths from the cells: an endpoint that answered a client is eligible for it. With
    /// session affinity it is the only one.
    pub(crate) fn correct_from_cells(&mut self, cells: &RoundCells, affinity: bool) {
        let mut crossed = false;
        let (mut lacking, mut failing) = (0, 0);
        for (key, counts) in cells.iter().filter(|(key, _)| key.channel == Channel::Vip) {
            let node = self.node_of_client(key.client);
            if node.is_some_and(|node| !self.local_nodes.contains(&node)) {
                lacking += counts.probes;
                failing += counts.failures;
            }
        }
        let mut answered: BTreeMap<VantageIx, BTreeSet<PodIx>> = BTreeMap::new();
        for key in cells.keys() {
            match (key.channel, key.dest) {
                (Channel::Vip, Destination::Entry(pod)) if self.backends.contains(&pod) => {
                    answered.entry(key.client).or_default().insert(pod);
                    let node = self.node_of_client(key.client);
                    crossed |= node.is_some_and(|node| {
                        self.local_nodes.contains(&node) && self.mesh.pod_nodes.get(&pod) != Some(&node)
                    });
                }
                (_, Destination::Name(name) | Destination::Lookup(name)) => {
                    self.names.insert(name);
                }
                _ => {}
            }
        }
        self.enforces_local &= !crossed && failing * 2 > lacking;
        for (client, pods) in answered {
            let known: BTreeSet<PodIx> = self.eligible(client).iter().copied().collect();
            let pods = if affinity {
                pods
            } else if pods.is_subset(&known) {
                continue;
            } else {
                // The observation contradicts the computed restriction: this client is not limited to its own
                // node.
                self.backends.iter().copied().collect()
            };
            self.eligible.insert(client, pods.into_iter().collect());
        }
        self.local_reach = nodes_with_local_reach(self, cells);
    }
}
