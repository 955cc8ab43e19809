//! The whole aggregator with a fake API server: from cluster objects to plans, page and metrics.

use std::{
    fs,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parallax_model::PlanLine;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{common::Running, plan::Lines};
use parallax_api_server::ApiServer;

/// Timeout; reached only by a failing test.
const DEADLINE: Duration = Duration::from_mins(1);

const BARE_METAL: &str = include_str!("../../../kubernetes/src/discovery/fixtures/bare-metal.yaml");
const SHOP: &str = include_str!("../../../kubernetes/src/discovery/fixtures/shop.yaml");

async fn start() -> (ApiServer, Running) {
    of(SHOP).await
}

async fn of(objects: &str) -> (ApiServer, Running) {
    let server = ApiServer::start(&["gateways", "httproutes"]).await;
    server.apply(objects);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
    let config = "listen: 127.0.0.1:0\ntopology: {kubernetes: {kubeconfig: kubeconfig}}\n";
    fs::write(folder.path().join("parallax.yaml"), config).unwrap();
    let aggregator = Running::of(folder, None).await;
    // Each fixture has three probers (in the shop, one of them on the host network), known once the cluster is read.
    aggregator.views.wait_for(|view| view.vantages.len() == 3).await;
    (server, aggregator)
}

/// Reads until an assignment is added or changed.
async fn upsert(plan: &mut Lines, id: &str) {
    let read = async {
        loop {
            let line = plan.change().await.expect("the plan stream ended");
            if matches!(&line, PlanLine::Upsert { assignment, .. } if assignment.id.as_str() == id) {
                return;
            }
        }
    };
    timeout(DEADLINE, read)
        .await
        .expect("timed out waiting for the assignment");
}

/// Polls the state until it matches.
async fn state(aggregator: &Running, wanted: fn(&Value) -> bool) -> Value {
    let polling = async {
        loop {
            let state = aggregator.json("/v1/state").await;
            if wanted(&state) {
                return state;
            }
        }
    };
    timeout(DEADLINE, polling)
        .await
        .expect("timed out waiting for the expected state")
}

#[tokio::test]
async fn an_ingress_and_a_moved_endpoint_are_pushed_to_the_plan() {
    let (server, aggregator) = start().await;
    let mut plan = Lines::open(&aggregator, "n2/pod").await;
    let Some(PlanLine::Snapshot { assignments, .. }) = plan.change().await else {
        panic!("a plan begins with a snapshot");
    };
    let ids: Vec<&str> = assignments.iter().map(|a| a.id.as_str()).collect();
    assert!(ids.contains(&"vip|http://shop.example.test/"), "{ids:?}");
    assert!(ids.contains(&"mesh|n1"), "{ids:?}");

    let created = Instant::now();
    server.put(
        "ingresses",
        json!({"metadata": {"namespace": "shop", "name": "new"},
               "spec": {"ingressClassName": "public", "rules": [{"host": "new.example.test"}]}}),
    );
    upsert(&mut plan, "vip|http://new.example.test/").await;
    println!("planned {:?} after the Ingress", created.elapsed());

    let moved = Instant::now();
    server.put(
        "endpointslices",
        json!({"metadata": {"namespace": "ingress", "name": "nginx-1", "labels": {"kubernetes.io/service-name": "nginx"}},
               "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}, {"name": "https", "port": 8443}],
               "endpoints": [{"addresses": ["10.244.2.11"], "nodeName": "n2", "targetRef": {"kind": "Pod", "name": "nginx-c"}}]}),
    );
    upsert(&mut plan, "direct|http://shop.example.test/|nginx-c").await;
    println!("planned {:?} after the EndpointSlice", moved.elapsed());

    assert_eq!(
        aggregator.metric(r#"parallax_watch_up{resource="nodes"}"#).await,
        Some(1.0)
    );
    assert_eq!(
        aggregator
            .metric(r#"parallax_watch_objects{resource="ingresses"}"#)
            .await,
        Some(2.0)
    );
    assert_eq!(
        aggregator.metric("parallax_topology_age_seconds").await,
        Some(0.0)
    );
    drop(plan);
    aggregator.stop().await;
}

#[tokio::test]
async fn plans_are_served_from_known_state_while_the_api_server_is_unavailable() {
    let (mut server, aggregator) = start().await;
    let read = |state: &Value| state["topology_error"].is_null();
    state(&aggregator, read).await;
    server.stop_listening().await;
    let away = state(&aggregator, |state| !state["topology_error"].is_null()).await;
    assert!(
        away["targets"]
            .as_array()
            .unwrap()
            .contains(&json!("http://shop.example.test/"))
    );
    let page = aggregator.text("/").await;
    assert!(page.contains("Reading the topology has failed for"), "{page}");
    assert!(aggregator.metric("parallax_topology_age_seconds").await > Some(0.0));
    let mut plan = Lines::open(&aggregator, "n1/pod").await;
    assert!(
        matches!(plan.change().await, Some(PlanLine::Snapshot { assignments, .. }) if !assignments.is_empty())
    );
    drop(plan);
    server.listen_again().await;
    state(&aggregator, read).await;
    aggregator.stop().await;
}

#[tokio::test]
async fn an_invalid_annotation_is_reported_in_state_page_and_metric() {
    let (server, aggregator) = start().await;
    server.put(
        "ingresses",
        json!({"metadata": {"namespace": "shop", "name": "odd", "annotations": {"parallax.dev/expect": "<b>fine</b>"}},
               "spec": {"ingressClassName": "public", "rules": [{"host": "odd.example.test"}]}}),
    );
    let noted = state(&aggregator, |state| state["notes"] != json!([])).await;
    assert_eq!(noted["notes"][0]["object"], "Ingress shop/odd");
    assert!(
        noted["targets"]
            .as_array()
            .unwrap()
            .contains(&json!("http://odd.example.test/"))
    );
    let page = aggregator.text("/").await;
    assert!(
        page.contains("parallax.dev/expect: expected statuses") && !page.contains("<b>fine"),
        "{page}"
    );
    assert_eq!(aggregator.metric("parallax_topology_problems").await, Some(1.0));
    aggregator.stop().await;
}

/// Formats a report of one probe that connected to a node's address.
fn arrival(vantage: &str, front: &str, result: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    format!(
        r#"{{"v":1,"incarnation":"life-of-{vantage}","vantage":"{vantage}","sent_us":{now}}}
{{"seq":1,"t_us":{},"target":"http://shop.example.test/","channel":"vip","front":"{front}",{result},"times":{{"connect_us":900,"total_us":4200}}}}"#,
        now - 1_000
    )
}

#[tokio::test]
async fn where_a_name_leads_to_a_node_its_answers_are_placed_against_the_pod_that_listens_there() {
    let (server, aggregator) = of(BARE_METAL).await;
    let mut plan = Lines::open(&aggregator, "n3/pod").await;
    let Some(PlanLine::Snapshot { assignments, .. }) = plan.change().await else {
        panic!("a plan begins with a snapshot");
    };
    let ids: Vec<&str> = assignments.iter().map(|a| a.id.as_str()).collect();
    // The entry behind the node's address is probed like any other.
    for id in [
        "vip|https://shop.example.test/",
        "direct|https://shop.example.test/|nginx-1",
    ] {
        assert!(ids.contains(&id), "{id}: {ids:?}");
    }
    // Three DNS answers: the client's own node, another node, and a node without a listener.
    let ok = r#""result":"ok","status":200"#;
    for (vantage, front, placement) in [
        ("n1/pod", "192.0.2.1:80", "same-node"),
        ("n2/pod", "192.0.2.1:80", "no-local"),
        ("n3/pod", "192.0.2.3:80", "unknown"),
    ] {
        let sent = aggregator.report().body(arrival(vantage, front, ok)).send();
        assert!(sent.await.unwrap().status().is_success());
        let placed = async {
            loop {
                let state = aggregator.json("/v1/state").await;
                let vantages = state["vantages"].as_array().unwrap();
                let at = vantages.iter().position(|v| v["vantage"] == vantage).unwrap();
                let rows = state["matrix"].as_array().unwrap();
                let row = rows
                    .iter()
                    .find(|row| row["target"] == "http://shop.example.test/");
                let cells = row.unwrap()["cells"].as_array().unwrap();
                let cell = cells.iter().find(|cell| cell["vantage"] == at);
                if let Some(cell) = cell.filter(|cell| cell["probes"] == 1) {
                    return cell["placement"].clone();
                }
            }
        };
        let placed = timeout(DEADLINE, placed).await.expect("it is shown");
        assert_eq!(placed, placement, "{vantage} at {front}");
    }
    // The Pod of n1 moves and is found at its new node.
    server.put(
        "endpointslices",
        json!({"metadata": {"namespace": "ingress", "name": "nginx-1", "labels": {"kubernetes.io/service-name": "nginx"}},
               "addressType": "IPv4", "ports": [{"name": "web", "port": 80}, {"name": "tls", "port": 443}],
               "endpoints": [
                   {"addresses": ["192.0.2.2"], "nodeName": "n2", "targetRef": {"kind": "Pod", "name": "nginx-2"}},
                   {"addresses": ["192.0.2.3"], "nodeName": "n3", "targetRef": {"kind": "Pod", "name": "nginx-3"}}]}),
    );
    upsert(&mut plan, "direct|https://shop.example.test/|nginx-3").await;
    drop(plan);
    aggregator.stop().await;
}
