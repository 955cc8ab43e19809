//! A pending Challenge in a cluster is explained automatically from the probers' results, on page, API and metrics.

use std::{fs, time::Duration};

use parallax_model::{Channel, PlanLine, RunOrder};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{common::Running, plan::Lines};
use parallax_api_server::{ApiServer, Behaviour};

/// Timeout; reached only by a failing test.
const DEADLINE: Duration = Duration::from_mins(1);

const SHOP: &str = include_str!("../../../kubernetes/src/discovery/fixtures/shop.yaml");
const KEY: &str = "t0ken.thumbprint-of-the-account";

async fn start(server: &ApiServer) -> Running {
    server.apply(SHOP);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
    let config = "listen: 127.0.0.1:0\ntopology: {kubernetes: {kubeconfig: kubeconfig}}\nchallenges: {waitBefore: 1s, certManagerNamespace: certs}\n";
    fs::write(folder.path().join("parallax.yaml"), config).unwrap();
    let aggregator = Running::of(folder, None).await;
    aggregator.views.wait_for(|view| view.vantages.len() == 3).await;
    aggregator
}

fn challenge(reason: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "web-1-2-3", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"dnsName": "shop.example.test", "token": "t0ken", "key": KEY, "type": "HTTP-01",
                 "solver": {"http01": {"ingress": {"ingressClassName": "public"}}}, "issuerRef": {"name": "le"}},
        "status": {"state": "pending", "presented": true, "processing": true, "reason": reason},
    })
}

const REFUSED: &str = "Waiting for HTTP-01 challenge propagation: failed to perform self check GET request 'http://shop.example.test/.well-known/acme-challenge/t0ken': Get \"http://shop.example.test/.well-known/acme-challenge/t0ken\": dial tcp 203.0.113.10:80: connect: connection refused";

fn cert_manager_on(server: &ApiServer, node: &str) {
    let labels =
        json!({"app.kubernetes.io/component": "controller", "app.kubernetes.io/name": "cert-manager"});
    server.put("deployments", json!({"metadata": {"namespace": "certs", "name": "cert-manager", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{}]}}}}));
    server.put(
        "pods",
        json!({"metadata": {"namespace": "certs", "name": "cert-manager-1", "labels": labels},
        "spec": {"nodeName": node}, "status": {"phase": "Running"}}),
    );
}

async fn report(client: &Client, url: &str, vantage: &str, lines: &[String]) {
    let head = format!(r#"{{"v":1,"incarnation":"life-1","vantage":"{vantage}","sent_us":1000000}}"#);
    let sent = client
        .post(format!("{url}/v1/observations"))
        .header("content-type", "application/x-ndjson")
        .body(format!("{head}\n{}", lines.join("\n")))
        .send()
        .await;
    // The aggregator may have stopped in the meantime.
    if let Ok(answer) = sent {
        assert_eq!(answer.status(), 200);
    }
}

/// Simulates a prober on a node that executes every run; with `refused`, the front refuses its connections.
async fn prober(aggregator: &Running, node: &str, refused: bool) -> JoinHandle<()> {
    let vantage = format!("{node}/pod");
    let mut plan = Lines::open(aggregator, &vantage).await;
    let (client, url) = (aggregator.client.clone(), aggregator.url.clone());
    // The first report marks the vantage as reporting.
    let first = r#"{"seq":0,"t_us":900000,"target":"http://shop.example.test/","channel":"vip","front":"203.0.113.10:80","result":"ok","status":200}"#;
    report(&client, &url, &vantage, &[first.to_owned()]).await;
    tokio::spawn(async move {
        let mut seq = 0;
        while let Some(line) = plan.change().await {
            let PlanLine::Run { order } = line else { continue };
            let lines = answers(&order, refused, &mut seq);
            report(&client, &url, &vantage, &lines).await;
        }
    })
}

fn answers(order: &RunOrder, refused: bool, seq: &mut u64) -> Vec<String> {
    let mut lines = Vec::new();
    for round in 0..order.rounds {
        for assignment in &order.assignments {
            *seq += 1;
            let mut line = json!({"seq": *seq, "t_us": 900_000 + u64::from(round), "assignment": assignment.id,
                "target": assignment.target, "channel": assignment.channel});
            let answer = if assignment.channel == Channel::Vip && refused {
                json!({"front": "203.0.113.10:80", "result": "failed", "phase": "connect", "kind": "refused",
                    "challenge": {"passes": 0, "addresses": ["203.0.113.10"], "dials": [{"address": "203.0.113.10:80", "failed": "refused"}]}})
            } else {
                json!({"front": "203.0.113.10:80", "result": "ok", "status": 200,
                    "challenge": {"passes": 1, "addresses": ["203.0.113.10"], "dials": [{"address": "203.0.113.10:80"}]}})
            };
            let (Value::Object(line), Value::Object(mut answer)) = (&mut line, answer) else {
                unreachable!("both are objects")
            };
            if assignment.channel != Channel::Vip {
                answer.remove("challenge");
                answer.remove("front");
            }
            line.append(&mut answer);
            lines.push(Value::Object(line.clone()).to_string());
        }
    }
    lines
}

/// Polls the Challenges until they match.
async fn challenges(aggregator: &Running, wanted: impl Fn(&Value) -> bool) -> Value {
    let polling = async {
        loop {
            let found = aggregator.json("/v1/challenges").await;
            if wanted(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(DEADLINE, polling).await;
    found.expect("timed out waiting for the expected Challenges")
}

#[tokio::test]
async fn a_pending_challenge_is_explained_automatically() {
    let server = ApiServer::start(&["gateways", "httproutes"]).await;
    cert_manager_on(&server, "n2");
    let aggregator = start(&server).await;
    let probers = [
        prober(&aggregator, "n1", false).await,
        prober(&aggregator, "n2", true).await,
    ];
    let reports = |view: &parallax_diagnosis::view::View| {
        let reporting = parallax_diagnosis::view::VantageState::Reporting;
        view.vantages.iter().filter(|v| v.state == reporting).count() == 2
    };
    aggregator.views.wait_for(reports).await;
    server.put("challenges", challenge(REFUSED));

    let found = challenges(&aggregator, |found| {
        found["challenges"][0]["explanation"].is_object()
    })
    .await;
    let one = &found["challenges"][0];
    assert_eq!(
        (&one["namespace"], &one["name"]),
        (&json!("shop"), &json!("web-1-2-3"))
    );
    assert_eq!(one["reason"], REFUSED);
    let explanation = &one["explanation"];
    let check = &explanation["self_check"];
    assert_eq!(check["state"], "failed", "{one:#}");
    assert_eq!(check["passing"], json!(["n1/pod"]));
    assert_eq!(check["failing"][0]["vantages"], json!(["n2/pod"]));
    let sentence = check["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("cert-manager's Pod runs on n2, where the check fails"),
        "{sentence}"
    );
    assert_eq!(
        explanation["placement"][0],
        "cert-manager's Pod is cert-manager-1 on n2 (the only one)"
    );
    // Only this node cannot use the address, so its Service rules are stale; the other probes confirm it.
    assert_eq!(
        (&one["causes"][0]["id"], &one["causes"][0]["diagnosed"]),
        (&json!("F24"), &json!(true)),
        "{one:#}"
    );
    let hint = explanation["wait_instead_of_self_check"].as_str().unwrap();
    assert!(
        hint.contains("there is no evidence that the CA gets through"),
        "{hint}"
    );
    let remedied = explanation["remedies"]
        .as_array()
        .is_some_and(|all| !all.is_empty())
        || explanation["incident"].is_string();
    assert!(remedied, "{one:#}");

    let page = aggregator.text("/").await;
    assert!(
        page.contains("Pending ACME challenges") && page.contains("shop/web-1-2-3"),
        "{page}"
    );
    assert_eq!(
        aggregator
            .metric(r#"parallax_challenges_waiting{cause="F24"}"#)
            .await,
        Some(1.0)
    );
    for path in ["/v1/challenges", "/v1/runs", "/v1/state", "/"] {
        assert!(
            !aggregator.text(path).await.contains("thumbprint"),
            "{path} shows the key"
        );
    }

    server.delete("challenges", "shop", "web-1-2-3");
    challenges(&aggregator, |found| found["challenges"] == json!([])).await;
    assert!(!aggregator.text("/").await.contains("Pending ACME challenges"));
    for prober in probers {
        prober.abort();
    }
    aggregator.stop().await;
}

#[tokio::test]
async fn missing_cert_manager_or_permission_is_reported_without_side_effects() {
    let kinds = [
        "gateways",
        "httproutes",
        "certificates",
        "issuers",
        "clusterissuers",
        "challenges",
    ];
    let server = ApiServer::start(&kinds).await;
    let aggregator = start(&server).await;
    let found = challenges(&aggregator, |found| {
        found["unknown_because"]
            .as_str()
            .is_some_and(|reason| reason.contains("not installed"))
    })
    .await;
    assert_eq!(found["challenges"], json!([]));
    assert!(aggregator.json("/v1/state").await["topology_error"].is_null());
    aggregator.stop().await;

    let server = ApiServer::start(&kinds[..2]).await;
    server.set_behaviour("challenges", Behaviour::Status(403));
    let aggregator = start(&server).await;
    let rule = "{apiGroups: [acme.cert-manager.io], resources: [challenges], verbs: [list, watch]}";
    challenges(&aggregator, |found| {
        found["unknown_because"]
            .as_str()
            .is_some_and(|reason| reason.contains(rule))
    })
    .await;
    assert!(aggregator.json("/v1/state").await["topology_error"].is_null());
    assert_eq!(aggregator.get("/readyz").send().await.unwrap().status(), 200);
    aggregator.stop().await;
}
