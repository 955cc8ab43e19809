//! Real probers and a real aggregator over real TLS; only the API server is a fake.

mod enroll;
pub(crate) mod mesh;

use parallax_api_server::{ApiServer, service_account_token};
use parallax_model::Network;
use parallax_prober::Role;
use reqwest::{Certificate, Client, StatusCode};
use serde_json::{Value, json};

use mesh::{Mesh, NAMESPACE, PROBER_ACCOUNT, Running, assert_prober_pods_selected, until};

fn good(api: &ApiServer, mark: &str) -> String {
    api.issue_pod_token(PROBER_ACCOUNT, "uid-1", "n1", mark)
}

/// A client that trusts the aggregator's CA.
fn client(mesh: &Mesh) -> Client {
    mesh.mount_ca();
    let pem = std::fs::read(mesh.file("ca.crt")).unwrap();
    let roots = Certificate::from_pem_bundle(&pem).unwrap();
    Client::builder()
        .no_proxy()
        .tls_certs_only(roots)
        .build()
        .unwrap()
}

/// Sends an empty report of one vantage.
async fn report(client: &Client, url: &str, token: &str, vantage: &str) -> (StatusCode, Value, bool) {
    let header = json!({"v": 1, "incarnation": "life-1", "vantage": vantage, "sent_us": 1});
    let answer = client
        .post(format!("{url}/v1/observations"))
        .header("content-type", "application/x-ndjson")
        .bearer_auth(token)
        .body(header.to_string())
        .send()
        .await
        .unwrap();
    answered(answer).await
}

async fn plan(client: &Client, url: &str, token: &str, vantage: &str) -> StatusCode {
    let url = format!("{url}/v1/plan?vantage={vantage}");
    client.get(url).bearer_auth(token).send().await.unwrap().status()
}

async fn answered(answer: reqwest::Response) -> (StatusCode, Value, bool) {
    let (status, again) = (answer.status(), answer.headers().contains_key("retry-after"));
    let body = answer.text().await.unwrap();
    (status, serde_json::from_str(&body).unwrap_or(Value::Null), again)
}

async fn refusals(running: &Running, reason: &str) -> u64 {
    let text = reqwest::get(format!("{}/metrics", running.plain))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let series = format!("parallax_identity_refused_total{{reason=\"{reason}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&series)).unwrap();
    line.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prober_is_let_in_by_its_pod_and_stays_through_new_tokens_and_a_new_ca() {
    let mesh = Mesh::new().await;
    let mut first = mesh.aggregator(0).await;
    // The prober starts before the CA file exists.
    mesh.write_token(&good(&mesh.api, "first"));
    let prober = mesh.prober(&first, "n1/pod", Role::Prober).await;
    mesh.mount_ca();
    first.wait_for_report("n1/pod").await;
    // The kubelet rotates the token.
    let reviews = mesh.api.token_reviews();
    mesh.write_token(&good(&mesh.api, "second"));
    until("the new token is shown", async || {
        mesh.api.token_reviews() > reviews
    })
    .await;
    first.wait_for_report("n1/pod").await;
    // Another aggregator with another CA, at the same address.
    let port = first.port();
    first.stop().await;
    let mut second = mesh.aggregator(port).await;
    let map = mesh.ca_config_map().unwrap();
    let bundle = map["data"]["ca.crt"].as_str().unwrap();
    assert_eq!(
        bundle.matches("BEGIN CERTIFICATE").count(),
        2,
        "the former one stays a while"
    );
    mesh.mount_ca();
    second.wait_for_report("n1/pod").await;
    prober.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_somebody_else_is_refused_with_a_reason_and_counted() {
    let mesh = Mesh::new().await;
    let running = mesh.aggregator(0).await;
    let client = client(&mesh);
    let far = 4_000_000_000;
    let api = &mesh.api;
    for (reason, status, token, vantage) in [
        (
            "wrong_audience",
            401,
            service_account_token("https://kubernetes.default.svc", far, "a"),
            "n1/pod",
        ),
        (
            "expired_token",
            401,
            service_account_token("parallax", 1_000_000, "b"),
            "n1/pod",
        ),
        (
            "invalid_token",
            401,
            service_account_token("parallax", far, "forged"),
            "n1/pod",
        ),
        (
            "malformed_token",
            401,
            "a-token-of-24-characters".to_owned(),
            "n1/pod",
        ),
        (
            "wrong_account",
            403,
            api.issue_pod_token("shop/web", "uid-1", "n1", "c"),
            "n1/pod",
        ),
        (
            "unknown_pod",
            403,
            api.issue_pod_token(PROBER_ACCOUNT, "uid-9", "n1", "d"),
            "n1/pod",
        ),
        (
            "other_node",
            403,
            api.issue_pod_token(PROBER_ACCOUNT, "uid-1", "n2", "e"),
            "n1/pod",
        ),
        ("other_vantage", 403, good(api, "f"), "n2/pod"),
        ("other_vantage", 403, good(api, "f"), "n1/host"),
        (
            "wrong_account",
            403,
            api.issue_pod_token("parallax/parallax-responder", "uid-1", "n1", "g"),
            "n1/pod",
        ),
    ] {
        let before = refusals(&running, reason).await;
        let (answer, body, _) = report(&client, &running.tls, &token, vantage).await;
        assert_eq!(
            (answer.as_u16(), body["reason"].as_str()),
            (status, Some(reason)),
            "{body}"
        );
        assert!(
            body["error"].as_str().is_some_and(|text| text.len() > 20),
            "{body}"
        );
        assert_eq!(refusals(&running, reason).await, before + 1, "{reason}");
    }
    assert_eq!(plan(&client, &running.tls, &good(api, "h"), "n2/pod").await, 403);
    assert_eq!(plan(&client, &running.tls, &good(api, "h"), "n1/pod").await, 200);
    let (answer, ..) = report(&client, &running.tls, &good(api, "h"), "n1/pod").await;
    assert_eq!(answer, 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_no_business_on_the_plain_port_nor_the_page_on_the_probers() {
    let mesh = Mesh::new().await;
    let running = mesh.aggregator(0).await;
    let client = client(&mesh);
    let token = good(&mesh.api, "a");
    let (answer, body, _) = report(&client, &running.plain, &token, "n1/pod").await;
    assert_eq!(answer, 403);
    assert!(body["error"].as_str().unwrap().contains("TLS only"), "{body}");
    assert_eq!(plan(&client, &running.plain, &token, "n1/pod").await, 403);
    for path in ["/", "/metrics", "/v1/state"] {
        let status = client
            .get(format!("{}{path}", running.tls))
            .send()
            .await
            .unwrap()
            .status();
        assert_eq!(status, 404, "{path}");
        let status = client
            .get(format!("{}{path}", running.plain))
            .send()
            .await
            .unwrap()
            .status();
        assert_eq!(status, 200, "{path}");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_api_server_is_away_known_probers_report_on_and_new_ones_are_asked_to_come_again() {
    let mesh = Mesh::new().await;
    let running = mesh.aggregator(0).await;
    let client = client(&mesh);
    let (known, new) = (good(&mesh.api, "known"), good(&mesh.api, "new"));
    assert_eq!(report(&client, &running.tls, &known, "n1/pod").await.0, 200);
    mesh.api.set_unavailable(true);
    assert_eq!(report(&client, &running.tls, &known, "n1/pod").await.0, 200);
    let (answer, body, again) = report(&client, &running.tls, &new, "n1/pod").await;
    assert_eq!(
        (answer.as_u16(), body["reason"].as_str()),
        (503, Some("review_unavailable"))
    );
    assert!(again, "it says when to come again");
    mesh.api.set_unavailable(false);
    assert_eq!(report(&client, &running.tls, &new, "n1/pod").await.0, 200);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_gone_is_refused_from_then_on() {
    let mesh = Mesh::new().await;
    let running = mesh.aggregator(0).await;
    let client = client(&mesh);
    let token = good(&mesh.api, "a");
    assert_eq!(report(&client, &running.tls, &token, "n1/pod").await.0, 200);
    mesh.pods.remove("uid-1");
    let (answer, body, _) = report(&client, &running.tls, &token, "n1/pod").await;
    assert_eq!(
        (answer.as_u16(), body["reason"].as_str()),
        (403, Some("unknown_pod"))
    );
    mesh.pods.add("uid-1", "n1", Network::Host);
    let (answer, ..) = report(&client, &running.tls, &token, "n1/pod").await;
    assert_eq!(answer, 403, "it is in the node's network now");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_responder_learns_the_nonce_and_reports_nothing() {
    let mesh = Mesh::new().await;
    let running = mesh.aggregator(0).await;
    let client = client(&mesh);
    let token = mesh
        .api
        .issue_pod_token("parallax/parallax-responder", "uid-1", "n1", "a");
    let url = format!("{}/v1/plan?vantage=n1/pod", running.tls);
    let mut stream = client.get(url).bearer_auth(&token).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let snapshot: Value = serde_json::from_slice(&stream.chunk().await.unwrap().unwrap()).unwrap();
    assert_eq!(snapshot["assignments"], json!([]));
    let nonce = snapshot["settings"]["echo_nonce"].as_str().unwrap().to_owned();
    drop(stream);
    mesh.write_token(&token);
    let responder = mesh.prober(&running, "n1/pod", Role::Responder).await;
    let echo = format!("{}/.well-known/parallax/echo", responder.echo);
    until("the responder answers to the nonce", async || {
        let response = client.get(&echo).header("parallax-nonce", &nonce).send().await;
        response.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
    responder.stop().await;
    let seen = running
        .views
        .current()
        .await
        .vantages
        .iter()
        .any(|seen| seen.last_seen.is_some());
    assert!(!seen, "it reported something");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_ca_cannot_be_published_a_metric_says_so_until_it_can() {
    let mesh = Mesh::new().await;
    let map = mesh.ca_config_map().unwrap();
    mesh.api.delete("configmaps", NAMESPACE, "parallax-ca");
    let (running, certificate) = mesh.start(0).await;
    let has_line = async |line: &str| {
        let metrics = reqwest::get(format!("{}/metrics", running.plain)).await.unwrap();
        metrics
            .text()
            .await
            .unwrap()
            .lines()
            .any(|metric_line| metric_line == line)
    };
    until("it says that the ConfigMap is missing", async || {
        has_line("parallax_ca_unpublished 1").await
    })
    .await;
    mesh.api.put("configmaps", map);
    mesh.published(&certificate).await;
    until("all is well again", async || {
        has_line("parallax_ca_unpublished 0").await
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_aggregator_follows_the_pods_of_its_probers_by_itself() {
    let mut mesh = Mesh::new().await;
    mesh.own_watch = true;
    mesh.api.put_prober_pod(PROBER_ACCOUNT, "uid-1", "n1");
    let running = mesh.aggregator(0).await;
    let client = client(&mesh);
    let (existing, later) = (
        good(&mesh.api, "there"),
        mesh.api.issue_pod_token(PROBER_ACCOUNT, "uid-2", "n2", "later"),
    );
    let answers = async |token: &str, vantage: &str, expected: u16| {
        until("the watch has caught up", async || {
            report(&client, &running.tls, token, vantage).await.0.as_u16() == expected
        })
        .await;
    };
    answers(&existing, "n1/pod", 200).await;
    answers(&later, "n2/pod", 403).await;
    mesh.api.put_prober_pod(PROBER_ACCOUNT, "uid-2", "n2");
    answers(&later, "n2/pod", 200).await;
    mesh.api.delete("pods", NAMESPACE, "prober-uid-1");
    answers(&existing, "n1/pod", 403).await;
    // A Pod of another account in the namespace is not a prober, whatever vantage it claims.
    mesh.api.put_prober_pod("parallax/other", "uid-3", "n1");
    let other = mesh.api.issue_pod_token("parallax/other", "uid-3", "n1", "other");
    answers(&other, "n1/pod", 403).await;
    assert_prober_pods_selected(&mesh.api);
    running.stop().await;
}
