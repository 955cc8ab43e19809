//! The mesh of one target: which client probes what in a round, and the resulting reports.

use std::sync::Arc;

use parallax_diagnosis::topology::{Topology, TopologySpec};
use parallax_model::{
    Channel, EventTime, Front, Incarnation, Micros, NodeName, Observation, Outcome, PhaseTimes, PodName,
    Recorded, ReportSeq, TargetId, Vantage,
};
use serde_json::json;

use super::super::{
    kinds,
    region::ProbeApproach,
    rng::Rng,
    simulate::{INTERVAL_US, TIMEOUT_US},
};

const FRONT: &str = "203.0.113.10:80";
const TARGET: &str = "http://shop.example.test/";

/// One probe of one client: to an endpoint through the front, to an endpoint directly, or to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeshProbe {
    pub(super) client: usize,
    pub(super) way: ProbeApproach,
    /// The selected endpoint, even if the observer does not know it.
    pub(super) endpoint: Option<usize>,
    /// The node at which it arrives.
    pub(super) node: usize,
    pub(super) failed: bool,
    /// Whether its client was stalled.
    pub(super) stalled: bool,
}

/// Nodes and endpoints with everything that a report needs.
#[derive(Debug)]
pub(super) struct QuietMesh {
    pub(super) nodes: usize,
    /// The node of each endpoint.
    pub(super) endpoints: Vec<usize>,
    topology: Arc<Topology>,
    vantages: Vec<Vantage>,
    names: Vec<NodeName>,
    pods: Vec<PodName>,
    echoes: Vec<TargetId>,
    incarnation: Incarnation,
    front: Front,
    target: TargetId,
}

impl QuietMesh {
    /// Builds a mesh with the endpoints spread evenly over the nodes.
    ///
    /// # Panics
    /// If there are more endpoints than nodes, or no nodes.
    pub(super) fn new(nodes: usize, endpoints: usize, targets: usize) -> Self {
        assert!(
            0 < endpoints && endpoints <= nodes,
            "endpoints are on different nodes"
        );
        let on: Vec<usize> = (0..endpoints).map(|i| i * nodes / endpoints).collect();
        let spec = json!({
            "proxyMode": "iptables",
            "nodes": (0..nodes).map(|n| json!({"name": format!("n{n}"),
                "prober": {"pod": format!("prober-{n}"), "address": format!("10.244.{n}.5:9095")}})).collect::<Vec<_>>(),
            "services": [{"namespace": "ingress", "name": "front", "type": "LoadBalancer",
                "loadBalancer": [{"ip": "203.0.113.10"}], "externalTrafficPolicy": "Cluster",
                "ports": [{"name": "web", "port": 80, "targetPort": 8080}],
                "endpoints": on.iter().enumerate().map(|(i, n)| json!({"pod": format!("shop-{i}"),
                    "address": format!("10.244.{n}.10"), "node": format!("n{n}")})).collect::<Vec<_>>()}],
            "ingresses": [{"namespace": "shop", "name": "shop", "service": "ingress/front",
                "hosts": ["shop.example.test"]}],
            // The certainty that a verdict requires depends on the number of targets; the others are not probed here.
            "targets": (1..targets).map(|t| json!({"url": format!("tcp://other-{t}.example.test:80")})).collect::<Vec<_>>(),
        });
        let fixed = "names and addresses made here are well-formed";
        let spec: TopologySpec = serde_json::from_value(spec).expect(fixed);
        let topology = Topology::try_from(spec).expect(fixed);
        let name = |n: usize| NodeName::new(format!("n{n}")).expect(fixed);
        Self {
            nodes,
            topology: Arc::new(topology),
            vantages: (0..nodes).map(|n| Vantage::pod(name(n))).collect(),
            names: (0..nodes).map(name).collect(),
            pods: (0..endpoints)
                .map(|i| PodName::new(format!("shop-{i}")).expect(fixed))
                .collect(),
            echoes: (0..nodes)
                .map(|n| TargetId::new(format!("echo://n{n}")).expect(fixed))
                .collect(),
            endpoints: on,
            incarnation: Incarnation::new("quiet").expect(fixed),
            front: FRONT.parse().expect(fixed),
            target: TargetId::new(TARGET).expect(fixed),
        }
    }

    pub(super) fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.topology)
    }

    pub(super) fn vantages(&self) -> &[Vantage] {
        &self.vantages
    }

    pub(super) fn holds_endpoint(&self, node: usize) -> bool {
        self.endpoints.contains(&node)
    }

    /// Returns one probe through the front, one direct and two to peers for each client, all of them successful so far.
    pub(super) fn draw_probes(&self, round: usize, rng: &mut Rng) -> Vec<MeshProbe> {
        let mut shots = Vec::with_capacity(self.nodes * 4);
        for client in 0..self.nodes {
            let shot = |way, endpoint: Option<usize>, node| MeshProbe {
                client,
                way,
                endpoint,
                node,
                failed: false,
                stalled: false,
            };
            let chosen = rng.below(self.endpoints.len());
            shots.push(shot(ProbeApproach::Vip, Some(chosen), self.endpoints[chosen]));
            let turn = (client + round) % self.endpoints.len();
            shots.push(shot(ProbeApproach::Direct, Some(turn), self.endpoints[turn]));
            let others = (self.nodes - 1).max(1);
            for d in 0..2_usize.min(self.nodes - 1) {
                let peer = (client + 1 + (2 * round + d) % others) % self.nodes;
                shots.push(shot(ProbeApproach::Mesh, None, peer));
            }
        }
        shots
    }

    /// Builds the observation as the probe's prober would report it.
    pub(super) fn to_observation(
        &self,
        round: usize,
        seq: usize,
        shot: &MeshProbe,
        rng: &mut Rng,
    ) -> Recorded {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let at = number(round) * INTERVAL_US + 100_000 + number(shot.client) * 300_000;
        let outcome = if !shot.failed {
            Outcome::Ok { status: Some(200) }
        } else if shot.stalled {
            kinds::DrawnFailure::Timeout.outcome(shot.way)
        } else {
            rng.weighted(kinds::background(shot.way)).outcome(shot.way)
        };
        let direct = shot.way == ProbeApproach::Direct;
        // Through the front, only a response reveals the endpoint.
        let reveals = direct || (shot.way == ProbeApproach::Vip && !shot.failed);
        let mesh = shot.way == ProbeApproach::Mesh;
        Recorded {
            vantage: self.vantages[shot.client].clone(),
            incarnation: self.incarnation.clone(),
            observation: Observation {
                server: None,
                fingerprint: None,
                challenge: None,
                names: None,
                seq: ReportSeq((round * self.nodes * 4 + seq) as u64),
                started: EventTime(at),
                assignment: None,
                target: if mesh {
                    self.echoes[shot.node].clone()
                } else {
                    self.target.clone()
                },
                channel: match shot.way {
                    ProbeApproach::Mesh => Channel::Mesh,
                    ProbeApproach::Direct => Channel::Direct,
                    _ => Channel::Vip,
                },
                front: (shot.way == ProbeApproach::Vip).then_some(self.front),
                entry: shot
                    .endpoint
                    .filter(|_| reveals)
                    .map(|endpoint| self.pods[endpoint].clone()),
                dst_node: (mesh || direct).then(|| self.names[shot.node].clone()),
                outcome,
                times: PhaseTimes {
                    total: Some(Micros(if shot.failed { TIMEOUT_US } else { 2_000 })),
                    ..PhaseTimes::default()
                },
                dns: None,
                echo: None,
                ttl: None,
            },
        }
    }
}
