//! What is known of the paths of one subject: who can be sent where.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, Front, NodeName, Vantage};

use crate::{
    cells::{Dest, RoundCells},
    ids::{NameIx, NodeIx, PodIx, VantageIx, World, ZoneIx},
    topology::{ProxyMode, Service, Topology},
};

/// The paths of one subject.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    /// Nodes that a probe can start from or arrive at.
    pub(crate) nodes: BTreeSet<NodeIx>,
    /// Vantages that probe, with their node; none outside the cluster.
    pub(crate) clients: BTreeMap<VantageIx, Option<NodeIx>>,
    /// Usable endpoints of the subject.
    pub(crate) backends: Vec<PodIx>,
    /// Node of every endpoint that a cell may name, former ones included.
    pub(crate) pod_nodes: BTreeMap<PodIx, NodeIx>,
    /// Nodes that hold a usable endpoint; empty where endpoints are unknown.
    pub(crate) local: BTreeSet<NodeIx>,
    /// Endpoints a client can be sent to through the front, uniformly; all backends where absent.
    pub(crate) eligible: BTreeMap<VantageIx, Vec<PodIx>>,
    /// Zones of nodes, where known.
    pub(crate) zones: BTreeMap<NodeIx, ZoneIx>,
    /// Names asked at the resolvers.
    pub(crate) names: BTreeSet<NameIx>,
    /// How Services are implemented.
    pub(crate) proxy_mode: ProxyMode,
    /// Pods that are probers: a client may be its own endpoint.
    pub(crate) prober_pods: BTreeMap<PodIx, NodeIx>,
}

impl Scene {
    /// The node a vantage sits on; none outside the cluster.
    pub(crate) fn node_of_client(&self, client: VantageIx) -> Option<NodeIx> {
        self.clients.get(&client).copied().flatten()
    }

    /// The endpoints a client can be sent to.
    pub(crate) fn eligible(&self, client: VantageIx) -> &[PodIx] {
        self.eligible.get(&client).map_or(&self.backends, Vec::as_slice)
    }

    /// Nodes that hold a vantage.
    pub(crate) fn client_nodes(&self) -> BTreeSet<NodeIx> {
        self.clients.values().flatten().copied().collect()
    }

    /// All zones that hold a node of the scene.
    pub(crate) fn zone_set(&self) -> BTreeSet<ZoneIx> {
        self.zones.values().copied().collect()
    }

    /// Nodes, clients and zones without a Service: the mesh and the resolvers.
    pub(crate) fn of_nodes(topology: &Topology, world: &mut World, vantages: &BTreeSet<Vantage>) -> Self {
        let mut scene = Self {
            proxy_mode: topology.proxy_mode(),
            ..Self::default()
        };
        for (name, node) in topology.nodes() {
            let ix = world.nodes.intern(name);
            scene.nodes.insert(ix);
            if let Some(zone) = &node.zone {
                scene.zones.insert(ix, world.zones.intern(zone));
            }
            if let Some(prober) = &node.prober {
                scene.prober_pods.insert(world.pods.intern(&prober.pod), ix);
            }
        }
        for vantage in vantages {
            let node = vantage.node().map(|name| world.nodes.intern(name));
            scene.clients.insert(world.vantages.intern(vantage), node);
        }
        scene.pod_nodes.clone_from(&world.pod_nodes);
        scene
    }

    /// The same with the endpoints of a Service, seen through a front where there is one.
    pub(crate) fn with_service(
        mut self,
        topology: &Topology,
        world: &mut World,
        service: &Service,
        front: Option<&Front>,
    ) -> Self {
        for endpoint in &service.endpoints {
            let pod = world.pods.intern(&endpoint.pod);
            if let Some(node) = &endpoint.node {
                let node = world.nodes.intern(node);
                world.pod_nodes.insert(pod, node);
                self.pod_nodes.insert(pod, node);
            }
        }
        let usable = service.usable();
        self.backends = usable.iter().map(|e| world.pods.intern(&e.pod)).collect();
        self.local = usable
            .iter()
            .filter_map(|e| e.node.as_ref())
            .map(|n| world.nodes.intern(n))
            .collect();
        if let Some(front) = front {
            let mut by_node: BTreeMap<&NodeName, Vec<PodIx>> = BTreeMap::new();
            for (vantage, _) in &self.clients {
                let Some(node) = world.vantages.name(*vantage).node() else {
                    continue;
                };
                // The name lives in the world, which `eligible` does not change; the topology's own copy is kept.
                let Some((node, _)) = topology.nodes().get_key_value(node) else {
                    continue;
                };
                let pods = by_node.entry(node).or_insert_with(|| {
                    topology
                        .eligible(front, node)
                        .iter()
                        .filter_map(|e| world.pods.get(&e.pod))
                        .collect()
                });
                if *pods != self.backends {
                    self.eligible.insert(*vantage, pods.clone());
                }
            }
        }
        self
    }

    /// Lets the cells correct the rules: an endpoint that answered a client is one it can be sent to. With affinity it is
    /// the only one.
    pub(crate) fn learn_from(&mut self, cells: &RoundCells, affinity: bool) {
        let mut answered: BTreeMap<VantageIx, BTreeSet<PodIx>> = BTreeMap::new();
        for key in cells.keys() {
            match (key.channel, key.dest) {
                (Channel::Vip, Dest::Entry(pod)) if self.backends.contains(&pod) => {
                    answered.entry(key.client).or_default().insert(pod);
                }
                (_, Dest::Name(name)) => {
                    self.names.insert(name);
                }
                _ => {}
            }
        }
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
