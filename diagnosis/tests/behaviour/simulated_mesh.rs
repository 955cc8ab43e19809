//! A small simulated mesh: every node probes every host, endpoint and peer once per round.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use std::{collections::BTreeMap, sync::Arc};

use parallax_diagnosis::{
    Engine, Settings,
    topology::{Topology, TopologySpec},
    view::View,
};
use parallax_model::{EventTime, Micros, Recorded, Vantage};
use serde_json::{Value, json};

/// One probe to be made.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) client: String,
    pub(crate) channel: &'static str,
    pub(crate) target: String,
    pub(crate) front: Option<String>,
    /// The dialled endpoint, or the one that the address selects.
    pub(crate) entry: Option<String>,
    /// The destination node.
    pub(crate) node: Option<String>,
    pub(crate) at_us: i64,
}

/// Returns the failure of a probe as phase and kind, or `None`.
pub(crate) type Fault<'a> = dyn Fn(&Probe) -> Option<(&'static str, &'static str)> + 'a;

pub(crate) struct SimulatedMesh {
    pub(crate) engine: Engine,
    pub(crate) topology: Arc<Topology>,
    pub(crate) spec: Value,
    seq: BTreeMap<String, u64>,
    pub(crate) observed: Vec<Recorded>,
    /// TTL of replies to pings of the balancer address, by client.
    pub(crate) ttl: BTreeMap<String, u8>,
    /// Duration of the TCP handshake.
    pub(crate) connect_us: fn(&Probe) -> u64,
    /// Delay of the probe's start.
    pub(crate) lateness_us: fn(&Probe) -> u64,
    /// Clients whose reports do not arrive.
    pub(crate) silent: Vec<&'static str>,
}

pub(crate) const INTERVAL: i64 = 5_000_000;

pub(crate) fn topology(spec: &Value) -> Arc<Topology> {
    let spec: TopologySpec = serde_json::from_value(spec.clone()).unwrap();
    Arc::new(Topology::try_from(spec).unwrap())
}

/// A cluster of `nodes` nodes with one ingress Service, its Pods on the given nodes, and hosts behind it.
pub(crate) fn cluster(nodes: usize, ingress_on: &[usize], hosts: usize, policy: &str) -> Value {
    json!({
        "platform": "kubernetes",
        "proxyMode": "ipvs",
        "nodes": (1..=nodes).map(|i| json!({"name": format!("n{i}"), "zone": format!("z{}", i % 2),
            "prober": {"pod": format!("prober-n{i}"), "address": format!("10.244.{i}.5:9095")}})).collect::<Vec<_>>(),
        "services": [{
            "namespace": "ingress", "name": "nginx", "type": "LoadBalancer",
            "clusterIPs": ["10.96.0.50"], "loadBalancer": [{"ip": "203.0.113.10"}],
            "externalTrafficPolicy": policy,
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": ingress_on.iter().map(|i| json!({"pod": format!("ingress-{i}"),
                "address": format!("10.244.{i}.10"), "node": format!("n{i}")})).collect::<Vec<_>>(),
        }],
        "ingresses": [{"namespace": "shop", "name": "shop", "service": "ingress/nginx",
            "hosts": (0..hosts).map(|i| format!("h{i}.example.test")).collect::<Vec<_>>()}],
    })
}

fn vantage(client: &str) -> String {
    if client.contains(':') {
        client.to_owned()
    } else {
        format!("{client}/pod")
    }
}

impl SimulatedMesh {
    pub(crate) fn new(spec: Value) -> Self {
        let topology = topology(&spec);
        let settings = Settings {
            interval: Micros(5_000_000),
            timeout: Micros::from_secs(3),
        };
        Self {
            engine: Engine::new(settings, Arc::clone(&topology)),
            topology,
            spec,
            seq: BTreeMap::new(),
            observed: Vec::new(),
            ttl: BTreeMap::new(),
            connect_us: |_| 400,
            lateness_us: |_| 0,
            silent: Vec::new(),
        }
    }

    pub(crate) fn change(&mut self, spec: Value, at_us: i64) {
        self.topology = topology(&spec);
        self.spec = spec;
        self.engine
            .replace_topology(Arc::clone(&self.topology), EventTime(at_us));
    }

    fn list(&self, path: &str) -> Vec<Value> {
        self.spec
            .pointer(path)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns all probes of a round in the order of their start.
    pub(crate) fn probes(&self, round: i64) -> Vec<Probe> {
        let text = |v: &Value, key: &str| v[key].as_str().unwrap().to_owned();
        let nodes: Vec<String> = self
            .list("/nodes")
            .iter()
            .filter(|n| n.get("prober").is_some())
            .map(|n| text(n, "name"))
            .collect();
        let endpoints = self.list("/services/0/endpoints");
        let hosts: Vec<String> = self
            .list("/ingresses/0/hosts")
            .iter()
            .map(|h| format!("http://{}/", h.as_str().unwrap()))
            .collect();
        let mut probes = Vec::new();
        for (c, client) in nodes.iter().enumerate() {
            let mut at_us = round * INTERVAL + i64::try_from(c).unwrap() * 300_000;
            let mut add =
                |channel, target: &str, front: Option<&str>, entry: Option<&Value>, node: Option<&str>| {
                    at_us += 10_000;
                    probes.push(Probe {
                        client: client.clone(),
                        channel,
                        target: target.to_owned(),
                        front: front.map(ToOwned::to_owned),
                        entry: entry.map(|e| text(e, "pod")),
                        node: node
                            .map(ToOwned::to_owned)
                            .or_else(|| entry.map(|e| text(e, "node"))),
                        at_us,
                    });
                };
            let pick = |i: usize| {
                let local: Vec<_> = endpoints
                    .iter()
                    .filter(|e| e["node"] == client.as_str())
                    .collect();
                if local.is_empty() {
                    let all: Vec<_> = endpoints.iter().collect();
                    (!all.is_empty()).then(|| all[(i + c) % all.len()])
                } else {
                    Some(local[0])
                }
            };
            let turn = usize::try_from(round).unwrap();
            for host in &hosts {
                add("vip", host, Some("203.0.113.10:80"), pick(turn), None);
            }
            add(
                "vip",
                "http://10.96.0.50:80/",
                Some("10.96.0.50:80"),
                pick(turn),
                None,
            );
            for host in hosts.iter().take(2) {
                for endpoint in &endpoints {
                    add("direct", host, None, Some(endpoint), None);
                }
            }
            for peer in nodes.iter().filter(|n| *n != client) {
                add("mesh", &format!("echo://{peer}"), None, None, Some(peer));
            }
        }
        for (c, outside) in self.list("/vantages").iter().enumerate() {
            for (h, host) in hosts.iter().enumerate() {
                let offset = 10_000 * i64::try_from(c * hosts.len() + h).unwrap();
                probes.push(Probe {
                    client: outside.as_str().unwrap().to_owned(),
                    channel: "vip",
                    target: host.clone(),
                    front: Some("203.0.113.10:80".to_owned()),
                    entry: None,
                    node: None,
                    at_us: round * INTERVAL + 3_000_000 + offset,
                });
            }
        }
        probes
    }

    pub(crate) fn record(&mut self, probe: &Probe, fault: &Fault<'_>) -> Recorded {
        let seq = self.seq.entry(probe.client.clone()).or_default();
        *seq += 1;
        let mut line = json!({
            "vantage": vantage(&probe.client), "incarnation": format!("{}-1", probe.client.replace(':', "-")),
            "seq": *seq, "t_us": probe.at_us, "target": probe.target, "channel": probe.channel,
        });
        if let Some(front) = &probe.front {
            line["front"] = json!(front);
        }
        if probe.channel == "direct" {
            line["entry"] = json!(probe.entry);
        }
        if probe.channel == "mesh" {
            line["dst_node"] = json!(probe.node);
        }
        if probe.front.as_deref() == Some("203.0.113.10:80")
            && let Some(ttl) = self.ttl.get(&probe.client)
        {
            line["ttl"] = json!({"address": "203.0.113.10", "ttl": ttl});
        }
        match fault(probe) {
            None => {
                line["result"] = json!("ok");
                line["status"] = json!(200);
                line["times"] =
                    json!({"connect_us": (self.connect_us)(probe), "late_us": (self.lateness_us)(probe)});
            }
            Some((phase, kind)) => {
                line["result"] = json!("failed");
                line["phase"] = json!(phase);
                line["kind"] = json!(kind);
                if kind == "status" {
                    line["status"] = json!(503);
                }
            }
        }
        serde_json::from_value(line).unwrap()
    }

    /// Observes all probes of a round and closes it.
    pub(crate) fn round(&mut self, round: i64, fault: &Fault<'_>) -> View {
        for probe in self.probes(round) {
            if self.silent.contains(&probe.client.as_str()) {
                continue;
            }
            let recorded = self.record(&probe, fault);
            self.engine.observe(&recorded);
            self.observed.push(recorded);
        }
        self.finish(round)
    }

    /// All vantages report the round as complete; half a second later it is judged.
    pub(crate) fn finish(&mut self, round: i64) -> View {
        let end = EventTime((round + 1) * INTERVAL);
        let nodes = self.list("/nodes");
        let inside = nodes.iter().map(|node| node["name"].as_str().unwrap());
        let outside = self.list("/vantages");
        let all = inside.chain(outside.iter().map(|name| name.as_str().unwrap()));
        for name in all.filter(|name| !self.silent.contains(name)) {
            let vantage: Vantage = vantage(name).parse().unwrap();
            self.engine.record_progress(&vantage, end);
        }
        let now = end.shifted(500_000);
        self.engine.advance(now);
        self.engine.view(now)
    }
}

/// Incident I1: nodes without an ingress Pod refuse their own connections to the balancer address.
pub(crate) fn refused_without_local<'a>(
    local: &'a [&'a str],
) -> impl Fn(&Probe) -> Option<(&'static str, &'static str)> + 'a {
    move |probe| {
        let hit =
            probe.front.as_deref() == Some("203.0.113.10:80") && !local.contains(&probe.client.as_str());
        hit.then_some(("connect", "refused"))
    }
}
