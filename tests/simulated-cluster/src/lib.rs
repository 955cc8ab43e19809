//! A simulated cluster of any size, probed as the plan samples it: for the benchmarks and the soak.
#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "only benchmarks use it, and an invalid fixture fails them"
)]

use std::sync::Arc;

use parallax_diagnosis::{
    Engine, Settings,
    plan::{PlanConfig, assignments},
    topology::{Topology, TopologySpec},
};
use parallax_model::{
    Assignment, Channel, DnsAnswer, EventTime, FailureKind, Micros, Observation, Outcome, Phase, PhaseTimes,
    Recorded, ReportSeq, Vantage,
};
use serde_json::{Value, json};

/// Length of a round in microseconds.
pub const INTERVAL: i64 = 10_000_000;
/// Endpoints of each Service.
const ENDPOINTS: usize = 3;

/// Size of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Nodes, each with a prober.
    pub nodes: usize,
    /// Each with a balancer address, a cluster address, three endpoints and four hosts: five targets.
    pub services: usize,
}

impl Scale {
    /// Returns how often an endpoint has been replaced after this many replacements, which take the endpoints of all Services in
    /// turn.
    fn generation(self, s: usize, e: usize, replacements: usize) -> usize {
        let (turn, turns) = (s + self.services * e, self.services * ENDPOINTS);
        (replacements + turns - 1 - turn) / turns
    }

    /// Returns the node of an endpoint of the first Service: the one that [`Fault::Node`] breaks.
    #[must_use]
    pub fn broken_node(self) -> String {
        node_name(self.node_of(0, 0, 0))
    }

    /// Returns the node of endpoint `e` of Service `s` in a generation.
    fn node_of(self, s: usize, e: usize, generation: usize) -> usize {
        (s * 37 + e * 1_709 + generation) % self.nodes
    }
}

fn node_name(n: usize) -> String {
    format!("node-{n:04}.pool.example")
}

/// Returns the topology after a number of replaced endpoints.
#[must_use]
pub fn topology(scale: Scale, replacements: usize) -> Arc<Topology> {
    let spec: TopologySpec = serde_json::from_value(topology_file(scale, replacements)).unwrap();
    Arc::new(Topology::try_from(spec).unwrap())
}

/// Returns the same topology as the content of a topology file.
#[must_use]
pub fn topology_file(scale: Scale, replacements: usize) -> Value {
    json!({
        "proxyMode": "iptables",
        "nodes": (0..scale.nodes).map(|n| json!({"name": node_name(n), "zone": format!("z{}", n % 3),
            "prober": {"pod": format!("parallax-prober-{n:05}"), "address": format!("10.{}.{}.5:9095", n / 250, n % 250)}}))
            .collect::<Vec<_>>(),
        "services": (0..scale.services).map(|s| json!({"namespace": format!("team-{}", s % 40), "name": format!("ingress-{s}"),
            "type": "LoadBalancer", "clusterIPs": [format!("10.96.{}.{}", s / 250, s % 250)],
            "loadBalancer": [{"ip": format!("203.0.{}.{}", s / 250, s % 250)}], "externalTrafficPolicy": "Local",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": (0..ENDPOINTS).map(|e| {
                let generation = scale.generation(s, e, replacements);
                json!({"pod": format!("ingress-{s}-7d9f8c6b5-{e}-{generation}"),
                    "address": format!("10.{}.{}.{}", 100 + s / 250, s % 250, 10 + (e + ENDPOINTS * generation) % 240),
                    "node": node_name(scale.node_of(s, e, generation))})
            }).collect::<Vec<_>>()}))
            .collect::<Vec<_>>(),
        "ingresses": (0..scale.services).map(|s| json!({"namespace": format!("team-{}", s % 40), "name": format!("hosts-{s}"),
            "service": format!("team-{}/ingress-{s}", s % 40),
            "hosts": (0..4).map(|h| format!("h{h}.app-{s}.example.test")).collect::<Vec<_>>()}))
            .collect::<Vec<_>>(),
    })
}

/// Returns the timing of the plan.
#[must_use]
pub fn config() -> PlanConfig {
    PlanConfig {
        interval: Micros(INTERVAL.unsigned_abs()),
        timeout: Micros::from_secs(3),
        echo_nonce: "nonce".to_owned(),
    }
}

/// The injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Every probe succeeds.
    Nothing,
    /// The first Service's balancer address, from everywhere.
    Front,
    /// All traffic from and to one node.
    Node,
}

impl Fault {
    /// Whether the probe of a vantage fails.
    fn fails(self, scale: Scale, vantage: &Vantage, assignment: &Assignment, front: Option<&str>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Front => front == Some("203.0.0.0:80"),
            Self::Node => {
                let broken = scale.broken_node();
                let own = vantage.node();
                let entry = assignment.entry.as_ref().and_then(|entry| entry.node.as_ref());
                let other = assignment.peer.as_ref().or(entry);
                [own, other]
                    .into_iter()
                    .flatten()
                    .any(|node| node.as_str() == broken)
            }
        }
    }
}

/// Returns what a prober observes for an assignment.
#[must_use]
pub fn observation(
    scale: Scale,
    fault: Fault,
    vantage: &Vantage,
    assignment: &Assignment,
    seq: ReportSeq,
    started: EventTime,
) -> Observation {
    let front = match assignment.channel {
        Channel::Vip => front_of(assignment),
        _ => None,
    };
    let failed = fault.fails(scale, vantage, assignment, front.as_deref());
    let entry = assignment.entry.as_ref();
    let node = assignment
        .peer
        .as_ref()
        .or(entry.and_then(|entry| entry.node.as_ref()));
    // Hosts are resolved; a cluster address is dialled directly.
    let resolved = front.as_deref().filter(|front| front.starts_with("203."));
    let answer = resolved.map(|front| DnsAnswer {
        resolver: "10.96.0.10:53".parse().unwrap(),
        name: assignment
            .target
            .as_str()
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned(),
        addresses: vec![front.trim_end_matches(":80").parse().unwrap()],
        ttl_s: Some(30),
        tcp: false,
        unanswered: None,
    });
    Observation {
        server: None,
        fingerprint: None,
        challenge: None,
        names: None,
        seq,
        started,
        assignment: Some(assignment.id.clone()),
        target: assignment.target.clone(),
        channel: assignment.channel,
        front: front.as_ref().map(|front| front.parse().unwrap()),
        entry: (assignment.channel == Channel::Direct)
            .then(|| entry.map(|entry| entry.pod.clone()))
            .flatten(),
        dst_node: node.cloned(),
        outcome: if failed {
            Outcome::Failed {
                phase: Phase::Connect,
                kind: FailureKind::ConnectTimeout,
                status: None,
            }
        } else {
            Outcome::Ok { status: Some(200) }
        },
        times: PhaseTimes {
            resolve: answer.as_ref().map(|_| Micros(900)),
            first_byte: Some(Micros(1_200)),
            delay: Some(Micros(300)),
            connect: Some(Micros(400)),
            total: Some(Micros(2_400)),
            ..PhaseTimes::default()
        },
        dns: answer,
        echo: None,
        ttl: None,
    }
}

/// The plans of all vantages.
#[derive(Debug)]
pub struct Mesh {
    /// Size of the cluster.
    pub scale: Scale,
    /// Its topology.
    pub topology: Arc<Topology>,
    /// The assignments of each vantage.
    pub plans: Vec<(Vantage, Vec<Assignment>)>,
}

impl Mesh {
    /// Creates the cluster after a number of replaced endpoints.
    #[must_use]
    pub fn new(scale: Scale, replacements: usize) -> Self {
        let topology = topology(scale, replacements);
        let plans = topology
            .vantages()
            .into_iter()
            .map(|vantage| {
                let plan = assignments(&topology, &config(), &vantage);
                (vantage, plan)
            })
            .collect();
        Self {
            scale,
            topology,
            plans,
        }
    }

    /// Creates an engine for the cluster.
    #[must_use]
    pub fn engine(&self) -> Engine {
        let settings = Settings {
            interval: Micros(INTERVAL.unsigned_abs()),
            timeout: Micros::from_secs(3),
        };
        Engine::new(settings, Arc::clone(&self.topology))
    }

    /// Returns one observation of each assignment.
    #[must_use]
    pub fn round(&self, round: i64, fault: Fault) -> Vec<Recorded> {
        let mut rows = Vec::new();
        let mut seq = u64::try_from(round).unwrap() * 1_000_000;
        for (n, (vantage, plan)) in self.plans.iter().enumerate() {
            let at = EventTime(round * INTERVAL + i64::try_from(n % 900).unwrap() * 10_000);
            for assignment in plan {
                seq += 1;
                rows.push(Recorded {
                    vantage: vantage.clone(),
                    incarnation: "c0ffee-1795179600".parse().unwrap(),
                    observation: observation(self.scale, fault, vantage, assignment, ReportSeq(seq), at),
                });
            }
        }
        rows
    }

    /// All vantages report the round as complete.
    pub fn complete(&self, engine: &mut Engine, round: i64) {
        for (vantage, _) in &self.plans {
            engine.record_progress(vantage, EventTime((round + 1) * INTERVAL));
        }
    }
}

/// Returns the front to which a user's connection for the target goes.
fn front_of(assignment: &Assignment) -> Option<String> {
    let target = assignment.target.as_str();
    if let Some(address) = target.strip_prefix("http://10.") {
        return Some(format!("10.{}", address.trim_end_matches('/')));
    }
    let service: usize = target
        .split('.')
        .find_map(|part| part.strip_prefix("app-"))?
        .parse()
        .ok()?;
    Some(format!("203.0.{}.{}:80", service / 250, service % 250))
}

/// Resident memory of this process in MiB.
#[must_use]
pub fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
