//! Node facts over HTTP: from a report to a hazard, and fact requests in the plan stream.

use parallax_model::PlanLine;
use serde_json::{Value, json};

use crate::common::{HEADER, Running, TOPOLOGY, observation};

fn header(vantage: &str, facts: &Value) -> String {
    let header: Value = serde_json::from_str(HEADER).unwrap();
    let mut header = header.as_object().unwrap().clone();
    header.insert("vantage".to_owned(), json!(vantage));
    header.insert("facts".to_owned(), facts.clone());
    Value::Object(header).to_string()
}

#[tokio::test]
async fn reported_facts_become_hazards_and_configured_facts_win() {
    let running = Running::start().await;
    let topology = TOPOLOGY.replace("{name: n2, ", "{name: n2, facts: {conntrackPercent: 10}, ");
    running.replace_topology(&topology);
    let full = json!({"conntrack": {"count": 97, "max": 100}, "of_a_newer_prober": 1});
    for vantage in ["n1/pod", "n2/pod"] {
        let sent = running.send(&[&header(vantage, &full), &observation(1)]).await;
        assert!(sent.status().is_success());
    }
    let conntrack = |view: &parallax_diagnosis::view::View| {
        view.hazards
            .iter()
            .find(|hazard| hazard.kind.label() == "conntrack")
            .cloned()
    };
    // The configured fact of n2 may be read shortly after the reports arrive.
    let view = running
        .views
        .wait_for(|view| conntrack(view).is_some_and(|hazard| hazard.affected.nodes.len() == 1))
        .await;
    let hazard = conntrack(&view).unwrap();
    assert_eq!(hazard.evidence, ["the conntrack table of n1 is 95 % full"]);
    running.stop().await;
}

#[tokio::test]
async fn a_pod_prober_gets_fact_requests_if_its_node_address_is_known() {
    let running = Running::start().await;
    let topology = TOPOLOGY
        .replace("{name: n2, ", "{name: n2, addresses: [192.0.2.12], ")
        .replace(
            "    externalTrafficPolicy: Local\n",
            "    externalTrafficPolicy: Local\n    healthCheckNodePort: 30123\n",
        );
    running.replace_topology(&topology);
    let mut stream = running.get("/v1/plan?vantage=n2/pod").send().await.unwrap();
    let mut text = String::new();
    let fact_questions = loop {
        let chunk = stream.chunk().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        let found = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .find_map(|line| match line {
                PlanLine::Facts { request } => Some(request),
                _ => None,
            });
        if let Some(questions) = found {
            break questions;
        }
    };
    assert_eq!(fact_questions.healthz, Some("192.0.2.12:10256".parse().unwrap()));
    assert_eq!(
        fact_questions.health_checks,
        ["192.0.2.12:30123".parse().unwrap()]
    );
    drop(stream);
    running.stop().await;
}
