//! Target and Run objects with a fake API server: what is probed, and the status of the objects.

use std::{fs, time::Duration};

use kube::{Client, Config as Access, config::KubeConfigOptions};
use parallax_aggregator::Config;
use serde_json::{Value, json};

use crate::common::{HEADER, Running, TOPOLOGY, client, observation};
use parallax_api_server::{ApiServer, Behaviour};

/// Timeout; reached only by a failing test.
const DEADLINE: Duration = Duration::from_mins(1);

async fn start(server: &ApiServer) -> Running {
    replica(server, None).await
}

/// Starts an aggregator; with a name, as one of several replicas.
async fn replica(server: &ApiServer, name: Option<&str>) -> Running {
    let several = name.map_or(
        "",
        |_| "replicas: {lease: parallax/parallax-aggregator, leaseSeconds: 1}\n",
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("topology.yaml"), TOPOLOGY).unwrap();
    let path = folder.path().join("parallax.yaml");
    fs::write(
        &path,
        format!("listen: 127.0.0.1:0\ntopology: topology.yaml\ncustomResources: true\n{several}"),
    )
    .unwrap();
    client();
    let access = kube::config::Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
    let access = Access::from_custom_kubeconfig(access, &KubeConfigOptions::default())
        .await
        .unwrap();
    let config = Config::load(&path)
        .unwrap()
        .with_client(Client::try_from(access).unwrap())
        .as_replica(name.map(ToOwned::to_owned), None);
    Running::configured(folder, config).await
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table of objects")]
fn put(server: &ApiServer, plural: &str, name: &str, spec: Value) {
    let kind = if plural == "runs" { "Run" } else { "Target" };
    server.put(
        plural,
        json!({"apiVersion": "parallax.dev/v1alpha1", "kind": kind, "spec": spec,
               "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "generation": 1,
                            "creationTimestamp": "2026-11-21T20:00:00Z"}}),
    );
}

/// Waits until an object has a condition with a status, and returns the condition.
async fn condition(server: &ApiServer, plural: &str, name: &str, sort: &str, status: &str) -> Value {
    let wait = async {
        loop {
            let object = server.get(plural, "shop", name).unwrap();
            let found = object["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|condition| condition["type"] == sort && condition["status"] == status);
            if let Some(found) = found {
                return found.clone();
            }
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| {
        panic!(
            "{name} is never {sort}={status}: {:?}",
            server.get(plural, "shop", name)
        )
    })
}

#[tokio::test]
async fn targets_are_probed_within_scope_or_rejected_with_a_reason() {
    let server = ApiServer::start(&[]).await;
    put(
        &server,
        "targets",
        "pay",
        json!({"url": "https://pay.example.test/", "expectStatus": "2xx"}),
    );
    put(
        &server,
        "targets",
        "typo",
        json!({"url": "https://pay.example.test/", "expectStatus": "fine"}),
    );
    put(
        &server,
        "targets",
        "metadata",
        json!({"url": "http://169.254.169.254/"}),
    );
    let aggregator = start(&server).await;
    let accepted = condition(&server, "targets", "pay", "Accepted", "True").await;
    assert_eq!(
        (&accepted["reason"], &accepted["observedGeneration"]),
        (&json!("Probed"), &json!(1))
    );
    let refused = condition(&server, "targets", "typo", "Accepted", "False").await;
    assert_eq!(refused["reason"], "Invalid");
    let refused = condition(&server, "targets", "metadata", "Accepted", "False").await;
    assert_eq!(refused["reason"], "Forbidden");
    let mut plan = aggregator.get("/v1/plan?vantage=n1/pod").send().await.unwrap();
    let snapshot: Value = serde_json::from_slice(&plan.chunk().await.unwrap().unwrap()).unwrap();
    let assignments = snapshot["assignments"].as_array().unwrap();
    let pay = assignments
        .iter()
        .find(|a| a["target"] == "https://pay.example.test/")
        .unwrap();
    assert_eq!(
        pay["probe"]["scope"],
        json!({"refuse": ["10.96.0.50/32"]}),
        "the scope excludes addresses local to the prober's machine and the Services of other namespaces"
    );
    let own = assignments
        .iter()
        .find(|a| a["target"] == "http://a.example.test/")
        .unwrap();
    assert!(
        own["probe"].get("scope").is_none(),
        "targets of the configuration are not restricted"
    );
    // A changed object replaces its target, a deleted object removes it.
    put(
        &server,
        "targets",
        "typo",
        json!({"url": "https://other.example.test/"}),
    );
    condition(&server, "targets", "typo", "Accepted", "True").await;
    server.delete("targets", "shop", "pay");
    let gone = async {
        loop {
            let state = aggregator.json("/v1/state").await;
            let targets = state["targets"].as_array().unwrap();
            if !targets.contains(&json!("https://pay.example.test/")) {
                assert!(targets.contains(&json!("https://other.example.test/")));
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    drop(plan);
    aggregator.stop().await;
}

#[tokio::test]
async fn a_run_object_gets_its_result_and_is_deleted_after_its_ttl() {
    let server = ApiServer::start(&[]).await;
    let aggregator = start(&server).await;
    // The run waits for a vantage that can make it.
    let spec =
        json!({"url": "http://a.example.test/", "rounds": 1, "timeoutMs": 50, "ttlSecondsAfterFinished": 2});
    put(&server, "runs", "ask", spec);
    let waits = condition(&server, "runs", "ask", "Accepted", "Unknown").await;
    assert_eq!(waits["reason"], "NoReportingVantage", "{waits}");
    assert!(
        waits["message"]
            .as_str()
            .unwrap()
            .contains("no vantage of all reports"),
        "{waits}"
    );
    put(
        &server,
        "runs",
        "wrong",
        json!({"url": "http://elsewhere.example.test/"}),
    );
    let refused = condition(&server, "runs", "wrong", "Accepted", "False").await;
    assert_eq!(refused["reason"], "Forbidden");
    condition(&server, "runs", "wrong", "Complete", "True").await;
    aggregator.send(&[HEADER, &observation(0)]).await;
    condition(&server, "runs", "ask", "Accepted", "True").await;
    // The network between the nodes can be probed as well.
    put(
        &server,
        "runs",
        "mesh",
        json!({"url": "mesh", "rounds": 1, "timeoutMs": 50}),
    );
    condition(&server, "runs", "mesh", "Accepted", "True").await;
    condition(&server, "runs", "mesh", "Passed", "Unknown").await;
    assert_eq!(
        aggregator.metric("parallax_runs_total{result=\"refused\"}").await,
        Some(1.0)
    );
    // No prober responds: the run completes with an unknown outcome.
    condition(&server, "runs", "ask", "Complete", "True").await;
    let status = server.get("runs", "shop", "ask").unwrap()["status"].clone();
    let of = |sort: &str| {
        let all = status["conditions"].as_array().unwrap();
        all.iter()
            .find(|condition| condition["type"] == sort)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&of("Complete")["status"], &of("Passed")["status"]),
        (&json!("True"), &json!("Unknown"))
    );
    assert_eq!(status["results"][0]["vantage"], "n1/pod");
    let gone = async {
        while server.get("runs", "shop", "ask").is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    assert!(
        server.get("runs", "shop", "wrong").is_some(),
        "an object without a TTL is kept"
    );
    aggregator.stop().await;
}

#[tokio::test]
async fn what_cannot_be_written_of_an_object_is_written_as_soon_as_it_can() {
    let server = ApiServer::start(&[]).await;
    let aggregator = start(&server).await;
    aggregator.send(&[HEADER, &observation(0)]).await;
    // Both watches work: one object of each kind gets its status.
    put(
        &server,
        "targets",
        "first",
        json!({"url": "https://a.example.test/"}),
    );
    condition(&server, "targets", "first", "Accepted", "True").await;
    put(
        &server,
        "runs",
        "first",
        json!({"url": "http://elsewhere.example.test/"}),
    );
    condition(&server, "runs", "first", "Complete", "True").await;

    for plural in ["targets", "runs"] {
        server.set_behaviour(plural, Behaviour::Status(500));
    }
    put(
        &server,
        "targets",
        "later",
        json!({"url": "https://b.example.test/"}),
    );
    put(
        &server,
        "runs",
        "refused",
        json!({"url": "http://elsewhere.example.test/"}),
    );
    let spec = json!({"url": "http://a.example.test/", "rounds": 1, "timeoutMs": 50});
    put(&server, "runs", "judged", spec);
    let tried = async {
        // Writes that fail: start and end of the run, rejection of the other run, and the target.
        let judged = async || {
            let runs = aggregator.json("/v1/runs").await;
            let all = runs["runs"].as_array().unwrap();
            all.iter().any(|run| run["outcome"].is_string())
        };
        while !judged().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (runs, targets) = (server.rejected_writes("runs"), server.rejected_writes("targets"));
        while server.rejected_writes("runs") < runs + 4 || server.rejected_writes("targets") < targets.max(1)
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, tried).await.unwrap();
    for plural in ["targets", "runs"] {
        server.set_behaviour(plural, Behaviour::Normal);
    }
    condition(&server, "targets", "later", "Accepted", "True").await;
    condition(&server, "runs", "refused", "Complete", "True").await;
    condition(&server, "runs", "judged", "Passed", "Unknown").await;
    aggregator.stop().await;
}

/// Returns the state of this very replica.
async fn own(aggregator: &Running) -> Value {
    let request = aggregator
        .get("/v1/state")
        .header("parallax-forwarded-by", "test");
    crate::common::json(request.send().await.unwrap()).await
}

async fn leads(aggregator: &Running) {
    let wait = async {
        while own(aggregator).await["replica"]["role"] != "leads" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap();
}

#[tokio::test]
async fn only_the_leader_answers_objects_and_a_run_whose_leader_dies_is_made_by_the_next() {
    let server = ApiServer::start(&[]).await;
    let first = replica(&server, Some("agg-a")).await;
    leads(&first).await;
    let second = replica(&server, Some("agg-b")).await;
    // Only the second replica has a reporting vantage, but as the standby it must not start the run.
    second.send(&[HEADER, &observation(0)]).await;
    let spec = json!({"url": "http://a.example.test/", "rounds": 1, "timeoutMs": 50});
    put(&server, "runs", "ask", spec);
    put(
        &server,
        "targets",
        "pay",
        json!({"url": "https://pay.example.test/"}),
    );
    condition(&server, "targets", "pay", "Accepted", "True").await;
    let known = async {
        // The standby has seen both objects and written nothing.
        loop {
            let state = own(&second).await;
            let targets = state["targets"].as_array().unwrap();
            if targets.contains(&json!("https://pay.example.test/")) {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, known).await.unwrap();
    // The leader has no reporting vantage and reports that the run waits.
    let waits = condition(&server, "runs", "ask", "Accepted", "Unknown").await;
    assert_eq!(waits["reason"], "NoReportingVantage", "{waits}");
    assert!(server.get("runs", "shop", "ask").unwrap()["status"]["run"].is_null());
    let refused = second.get("/v1/plan?vantage=n1/pod").send().await.unwrap();
    assert_eq!(refused.status(), 503);
    let body = crate::common::json(refused).await;
    assert_eq!(body["leader"], "agg-a", "{body}");

    first.kill().await;
    leads(&second).await;
    condition(&server, "runs", "ask", "Complete", "True").await;
    put(
        &server,
        "targets",
        "later",
        json!({"url": "https://later.example.test/"}),
    );
    condition(&server, "targets", "later", "Accepted", "True").await;
    let plan = second.get("/v1/plan?vantage=n1/pod").send().await.unwrap();
    assert_eq!(plan.status(), 200);
    drop(plan);
    second.stop().await;
}
