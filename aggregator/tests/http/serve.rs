//! API, page and metrics over HTTP, and start and stop of an aggregator.

use crate::common::{HEADER, Running, observation};
use parallax_aggregator::{Aggregator, Config, StartError};
use parallax_diagnosis::topology::Topology;
use reqwest::header::ACCEPT;

#[tokio::test]
async fn the_page_answers_before_the_first_report_under_a_strict_policy_and_without_inline_code() {
    let aggregator = Running::start().await;
    let response = aggregator.get("/").send().await.unwrap();
    assert_eq!(response.status(), 200);
    let policy = response.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
        "{policy}"
    );
    let html = response.text().await.unwrap();
    assert!(html.contains("<noscript><meta http-equiv=\"refresh\""));
    assert!(
        !html.contains("style=") && !html.contains("<style"),
        "no inline style"
    );
    let scripts: Vec<_> = html
        .match_indices("<script")
        .map(|(at, _)| &html[at..at + 35])
        .collect();
    assert_eq!(scripts, ["<script src=\"/assets/app.js\" defer>"]);
    for (path, media) in [
        ("/assets/app.js", "text/javascript; charset=utf-8"),
        ("/assets/style.css", "text/css; charset=utf-8"),
        ("/assets/mark.svg", "image/svg+xml"),
    ] {
        let asset = aggregator.get(path).send().await.unwrap();
        assert_eq!(
            (
                asset.status().as_u16(),
                asset.headers()["content-type"].to_str().unwrap()
            ),
            (200, media)
        );
    }
    let gone = aggregator.get("/incident/i-nope").send().await.unwrap();
    assert_eq!(gone.status(), 404);
    assert!(gone.text().await.unwrap().contains("Incident i-nope not found"));
    aggregator.stop().await;
}

#[tokio::test]
async fn the_state_names_targets_probers_and_the_health_of_the_topology() {
    let aggregator = Running::start().await;
    aggregator.send(&[HEADER, &observation(0)]).await;
    let state = aggregator.json("/v1/state").await;
    assert_eq!(state["interval_us"], 5_000_000);
    assert_eq!(state["topology_error"], serde_json::Value::Null);
    assert_eq!(state["topology_age_us"], 0);
    let targets: Vec<_> = state["targets"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|t| t.as_str())
        .collect();
    assert!(targets.contains(&"http://a.example.test/"), "{targets:?}");
    assert_eq!(
        aggregator.json("/v1/incidents").await["incidents"],
        serde_json::json!([])
    );
    assert_eq!(aggregator.text("/healthz").await, "ok\n");
    assert_eq!(aggregator.text("/readyz").await, "ok\n");
    aggregator.stop().await;
}

#[tokio::test]
async fn a_broken_topology_file_shows_in_api_page_and_metric_and_heals() {
    let aggregator = Running::start().await;
    aggregator.replace_topology("nodes: [{nam: n1}]\n");
    let broken = until(&aggregator, |state| !state["topology_error"].is_null()).await;
    let error = broken["topology_error"].as_str().unwrap();
    assert!(
        error.contains("topology.yaml:1:10: nodes[0].nam: unknown field"),
        "{error}"
    );
    assert!(broken["topology_age_us"].as_u64() > Some(0));
    assert!(
        !broken["targets"].as_array().unwrap().is_empty(),
        "the last-known topology stays"
    );
    assert!(
        aggregator
            .text("/")
            .await
            .contains("Reading the topology has failed for")
    );
    assert!(aggregator.metric("parallax_topology_age_seconds").await > Some(0.0));
    aggregator.replace_topology("nodes: []\n");
    let healed = until(&aggregator, |state| state["topology_error"].is_null()).await;
    assert_eq!(healed["topology_revision"], 1);
    assert_eq!(healed["targets"], serde_json::json!([]));
    aggregator.stop().await;
}

/// Polls the state until it matches, bounded by the timeout of the test runner.
async fn until(aggregator: &Running, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    loop {
        let state = aggregator.json("/v1/state").await;
        if wanted(&state) {
            return state;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn metrics_come_as_text_or_as_protobuf_by_what_the_scraper_prefers() {
    let aggregator = Running::start().await;
    let text = aggregator.get("/metrics").send().await.unwrap();
    let media = text.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(media.starts_with("application/openmetrics-text"), "{media}");
    assert!(text.text().await.unwrap().ends_with("# EOF\n"));
    let wanted = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    let packed = aggregator
        .get("/metrics")
        .header(ACCEPT, wanted)
        .send()
        .await
        .unwrap();
    let media = packed.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(media.starts_with("application/vnd.google.protobuf"), "{media}");
    aggregator.stop().await;
}

#[tokio::test]
async fn a_port_in_use_is_a_one_line_error_with_a_remedy() {
    let first = Aggregator::bind(Config::embedded(Topology::default()))
        .await
        .unwrap();
    let mut config = Config::embedded(Topology::default());
    config.listen = first.local_addr();
    let error = Aggregator::bind(config).await.unwrap_err();
    assert!(matches!(error, StartError::AddressInUse { .. }));
    let message = error.to_string();
    assert!(
        message.contains(&first.local_addr().to_string()) && message.contains("`listen`"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1);
}

#[tokio::test]
async fn an_embedded_aggregator_expects_the_vantage_it_was_given_and_shows_its_views() {
    let config = Config::embedded(Topology::default()).with_vantage("internet:laptop".parse().unwrap());
    assert_eq!(config.topology().vantages().len(), 1);
    let aggregator = Aggregator::bind(config).await.unwrap();
    let views = aggregator.views();
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(aggregator.run(stop.clone()));
    let before = views.latest().at;
    let view = views.wait_for(|view| view.at > before).await;
    assert!(view.at > before, "views are updated without any report");
    stop.cancel();
    running.await.unwrap().unwrap();
}
