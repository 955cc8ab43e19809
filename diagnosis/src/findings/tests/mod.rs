//! Findings and hazards as the engine shows them, on clusters built from data.

mod answers;
mod any;
mod exposure;
mod hazards;
mod machines;
mod silence;

use std::sync::Arc;

use parallax_model::{EventTime, Micros, Recorded, Vantage};
use serde_json::{Value, json};

use crate::{
    Engine, Settings,
    topology::{Topology, TopologySpec},
    view::View,
};

pub(super) const INTERVAL: i64 = 5_000_000;

pub(super) fn topology(spec: &Value) -> Arc<Topology> {
    let spec: TopologySpec = serde_json::from_value(spec.clone()).unwrap();
    Arc::new(Topology::try_from(spec).unwrap())
}

/// Three nodes, an internal ingress Service and the cluster's resolver.
pub(super) fn cluster() -> Value {
    json!({
        "proxyMode": "iptables",
        "nodes": (1..=3).map(|i| json!({"name": format!("n{i}"), "addresses": [format!("192.168.0.{i}")],
            "prober": {"pod": format!("prober-n{i}"), "address": format!("10.244.{i}.5:9095")}})).collect::<Vec<_>>(),
        "services": [
            {"namespace": "ingress", "name": "nginx", "type": "LoadBalancer",
             "clusterIPs": ["10.96.0.50"], "loadBalancer": [{"ip": "203.0.113.10"}],
             "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
             "endpoints": [{"pod": "ingress-1", "address": "10.244.1.10", "node": "n1"},
                           {"pod": "ingress-2", "address": "10.244.2.10", "node": "n2"}]},
            {"namespace": "shop", "name": "other", "clusterIPs": ["10.96.0.60"],
             "ports": [{"port": 80, "targetPort": 8080}],
             "endpoints": [{"pod": "other-1", "address": "10.244.3.10", "node": "n3"}]},
            {"namespace": "kube-system", "name": "kube-dns", "clusterIPs": ["10.96.0.10"],
             "ports": [{"port": 53, "targetPort": 53}], "endpoints": []},
        ],
        "ingresses": [{"namespace": "shop", "name": "shop", "service": "ingress/nginx",
            "hosts": ["a.example.test", "b.example.test", "c.example.test"]}],
        "targets": [{"url": "dns://a.example.test", "resolver": "198.51.100.1:53"},
                    {"url": "dns://db.example.test"}],
        "resolvers": {"public": ["198.51.100.1"]},
    })
}

pub(super) struct FindingsFixture {
    pub(super) engine: Engine,
    topology: Arc<Topology>,
    seq: u64,
}

impl FindingsFixture {
    pub(super) fn new(spec: &Value) -> Self {
        let topology = topology(spec);
        let settings = Settings {
            interval: Micros(5_000_000),
            timeout: Micros::from_secs(3),
        };
        Self {
            engine: Engine::new(settings, Arc::clone(&topology)),
            topology,
            seq: 0,
        }
    }

    pub(super) fn change(&mut self, spec: &Value, round: i64) {
        self.topology = topology(spec);
        self.engine
            .replace_topology(Arc::clone(&self.topology), EventTime(round * INTERVAL));
    }

    pub(super) fn record(&mut self, round: i64, vantage: &str, mut line: Value) -> Recorded {
        self.seq += 1;
        line["seq"] = json!(self.seq);
        line["vantage"] = json!(vantage);
        line["incarnation"] = json!(format!("{}-1", vantage.replace(['/', ':'], "-")));
        if line.get("t_us").is_none() {
            line["t_us"] = json!(round * INTERVAL + 1_000);
        }
        serde_json::from_value(line).unwrap()
    }

    pub(super) fn observe(&mut self, round: i64, vantage: &str, line: Value) {
        let recorded = self.record(round, vantage, line);
        self.engine.observe(&recorded);
    }

    /// Records a resolver's answer to a vantage; without addresses, the name does not exist.
    pub(super) fn tell(&mut self, round: i64, vantage: &str, name: &str, resolver: &str, addresses: &[&str]) {
        self.observe(round, vantage, told(name, resolver, addresses));
    }

    /// Closes a round and everything before it.
    pub(super) fn close(&mut self, round: i64) -> View {
        let now = EventTime((round + 1) * INTERVAL + 4_000_001);
        self.engine.advance(now);
        self.engine.view(now)
    }
}

pub(super) fn told(name: &str, resolver: &str, addresses: &[&str]) -> Value {
    let target = match (name, resolver) {
        ("db.example.test", _) => "dns://db.example.test".to_owned(),
        (_, "198.51.100.1:53") => format!("dns://{name}#@198.51.100.1:53"),
        _ => format!("http://{name}/"),
    };
    let dns = json!({"resolver": resolver, "name": format!("{name}."), "addresses": addresses, "ttl_s": 30});
    let channel = if target.starts_with("dns") { "dns" } else { "vip" };
    if addresses.is_empty() {
        json!({"target": target, "channel": channel, "result": "failed", "phase": "resolve", "kind": "nxdomain",
            "dns": dns})
    } else {
        let mut line = json!({"target": target, "channel": channel, "result": "ok", "dns": dns,
            "times": {"resolve_us": 300}});
        if channel == "vip" {
            line["front"] = json!(format!("{}:80", addresses[0]));
        }
        line
    }
}

pub(super) fn kinds(view: &View) -> Vec<&'static str> {
    view.findings.iter().map(|finding| finding.kind.label()).collect()
}

pub(super) fn vantages(names: &[&str]) -> Vec<Vantage> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}
