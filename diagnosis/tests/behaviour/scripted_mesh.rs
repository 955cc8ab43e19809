//! A mesh whose probes are given one by one by a test.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use parallax_diagnosis::{
    Engine, Settings,
    topology::{Topology, TopologySpec},
    verdict::IncidentState,
    view::View,
};
use parallax_model::{EventTime, Micros, Recorded, Vantage};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const NODES: usize = 6;
pub(crate) const INTERVAL: i64 = 5_000_000;

/// A mesh whose probes are given one by one by a test.
pub(crate) struct ScriptedMesh {
    pub(crate) engine: Engine,
    pub(crate) seq: u64,
    pub(crate) sent: Vec<Value>,
    /// How often the prober of each node has restarted.
    pub(crate) restarts: [u32; NODES],
}

pub(crate) fn topology(spec: Value) -> Arc<Topology> {
    let spec: TopologySpec = serde_json::from_value(spec).unwrap();
    Arc::new(Topology::try_from(spec).unwrap())
}

pub(crate) fn nodes(count: usize) -> Vec<Value> {
    (0..count)
        .map(|i| {
            json!({"name": format!("n{i}"), "zone": "z", "prober": {"pod": format!("prober-n{i}"),
                "address": format!("10.244.{i}.5:9095")}})
        })
        .collect()
}

/// A headless Service with endpoints `db-K` at 10.244.NODE.20+K, and a ClusterIP with Pods on n0 and n3.
pub(crate) fn cluster(nodes: &[Value], database: &[(usize, usize)]) -> Value {
    json!({
        "proxyMode": "iptables",
        "nodes": nodes,
        "services": [
            {"namespace": "data", "name": "db", "clusterIPs": [],
             "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
             "endpoints": database.iter().map(|(pod, node)| json!({"pod": format!("db-{pod}"),
                 "address": format!("10.244.{node}.{}", 20 + pod), "node": format!("n{node}")})).collect::<Vec<_>>()},
            {"namespace": "apps", "name": "web", "clusterIPs": ["10.96.1.1"],
             "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
             "endpoints": [{"pod": "web-0", "address": "10.244.0.10", "node": "n0"},
                           {"pod": "web-1", "address": "10.244.3.10", "node": "n3"}]},
        ],
        "published": [{"target": {"url": "http://db.data.svc:8080/"}, "service": "data/db", "port": 80}],
    })
}

impl ScriptedMesh {
    pub(crate) fn new(spec: Value) -> Self {
        let settings = Settings {
            interval: Micros(5_000_000),
            timeout: Micros::from_secs(3),
        };
        Self {
            engine: Engine::new(settings, topology(spec)),
            seq: 0,
            sent: Vec::new(),
            restarts: [0; NODES],
        }
    }

    pub(crate) fn change(&mut self, spec: Value, at_us: i64) {
        self.engine.replace_topology(topology(spec), EventTime(at_us));
    }

    /// Observes one probe from a node, `offset_us` after the start of the round.
    pub(crate) fn probe(&mut self, round: i64, node: usize, offset_us: i64, mut line: Value) {
        self.seq += 1;
        line["seq"] = json!(self.seq);
        line["vantage"] = json!(format!("n{node}/pod"));
        line["incarnation"] = json!(format!("life-{node}.{}", self.restarts[node]));
        line["t_us"] = json!(round * INTERVAL + offset_us);
        let recorded: Recorded = serde_json::from_value(line.clone()).unwrap();
        self.engine.observe(&recorded);
        self.sent.push(line);
    }

    /// Observes echoes between the given nodes; `fails` returns the failure of an echo by source and destination.
    pub(crate) fn mesh(
        &mut self,
        round: i64,
        nodes: &[usize],
        fails: impl Fn(usize, usize) -> Option<(&'static str, &'static str)>,
    ) {
        for from in nodes {
            for to in (0..NODES).filter(|to| to != from) {
                self.echo(round, (*from, to), fails(*from, to));
            }
        }
    }

    /// Observes one echo between two nodes.
    pub(crate) fn echo(
        &mut self,
        round: i64,
        (from, to): (usize, usize),
        failure: Option<(&'static str, &'static str)>,
    ) {
        let line = json!({"channel": "mesh", "target": format!("echo://n{to}"),
            "front": format!("10.244.{to}.5:9095"), "entry": format!("prober-n{to}"), "dst_node": format!("n{to}")});
        self.probe(round, from, 1_500_000, with_outcome(line, failure));
    }

    /// Observes connections to the ClusterIP and directly to its Pods.
    pub(crate) fn web(
        &mut self,
        round: i64,
        nodes: &[usize],
        mut fails: impl FnMut(usize, Option<usize>) -> Option<(&'static str, &'static str)>,
    ) {
        for from in nodes {
            let line = json!({"channel": "vip", "target": "http://10.96.1.1:80/", "front": "10.96.1.1:80"});
            self.probe(round, *from, 500_000, with_outcome(line, fails(*from, None)));
            for (pod, node) in [(0, 0), (1, 3)] {
                let line = json!({"channel": "direct", "target": "http://10.96.1.1:80/", "entry": format!("web-{pod}"),
                    "front": format!("10.244.{node}.10:8080"), "dst_node": format!("n{node}")});
                self.probe(
                    round,
                    *from,
                    700_000,
                    with_outcome(line, fails(*from, Some(node))),
                );
            }
        }
    }

    /// Observes a probe of the headless name that resolves to `addresses`; the dialled one rotates by round and
    /// node.
    pub(crate) fn name(&mut self, round: i64, node: usize, addresses: &[&str], ttl: u32, gone: &[&str]) {
        let turn = usize::try_from(round).unwrap() + node;
        let dialled = addresses[turn % addresses.len()];
        let line = json!({"channel": "vip", "target": "http://db.data.svc:8080/", "front": format!("{dialled}:8080"),
            "dns": {"resolver": "10.96.0.10:53", "name": "db.data.svc.cluster.local.", "addresses": addresses, "ttl_s": ttl}});
        let failure = gone.contains(&dialled).then_some(("connect", "connect_timeout"));
        self.probe(round, node, 900_000, with_outcome(line, failure));
    }

    pub(crate) fn absent(&mut self, round: i64, node: usize) {
        let line = json!({"channel": "vip", "target": "http://db.data.svc:8080/",
            "dns": {"resolver": "10.96.0.10:53", "name": "db.data.svc.cluster.local.", "addresses": []}});
        self.probe(
            round,
            node,
            900_000,
            with_outcome(line, Some(("resolve", "nxdomain"))),
        );
    }

    /// All of `nodes` report the round as complete; it is judged after its deadline.
    pub(crate) fn close(&mut self, round: i64, nodes: &[usize]) -> View {
        let end = EventTime((round + 1) * INTERVAL);
        for node in nodes {
            let vantage: Vantage = format!("n{node}/pod").parse().unwrap();
            self.engine.record_progress(&vantage, end);
        }
        let now = EventTime(end.0 + 4_000_001);
        self.engine.advance(now);
        self.engine.view(now)
    }
}

pub(crate) fn with_outcome(mut line: Value, failure: Option<(&str, &str)>) -> Value {
    match failure {
        None => line["result"] = json!("ok"),
        Some((phase, kind)) => {
            line["result"] = json!("failed");
            line["phase"] = json!(phase);
            line["kind"] = json!(kind);
        }
    }
    line
}

pub(crate) const ALL: [usize; NODES] = [0, 1, 2, 3, 4, 5];

pub(crate) fn open_sentences(view: &View) -> Vec<String> {
    view.incidents
        .iter()
        .filter(|i| !matches!(i.state, IncidentState::Closed { .. }))
        .map(|i| i.verdict.sentence.clone())
        .collect()
}

pub(crate) fn succeeds<T>(_: usize, _: T) -> Option<(&'static str, &'static str)> {
    None
}
