//! Without Prometheus: the aggregator itself pushes to a real Alertmanager.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{
    client, get, is_skipped,
    mesh::RecordedAggregator,
    monitoring::{Receiver, alertmanager, alertmanager_alerts},
    recording::{Recording, Replayer, State},
    repository, wait_until,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_pushed_with_the_labels_of_the_rules_inhibits_as_they_do_and_ends_when_it_is_over() {
    if is_skipped(
        "a_fault_is_pushed_with_the_labels_of_the_rules_inhibits_as_they_do_and_ends_when_it_is_over",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let client = client();
    let receiver = Receiver::start().await;
    let (address, _process) = alertmanager(folder.path(), &receiver);
    let ready = format!("http://{address}/-/ready");
    wait_until("the Alertmanager is ready", async || {
        let answer = client.get(&ready).send().await.ok()?;
        answer.status().is_success().then_some(())
    })
    .await;
    let notify = format!(
        "links: {{page: \"https://parallax.example.test/\"}}\n\
         notify: {{alertmanagers: [{{name: main, url: \"http://{address}\", resendSeconds: 5, labels: {{cluster: here}}}}]}}\n"
    );
    let recording = Recording::read(&repository("dashboards/tests/fixtures/i1.ndjson.gz"));
    let broken = recording.topology(State::Broken);
    let healthy = recording.topology(State::Healthy);
    let aggregator = RecordedAggregator::with_config(folder.path(), &recording, &client, &notify).await;
    let teller = Replayer::start(recording, aggregator.url(), client.clone());
    wait_until("every vantage reaches every target", async || {
        let state = get(&client, &format!("{}/v1/state", aggregator.url())).await?;
        let rows = state["matrix"].as_array()?.clone();
        let cells: Vec<Value> = rows
            .iter()
            .flat_map(|row| row["cells"].as_array().cloned().unwrap_or_default())
            .collect();
        (cells.len() >= 8 && cells.iter().all(|cell| cell["state"] == "ok")).then_some(())
    })
    .await;
    assert!(receiver.alerts().is_empty());

    aggregator.replace_topology(&broken);
    teller.state.send_replace(State::Broken);
    let labels = wait_until("the incident is notified", async || {
        let alerts = receiver.alerts().into_iter();
        alerts
            .filter(|(name, status, _)| name == "ParallaxIncident" && status == "firing")
            .map(|(_, _, labels)| labels)
            .next()
    })
    .await;
    let incident = aggregator.incident(&client).await.unwrap();
    assert_eq!(labels["incident"], incident.as_str());
    assert_eq!(
        (&labels["job"], &labels["cause"], &labels["cluster"]),
        (
            &json!("parallax/parallax-aggregator"),
            &json!("F1"),
            &json!("here")
        )
    );
    leads_to_the_page(&client, address, &incident).await;
    inhibits(&client, address, &incident, &labels).await;

    aggregator.replace_topology(&healthy);
    teller.state.send_replace(State::Healthy);
    wait_until("the end is notified, too", async || {
        let alerts = receiver.alerts();
        let of_it = |(name, _, labels): &&(String, String, Value)| {
            name == "ParallaxIncident" && labels["incident"] == incident.as_str()
        };
        // A change of severity resolves the alert with the former one: only the last message counts.
        (alerts.iter().rfind(of_it)?.1 == "resolved" && aggregator.incident(&client).await.is_none())
            .then_some(())
    })
    .await;
    let metrics = client
        .get(format!("{}/metrics", aggregator.url()))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        metrics.contains("parallax_notifications_total{receiver=\"main\",result=\"refused\"} 0"),
        "{metrics}"
    );
    teller.stop().await;
    receiver.stop().await;
}

/// The alert in the Alertmanager links to the page of the incident and has a description.
async fn leads_to_the_page(client: &reqwest::Client, address: SocketAddr, incident: &str) {
    let alerts = get(client, &format!("http://{address}/api/v2/alerts"))
        .await
        .unwrap();
    let alerts = &alerts.as_array().unwrap()[0];
    assert_eq!(
        alerts["generatorURL"],
        format!("https://parallax.example.test/incident/{incident}")
    );
    assert!(
        alerts["annotations"]["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
}

/// The alert of a target that the incident explains is inhibited.
async fn inhibits(client: &reqwest::Client, address: SocketAddr, incident: &str, labels: &Value) {
    let explained = json!([{"labels": {"alertname": "ParallaxTargetUnreachable", "cluster": labels["cluster"],
        "job": labels["job"], "incident": incident, "target": "http://shop.example.test/", "placement": "no-local", "severity": "critical"}}]);
    let push = client
        .post(format!("http://{address}/api/v2/alerts"))
        .json(&explained);
    assert!(push.send().await.unwrap().status().is_success());
    wait_until("the explained target is inhibited", async || {
        let kept = |(name, state, _): &(String, String, Value)| {
            name == "ParallaxTargetUnreachable" && state == "suppressed"
        };
        alertmanager_alerts(client, address)
            .await
            .iter()
            .any(kept)
            .then_some(())
    })
    .await;
}
