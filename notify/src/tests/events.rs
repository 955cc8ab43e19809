//! Events on an API server, and the outbox in one of its `ConfigMap`s.

use std::time::Duration;

use parallax_api_server::{ApiServer, Behaviour};
use parallax_kubernetes::api_client::ApiClient;
use serde_json::json;

use super::{
    super::{
        events::EventWriter,
        http::DeliveryOutcome,
        notification::DueMessage,
        objects::{EventObjectKind, ObjectReference},
        outbox::Delivery,
    },
    receiver::{Receiver, ScriptedResponse},
    *,
};
use crate::webhook::WebhookClient;

fn delivery(message: DueMessage, view: &View) -> Delivery {
    let mut outbox = Outbox::default();
    update(&mut outbox, &open(), NOW, false, 0);
    update(&mut outbox, view, NOW, false, 0);
    let mut notification = outbox.notifications.into_values().next().unwrap();
    let named = |kind, namespace: &str, name: &str| ObjectReference {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    notification.content.objects = vec![
        named(EventObjectKind::Node, "", "n1"),
        named(EventObjectKind::Service, "shop", "shop"),
        named(EventObjectKind::Service, "shop", "gone"),
    ];
    notification.content.objects_total = 7;
    Delivery {
        notification,
        message,
        previous: None,
    }
}

fn client(server: &ApiServer) -> ApiClient {
    ApiClient(kube::Client::try_from(kube::Config::new(server.url().parse().unwrap())).unwrap())
}

async fn server() -> ApiServer {
    let server = ApiServer::start(&[]).await;
    server.put("nodes", json!({"metadata": {"name": "n1", "uid": "uid-n1"}}));
    server.put(
        "services",
        json!({"metadata": {"name": "shop", "namespace": "shop", "uid": "uid-shop"}}),
    );
    server
}

#[tokio::test]
async fn an_incident_is_one_event_per_object_and_repeating_it_creates_no_second() {
    let server = server().await;
    let events = EventWriter::new(client(&server), "agg-a");
    let opened = delivery(DueMessage::Open { first: true }, &open());
    for _ in 0..2 {
        assert!(matches!(
            events.send(&opened).await,
            DeliveryOutcome::Delivered(_)
        ));
    }
    let all = server.all("events");
    assert_eq!(all.len(), 2, "a deleted object has none: {all:#?}");
    let about = |kind: &str| {
        all.iter()
            .find(|event| event["regarding"]["kind"] == kind)
            .unwrap()
            .clone()
    };
    let (node, service) = (about("Node"), about("Service"));
    assert_eq!(node["metadata"]["namespace"], "default");
    assert_eq!(service["metadata"]["namespace"], "shop");
    assert_eq!(
        service["regarding"]["uid"], "uid-shop",
        "kubectl describe selects by it"
    );
    assert_eq!(
        (&service["type"], &service["reason"]),
        (&json!("Warning"), &json!("IncidentOpened"))
    );
    let words = service["note"].as_str().unwrap();
    assert!(
        words.len() <= 1_024 && words.contains("4 more objects") && words.contains("and 47 more"),
        "{words}"
    );
    assert!(words.contains("parallax explain"), "{words}");

    let recovered = delivery(DueMessage::Recovered, &closed());
    assert!(matches!(
        events.send(&recovered).await,
        DeliveryOutcome::Delivered(_)
    ));
    let all = server.all("events");
    let normal: Vec<_> = all.iter().filter(|event| event["type"] == "Normal").collect();
    assert_eq!((all.len(), normal.len()), (4, 2));
    assert!(normal.iter().all(|event| event["reason"] == "IncidentRecovered"));
}

#[tokio::test]
async fn an_open_incident_is_an_event_series_that_is_recreated_after_the_api_server_deletes_it() {
    let server = server().await;
    let events = EventWriter::new(client(&server), "");
    events
        .send(&delivery(DueMessage::Open { first: true }, &open()))
        .await;
    let mut again = delivery(DueMessage::Reminder, &open());
    again.notification.reminders = 3;
    assert!(matches!(events.send(&again).await, DeliveryOutcome::Delivered(_)));
    let all = server.all("events");
    assert!(all.iter().all(|event| event["series"]["count"] == 5), "{all:#?}");
    for event in &all {
        let word = |field: &str| event["metadata"][field].as_str().unwrap().to_owned();
        server.delete("events", &word("namespace"), &word("name"));
    }
    assert!(matches!(events.send(&again).await, DeliveryOutcome::Delivered(_)));
    assert_eq!(server.all("events").len(), 2);
}

#[tokio::test]
async fn a_missing_permission_is_named_and_retried() {
    let server = server().await;
    server.set_behaviour("events", Behaviour::Status(403));
    let events = EventWriter::new(client(&server), "");
    let outcome = events
        .send(&delivery(DueMessage::Open { first: true }, &open()))
        .await;
    assert!(
        matches!(&outcome, DeliveryOutcome::Retry { why, .. } if why.contains("permission denied: the aggregator cannot create") && why.contains("apply the manifests")),
        "{outcome:?}"
    );
}

fn config_map() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "parallax", "name": "parallax-notifications"}})
}

fn outbox_store(server: &ApiServer) -> OutboxStore {
    OutboxStore::config_map(client(server), "parallax/parallax-notifications".parse().unwrap())
}

fn install_crypto_provider() {
    // A second call finds a provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[tokio::test]
async fn a_restart_repeats_no_delivered_message_and_sends_pending_ones() {
    install_crypto_provider();
    let server = ApiServer::start(&[]).await;
    server.put("configmaps", config_map());
    let receiver =
        Receiver::with_responses([ScriptedResponse::Status(204), ScriptedResponse::NoResponse]).await;
    let webhook = || WebhookClient::new(receiver.webhook()).unwrap();
    let first = NotifierHarness::new(outbox_store(&server), ReplicaState::standalone(1, "n"))
        .with_receiver("r", webhook());
    first.show(open());
    receiver.wait_for_requests(1).await;
    // The recovery is under way, without a result, when the process is killed.
    first.show(closed());
    receiver.wait_for_requests(2).await;
    first.task.as_ref().unwrap().abort();
    let second = NotifierHarness::new(outbox_store(&server), ReplicaState::standalone(2, "n"))
        .with_receiver("r", webhook());
    second.show(open());
    second.show(closed());
    let requests = receiver.wait_for_requests(3).await;
    let deliveries: Vec<String> = requests
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one.json()["type"].as_str().unwrap(),
                one.header("webhook-id")
            )
        })
        .collect();
    assert!(deliveries[0].starts_with("incident.opened"), "{deliveries:?}");
    assert_eq!(
        deliveries[1], deliveries[2],
        "the same message again, under the same id"
    );
    assert_eq!(requests[1].body, requests[2].body);
    second.stop().await;
    let third = NotifierHarness::new(outbox_store(&server), ReplicaState::standalone(3, "n"))
        .with_receiver("r", webhook());
    third.show(closed());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(receiver.requests().len(), 3, "everything was delivered");
    third.stop().await;
}

#[tokio::test]
async fn an_unavailable_outbox_store_is_shown_and_delays_messages_only_briefly() {
    install_crypto_provider();
    let server = ApiServer::start(&[]).await;
    server.put("configmaps", config_map());
    let receiver = Receiver::with_responses([]).await;
    let harness = NotifierHarness::new(outbox_store(&server), ReplicaState::standalone(1, "n"))
        .with_receiver("r", WebhookClient::new(receiver.webhook()).unwrap());
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.set_behaviour("configmaps", Behaviour::Status(500));
    harness.show(open());
    receiver.wait_for_requests(1).await;
    let shown = harness.state.status();
    assert!(!shown.persisted && harness.state.is_unpersisted(), "{shown:?}");
    assert!(
        shown
            .not_persisted_because
            .unwrap()
            .contains("parallax/parallax-notifications")
    );
    harness.stop().await;
}
