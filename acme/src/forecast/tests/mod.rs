//! Forecasts: which evidence supports which outlook, and the whole path from Certificates to the published list.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parallax_api::forecasts::RenewalForecast;
use parallax_api_server::ApiServer;
use parallax_diagnosis::{
    plan::PlanConfig,
    topology::{Topology, TopologySpec},
    view::{VantageState, View},
};
use parallax_history::store::StoreHandle;
use parallax_kubernetes::{
    replicas::ReplicaState,
    topology_state::TopologyState,
    watch::{Key, WatchHealth},
};
use parallax_model::{Micros, ProbeSpec, Recorded, Vantage};
use parallax_preflight::{Certificate, Issuer, Meta, from_object};
use parallax_runs::{RunManager, RunMetrics, RunOptions};
use parallax_runtime::Clock;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    judge::{Evidence, forecast},
    subjects::RenewalSubjects,
    *,
};
use crate::cert_manager::{self, CertManagerKind, CertManagerState, ObjectStore, UnavailableReason};

const HOST: &str = "shop.example.test";
/// The ingress controller's address, and another controller's.
const RIGHT: &str = "203.0.113.10";
const WRONG: &str = "203.0.113.20";

fn topology() -> Topology {
    let service = |name: &str, address: &str, pod: &str| {
        json!({"namespace": "ingress", "name": name, "type": "LoadBalancer", "clusterIPs": [], "loadBalancer": [{"ip": address}],
               "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
               "endpoints": [{"pod": pod, "address": format!("10.244.1.{}", address.rsplit('.').next().unwrap()), "node": "n1"}]})
    };
    let empty = json!({"namespace": "ingress", "name": "empty", "type": "LoadBalancer", "clusterIPs": [],
        "loadBalancer": [{"ip": "203.0.113.30"}], "ports": [{"name": "http", "port": 80, "targetPort": 8080}], "endpoints": []});
    let spec: TopologySpec = serde_json::from_value(json!({
        "nodes": [{"name": "n1", "prober": {"pod": "prober-n1", "address": "10.244.1.5:9095"}}],
        "services": [service("nginx", RIGHT, "nginx-1"), service("other", WRONG, "other-1"),
                     service("nginx-internal", "203.0.113.11", "nginx-1"), empty],
        "published": [{"target": {"url": format!("http://{HOST}/")}, "service": "ingress/nginx", "port": 80, "class": "nginx"}],
        "vantages": ["internet:laptop"],
    }))
    .unwrap();
    Topology::try_from(spec).unwrap()
}

fn list(objects: &[Value]) -> Value {
    json!(objects)
}

fn object_store<T: serde::de::DeserializeOwned>(objects: &Value, meta: fn(&T) -> &Meta) -> ObjectStore<T> {
    let objects: Vec<T> = from_object(objects.clone()).unwrap();
    let keyed = objects.into_iter().map(|object| {
        let key = Key {
            namespace: meta(&object).namespace.clone(),
            name: meta(&object).name.clone(),
        };
        (key, Arc::new(object))
    });
    ObjectStore::Known {
        objects: Arc::new(keyed.collect()),
        stale: None,
    }
}

/// The state that results from cert-manager's objects.
fn state(certificates: &Value, issuers: &Value) -> CertManagerState {
    let mut state = CertManagerState::missing(&UnavailableReason::NotInstalled);
    state.certificates = object_store(certificates, |object: &Certificate| &object.metadata);
    state.issuers = object_store(&json!([]), |object: &Issuer| &object.metadata);
    state.cluster_issuers = object_store(issuers, |object: &Issuer| &object.metadata);
    state
}

fn subjects(certificates: &Value, issuers: &Value) -> RenewalSubjects {
    RenewalSubjects::from_state(&state(certificates, issuers))
}

fn certificate(name: &str, names: &[&str]) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name},
           "spec": {"dnsNames": names, "issuerRef": {"name": "le", "kind": "ClusterIssuer"}},
           "status": {"notAfter": "2027-01-20T00:00:00Z", "renewalTime": "2026-12-20T00:00:00Z"}})
}

fn issuer(server: &str, solver: &Value) -> Value {
    json!({"metadata": {"name": "le"}, "spec": {"acme": {"server": server, "solvers": [solver]}}})
}

const LE: &str = "https://acme-v02.api.letsencrypt.org/directory";

fn nginx() -> Value {
    json!({"http01": {"ingress": {"ingressClassName": "nginx"}}})
}

fn subject(server: &str, solver: &Value) -> subjects::RenewalSubject {
    let subjects = subjects(
        &list(&[certificate("web", &[HOST])]),
        &list(&[issuer(server, solver)]),
    );
    subjects.subjects.into_iter().next().unwrap()
}

fn names(a: &Value, caa: &str) -> Value {
    let record = |value: &str| json!({"records": [{"flags": 0, "tag": "issue", "value": value}]});
    let answer = if caa.is_empty() {
        json!("none")
    } else {
        record(caa)
    };
    json!({"views": [{"by": "own", "server": "192.0.2.1:53", "a": a, "aaaa": "none", "caa": "none"},
                     {"by": "public", "server": "192.0.2.2:53", "a": a, "aaaa": "none", "caa": "none"}],
           "caa": [{"name": HOST, "answer": "none"}, {"name": "example.test", "answer": answer}, {"name": "test", "answer": "none"}]})
}

fn answer(vantage: &str, outcome: &Value, address: &str) -> Value {
    let mut answer = json!({"vantage": vantage, "placement": "unknown",
        "sight": {"passes": 0, "addresses": [address], "dials": [{"address": format!("{address}:80")}]}});
    for (key, value) in outcome.as_object().unwrap() {
        answer[key] = value.clone();
    }
    if outcome["phase"] == "connect" {
        answer["sight"]["dials"][0]["failed"] = outcome["kind"].clone();
    }
    answer
}

fn found() -> Value {
    json!({"result": "ok", "status": 404})
}

fn failed(phase: &str, kind: &str) -> Value {
    json!({"result": "failed", "phase": phase, "kind": kind})
}

fn node_answer(value: &Value) -> parallax_preflight::VantageAnswer {
    let text = |field: &str| value[field].as_str().unwrap();
    parallax_preflight::VantageAnswer {
        vantage: text("vantage").parse().unwrap(),
        placement: parallax_model::Placement::Unknown,
        outcome: serde_json::from_value(value.clone()).unwrap(),
        sight: serde_json::from_value(value["sight"].clone()).unwrap(),
        total_duration: None,
    }
}

/// The evidence of one check: DNS facts from a node, the node's self check, and the CA's fetches.
fn evidence(facts: &Value, self_check: &[Value], ca: &[Value]) -> Evidence {
    Evidence {
        checked_at: parallax_model::EventTime(7),
        name_sights: vec![(
            "n1/pod".parse().unwrap(),
            serde_json::from_value(facts.clone()).unwrap(),
        )],
        resolvers: parallax_preflight::QueriedResolvers {
            public: true,
            authoritative: false,
        },
        self_check: self_check.iter().map(node_answer).collect(),
        ca: ca.iter().map(node_answer).collect(),
        not_checked_reason: None,
    }
}

fn here() -> Value {
    json!({"addresses": [RIGHT]})
}

fn sound() -> Evidence {
    evidence(
        &names(&here(), "letsencrypt.org"),
        &[answer("n1/pod", &found(), RIGHT)],
        &[
            answer("n1/pod", &found(), RIGHT),
            answer("internet:laptop", &found(), RIGHT),
        ],
    )
}

fn foreseen(evidence: &Evidence) -> RenewalForecast {
    forecast(&subject(LE, &nginx()), Some(evidence), &topology())
}

mod judged;
mod whole;
