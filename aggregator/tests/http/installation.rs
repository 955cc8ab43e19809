//! The facts about the installation.

use parallax_diagnosis::view::{VantageState, View};
use serde_json::{Value, json};

use crate::common::{HEADER, Running};

/// Returns the vantage with this name.
fn prober<'a>(facts: &'a Value, vantage: &str) -> &'a Value {
    let probers = facts["probers"].as_array().unwrap();
    probers
        .iter()
        .find(|prober| prober["vantage"] == vantage)
        .unwrap()
}

#[tokio::test]
async fn plans_reports_echoes_and_scrapes_become_facts() {
    let aggregator = Running::start().await;
    let facts = aggregator.json("/v1/installation").await;
    assert_eq!(facts["in_cluster"], false);
    assert_eq!(facts["ca_publication"], json!({"state": "disabled"}));
    assert_eq!(facts["last_scrape"], Value::Null);
    assert_eq!(prober(&facts, "n1/pod")["state"], "waiting");
    assert_eq!(prober(&facts, "n1/pod")["plan"], Value::Null);
    assert_eq!(
        facts["nodes"][0],
        json!({"name": "n1", "prober_pod": "prober-n1"})
    );
    let unseen = json!([{}]);
    assert_eq!(facts["zone_echoes"], unseen, "one pair: no zone to no zone");

    let mut plan = aggregator.get("/v1/plan?vantage=n1/pod").send().await.unwrap();
    let first = String::from_utf8(plan.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    let snapshot: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    let planned = snapshot["assignments"].as_array().unwrap().len();
    let echo =
        r#"{"seq":1,"t_us":900001,"target":"echo://n2","channel":"mesh","dst_node":"n2","result":"ok"}"#;
    let header = HEADER.replace("\"sent_us\"", "\"assignments\":3,\"sent_us\"");
    assert!(aggregator.send(&[&header, echo]).await.status().is_success());
    let reports = |view: &View| {
        let mut vantages = view.vantages.iter();
        vantages.any(|vantage| vantage.state == VantageState::Reporting)
    };
    aggregator.views.wait_for(reports).await;
    let scrape = aggregator
        .get("/metrics")
        .header("user-agent", "Prometheus/3.1.0");
    assert!(scrape.send().await.unwrap().status().is_success());

    let facts = aggregator.json("/v1/installation").await;
    let reported = prober(&facts, "n1/pod");
    assert_eq!(
        reported["plan"],
        json!({"is_current": true, "assignments": planned})
    );
    assert_eq!(
        (&reported["state"], &reported["assignments"]),
        (&json!("reporting"), &json!(3))
    );
    assert!(facts["zone_echoes"][0]["last_reached"].is_i64(), "{facts}");
    assert_eq!(facts["last_scrape"]["client"], "Prometheus/3.1.0");
    drop(plan);
    aggregator.stop().await;
}

#[tokio::test]
async fn a_responder_has_no_plan_to_follow() {
    let aggregator = Running::start().await;
    let mut plan = aggregator
        .get("/v1/plan?vantage=n1/pod&role=responder")
        .send()
        .await
        .unwrap();
    plan.chunk().await.unwrap().unwrap();
    let facts = aggregator.json("/v1/installation").await;
    assert_eq!(prober(&facts, "n1/pod")["plan"], Value::Null);
    drop(plan);
    aggregator.stop().await;
}
