//! Sentences of verdicts whose causes differ by more than the failing clients: certificates, endpoints, filters,
//! names.

#![expect(
    clippy::unwrap_used,
    reason = "test helpers: an invalid fixture fails the test"
)]

mod certificates;
mod endpoints;
mod names;
mod network;
mod proxies;
mod withdrawal;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_diagnosis::{
    Engine, Settings,
    topology::{Topology, TopologySpec},
    verdict::{Incident, IncidentState, Verdict},
    view::View,
};
use parallax_model::{EventTime, Micros, Recorded, Vantage};
use serde_json::{Value, json};

const INTERVAL: i64 = 5_000_000;
const NODES: [&str; 3] = ["n1", "n2", "n3"];
const DNS: &str = "10.96.0.10:53";

/// Three nodes with a prober each. The tests provide the probes.
struct Cluster {
    engine: Engine,
    seq: BTreeMap<String, u64>,
}

fn topology(spec: &Value) -> Arc<Topology> {
    let spec: TopologySpec = serde_json::from_value(spec.clone()).unwrap();
    Arc::new(Topology::try_from(spec).unwrap())
}

fn nodes(readiness: &str) -> Vec<Value> {
    (1..=3)
        .map(|i| {
            json!({"name": format!("n{i}"), "readiness": readiness,
                "prober": {"pod": format!("prober-n{i}"), "address": format!("10.244.{i}.5:9095")}})
        })
        .collect()
}

/// Endpoints `NAME-I` at 10.244.I.HOST, each ready or not.
fn endpoints(name: &str, host: u8, ready: &[bool]) -> Vec<Value> {
    let endpoint = |(i, ready): (usize, &bool)| {
        json!({"pod": format!("{name}-{}", i + 1), "address": format!("10.244.{}.{host}", i + 1),
            "node": format!("n{}", i + 1), "ready": ready})
    };
    ready.iter().enumerate().map(endpoint).collect()
}

/// An application behind an ingress controller, the cluster's resolver and the API server.
fn spec(web: &[bool], dns: &[bool], readiness: &str) -> Value {
    json!({
        "platform": "kubernetes",
        "proxyMode": "iptables",
        "nodes": nodes(readiness),
        "services": [
            {"namespace": "ingress", "name": "nginx", "type": "LoadBalancer", "clusterIPs": ["10.96.0.50"],
             "loadBalancer": [{"ip": "203.0.113.10"}],
             "ports": [{"port": 80, "targetPort": 8080}, {"port": 443, "targetPort": 8443}],
             "endpoints": endpoints("ingress", 20, &[true, true])},
            {"namespace": "shop", "name": "web", "clusterIPs": ["10.96.0.60"],
             "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
             "endpoints": endpoints("web", 10, web)},
            {"namespace": "kube-system", "name": "kube-dns", "clusterIPs": ["10.96.0.10"],
             "ports": [{"port": 53, "targetPort": 53}], "endpoints": endpoints("coredns", 30, dns)},
            {"namespace": "default", "name": "kubernetes", "clusterIPs": ["10.96.0.1"],
             "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
             "endpoints": [{"pod": "api", "address": "192.168.0.1"}]},
        ],
        "published": [
            {"target": {"url": "http://shop.example.test/"}, "service": "ingress/nginx", "port": 80, "class": "nginx",
             "origin": "shop/web"},
            {"target": {"url": "https://shop.example.test/"}, "service": "ingress/nginx", "port": 443, "class": "nginx",
             "origin": "shop/web"},
        ],
        "targets": [{"url": "tcp://10.96.0.1:443"}, {"url": "dns://shop.example.test"}, {"url": "dns://other.example.test"}],
    })
}

const HEALTHY: &[bool] = &[true, true];

fn healthy_spec() -> Value {
    spec(&[true, true, true], HEALTHY, "Ready")
}

/// The failure of a probe as phase and kind (with a status after a colon), or `None`.
type Outcome = Option<(&'static str, &'static str)>;

fn with_outcome(mut line: Value, outcome: Outcome) -> Value {
    match outcome {
        None => line["result"] = json!("ok"),
        Some((phase, kind)) => {
            let (kind, status) = kind
                .split_once(':')
                .map_or((kind, None), |(kind, status)| (kind, status.parse::<u16>().ok()));
            line["result"] = json!("failed");
            line["phase"] = json!(phase);
            line["kind"] = json!(kind);
            if let Some(status) = status {
                line["status"] = json!(status);
            }
        }
    }
    line
}

impl Cluster {
    fn new(spec: &Value) -> Self {
        let settings = Settings {
            interval: Micros(5_000_000),
            timeout: Micros::from_secs(3),
        };
        Self {
            engine: Engine::new(settings, topology(spec)),
            seq: BTreeMap::new(),
        }
    }

    fn change(&mut self, spec: &Value, round: i64) {
        self.engine
            .replace_topology(topology(spec), EventTime(round * INTERVAL));
    }

    fn probe(&mut self, round: i64, node: &str, line: Value, outcome: Outcome) {
        self.observe(round, node, with_outcome(line, outcome));
    }

    fn observe(&mut self, round: i64, node: &str, mut line: Value) {
        let seq = self.seq.entry(node.to_owned()).or_default();
        *seq += 1;
        line["seq"] = json!(*seq);
        line["vantage"] = json!(format!("{node}/pod"));
        line["incarnation"] = json!(format!("{node}-1"));
        line["t_us"] = json!(round * INTERVAL + i64::try_from(*seq).unwrap() % 1_000);
        let recorded: Recorded = serde_json::from_value(line).unwrap();
        self.engine.observe(&recorded);
    }

    fn close(&mut self, round: i64) -> View {
        let end = EventTime((round + 1) * INTERVAL);
        for node in NODES {
            let vantage: Vantage = format!("{node}/pod").parse().unwrap();
            self.engine.record_progress(&vantage, end);
        }
        let now = end.shifted(500_000);
        self.engine.advance(now);
        self.engine.view(now)
    }

    /// Observes a successful echo between all nodes.
    fn mesh(&mut self, round: i64) {
        for from in NODES {
            for to in NODES.into_iter().filter(|to| *to != from) {
                let line = json!({"channel": "mesh", "target": format!("echo://{to}"), "dst_node": to});
                self.probe(round, from, line, None);
            }
        }
    }

    /// Observes a host through the balancer, from each node.
    fn host(&mut self, round: i64, scheme: &str, fails: impl Fn(&str) -> Outcome) {
        let port = if scheme == "https" { 443 } else { 80 };
        for node in NODES {
            let line = json!({"channel": "vip", "target": format!("{scheme}://shop.example.test/"),
                "front": format!("203.0.113.10:{port}")});
            self.probe(round, node, line, fails(node));
        }
    }

    /// Observes the application at its cluster address and at each Pod.
    fn web(&mut self, round: i64, pods: usize, vip: Outcome, direct: impl Fn(usize) -> Outcome) {
        self.address(round, |_| vip);
        for node in NODES {
            for pod in 1..=pods {
                let line = json!({"channel": "direct", "target": "http://10.96.0.60:80/",
                    "entry": format!("web-{pod}"), "front": format!("10.244.{pod}.10:8080"),
                    "dst_node": format!("n{pod}")});
                self.probe(round, node, line, direct(pod));
            }
        }
    }

    /// Observes the application at its cluster address, from each node.
    fn address(&mut self, round: i64, fails: impl Fn(&str) -> Outcome) {
        for node in NODES {
            let line = json!({"channel": "vip", "target": "http://10.96.0.60:80/", "front": "10.96.0.60:80"});
            self.probe(round, node, line, fails(node));
        }
    }

    /// Observes DNS queries for two names from each node.
    fn names(&mut self, round: i64, fails: impl Fn(&str) -> bool) {
        for node in NODES {
            for name in ["shop.example.test", "other.example.test"] {
                let outcome = fails(node).then_some(("resolve", "resolver_unreachable"));
                self.name(round, node, name, outcome, &Value::Null);
            }
        }
    }

    /// Observes a DNS query from a node, with the findings about a query without a response.
    fn name(&mut self, round: i64, node: &str, name: &str, outcome: Outcome, unanswered: &Value) {
        let line = name_line(name, outcome, unanswered);
        self.probe(round, node, line, outcome);
    }

    /// Observes a DNS query without a response, from a node whose prober ran late.
    fn late_name(&mut self, round: i64, node: &str, name: &str, unanswered: &Value) {
        let mut line = name_line(name, Some(("resolve", "resolve_timeout")), unanswered);
        line["result"] = json!("not_asked");
        line["own"] = json!("late");
        self.observe(round, node, line);
    }
}

fn name_line(name: &str, outcome: Outcome, unanswered: &Value) -> Value {
    let mut dns = json!({"resolver": DNS, "name": name, "addresses": ["203.0.113.10"], "ttl_s": 30});
    if outcome.is_some() {
        dns["addresses"] = json!([]);
    }
    if !unanswered.is_null() {
        dns["unanswered"] = unanswered.clone();
    }
    json!({"channel": "dns", "target": format!("dns://{name}"), "dns": dns})
}

/// Returns the verdict of the only incident.
fn only_verdict(view: &View) -> &Verdict {
    let open: Vec<&Incident> = view.incidents.iter().collect();
    let sentences: Vec<&str> = open.iter().map(|i| i.verdict.sentence.as_str()).collect();
    assert_eq!(open.len(), 1, "{sentences:?} {:?}", view.investigations);
    &open[0].verdict
}

/// Runs three healthy rounds and four broken ones.
fn rounds(cluster: &mut Cluster, mut act: impl FnMut(&mut Cluster, i64, bool)) -> View {
    let mut last = None;
    for round in 0..7 {
        cluster.mesh(round);
        act(cluster, round, round >= 3);
        last = Some(cluster.close(round));
    }
    last.unwrap()
}
