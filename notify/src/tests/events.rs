//! Events on an API server, and the outbox in one of its `ConfigMap`s.

use std::time::Duration;

use parallax_api_server::{ApiServer, Manner};
use parallax_kubernetes::api_client::ApiClient;
use serde_json::json;

use super::{
    super::{
        events::EventWriter,
        http::DeliveryOutcome,
        notification::DueMessage,
        objects::{EventObjectKind, NamedObject},
        outbox::Delivery,
    },
    receiver::{Answer, Receiver},
    *,
};
use crate::webhook::WebhookClient;

fn errand(what: DueMessage, view: &View) -> Delivery {
    let mut outbox = Outbox::default();
    look_at(&mut outbox, &open(), NOW, false, 0);
    look_at(&mut outbox, view, NOW, false, 0);
    let mut letter = outbox.letters.into_values().next().unwrap();
    let named = |kind, namespace: &str, name: &str| NamedObject {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    letter.content.objects = vec![
        named(EventObjectKind::Node, "", "n1"),
        named(EventObjectKind::Service, "shop", "shop"),
        named(EventObjectKind::Service, "shop", "gone"),
    ];
    letter.content.objects_total = 7;
    Delivery {
        letter,
        what,
        heard: None,
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
async fn an_incident_is_an_event_about_each_of_a_few_objects_and_saying_it_twice_makes_no_second() {
    let server = server().await;
    let events = EventWriter::new(client(&server), "agg-a");
    let opened = errand(DueMessage::Open { first: true }, &open());
    for _ in 0..2 {
        assert!(matches!(
            events.carry(&opened).await,
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

    let recovered = errand(DueMessage::Over, &over());
    assert!(matches!(
        events.carry(&recovered).await,
        DeliveryOutcome::Delivered(_)
    ));
    let all = server.all("events");
    let normal: Vec<_> = all.iter().filter(|event| event["type"] == "Normal").collect();
    assert_eq!((all.len(), normal.len()), (4, 2));
    assert!(normal.iter().all(|event| event["reason"] == "IncidentRecovered"));
}

#[tokio::test]
async fn while_it_stands_the_event_is_a_series_and_is_made_anew_when_the_api_server_has_forgotten_it() {
    let server = server().await;
    let events = EventWriter::new(client(&server), "");
    events
        .carry(&errand(DueMessage::Open { first: true }, &open()))
        .await;
    let mut again = errand(DueMessage::Again, &open());
    again.letter.reminders = 3;
    assert!(matches!(
        events.carry(&again).await,
        DeliveryOutcome::Delivered(_)
    ));
    let all = server.all("events");
    assert!(all.iter().all(|event| event["series"]["count"] == 5), "{all:#?}");
    for event in &all {
        let word = |field: &str| event["metadata"][field].as_str().unwrap().to_owned();
        server.delete("events", &word("namespace"), &word("name"));
    }
    assert!(matches!(
        events.carry(&again).await,
        DeliveryOutcome::Delivered(_)
    ));
    assert_eq!(server.all("events").len(), 2);
}

#[tokio::test]
async fn a_right_that_is_missing_is_named_and_tried_again() {
    let server = server().await;
    server.behave("events", Manner::Answers(403));
    let events = EventWriter::new(client(&server), "");
    let outcome = events
        .carry(&errand(DueMessage::Open { first: true }, &open()))
        .await;
    assert!(
        matches!(&outcome, DeliveryOutcome::Later { why, .. } if why.contains("permission denied: the aggregator cannot create") && why.contains("apply the manifests")),
        "{outcome:?}"
    );
}

fn map() -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "parallax", "name": "parallax-notifications"}})
}

fn vault(server: &ApiServer) -> OutboxStore {
    OutboxStore::map(client(server), "parallax/parallax-notifications".parse().unwrap())
}

fn provider() {
    // A second call finds a provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[tokio::test]
async fn what_a_former_life_told_is_not_told_again_and_what_it_owed_is() {
    provider();
    let server = ApiServer::start(&[]).await;
    server.put("configmaps", map());
    let receiver = Receiver::answering([Answer::Status(204), Answer::Nothing]).await;
    let webhook = || WebhookClient::new(receiver.webhook()).unwrap();
    let first = Office::of(vault(&server), ReplicaState::alone(1, "n")).with("r", webhook());
    first.sees(open());
    receiver.heard(1).await;
    // The recovery is under way, without a result, when the process is killed.
    first.sees(over());
    receiver.heard(2).await;
    first.running.as_ref().unwrap().abort();
    let second = Office::of(vault(&server), ReplicaState::alone(2, "n")).with("r", webhook());
    second.sees(open());
    second.sees(over());
    let heard = receiver.heard(3).await;
    let told: Vec<String> = heard
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one.json()["type"].as_str().unwrap(),
                one.header("webhook-id")
            )
        })
        .collect();
    assert!(told[0].starts_with("incident.opened"), "{told:?}");
    assert_eq!(told[1], told[2], "the same message again, under the same id");
    assert_eq!(heard[1].body, heard[2].body);
    second.end().await;
    let third = Office::of(vault(&server), ReplicaState::alone(3, "n")).with("r", webhook());
    third.sees(over());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(receiver.now().len(), 3, "everything was delivered");
    third.end().await;
}

#[tokio::test]
async fn a_vault_that_cannot_be_used_is_shown_and_holds_up_nobody_for_long() {
    provider();
    let server = ApiServer::start(&[]).await;
    server.put("configmaps", map());
    let receiver = Receiver::answering([]).await;
    let office = Office::of(vault(&server), ReplicaState::alone(1, "n"))
        .with("r", WebhookClient::new(receiver.webhook()).unwrap());
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.behave("configmaps", Manner::Answers(500));
    office.sees(open());
    receiver.heard(1).await;
    let shown = office.desk.shown();
    assert!(!shown.kept && office.desk.is_unkept(), "{shown:?}");
    assert!(
        shown
            .unkept_because
            .unwrap()
            .contains("parallax/parallax-notifications")
    );
    office.end().await;
}
