//! `parallax notify test`: sends one test message to each receiver.

use std::time::{Duration, Instant};

use kube::Client;
use parallax_kubernetes::api_client::ApiClient;

use super::{
    EVENTS_RECEIVER, HEARTBEAT_RECEIVER, Heartbeat, NotifyMetrics, NotifyOptions,
    alertmanager::AlertmanagerClient, events::EventWriter, http::DeliveryOutcome, webhook::WebhookClient,
};

/// The result of one receiver.
#[derive(Debug)]
pub struct TestDelivery {
    /// The receiver's name.
    pub name: String,
    /// `webhook`, `alertmanager`, `events` or `heartbeat`.
    pub kind: &'static str,
    /// The duration of the delivery, or why it failed.
    pub outcome: Result<Duration, String>,
}

/// Why no receiver can be tested.
#[derive(Debug, thiserror::Error)]
pub enum TestDeliveryError {
    /// The configuration names no receiver.
    #[error("no receivers are configured: set events, webhooks, alertmanagers or heartbeat under `notify`")]
    NoReceivers,
    /// Events need an API server, and none is configured.
    #[error("cannot find the API server, which notify.events needs: {0}; run in a cluster or set KUBECONFIG")]
    NoApiServer(#[source] Box<kube::Error>),
}

/// Sends a test message to each receiver, one after the other.
pub async fn send_tests(
    options: &NotifyOptions,
    client: Option<&ApiClient>,
) -> Result<Vec<TestDelivery>, TestDeliveryError> {
    if options.is_empty() && options.heartbeat.is_none() {
        return Err(TestDeliveryError::NoReceivers);
    }
    let mut tried = Vec::new();
    for webhook in &options.webhooks {
        let begin = Instant::now();
        let outcome = match WebhookClient::new(webhook.clone()) {
            Ok(carrier) => carrier.send_test().await,
            Err(reason) => DeliveryOutcome::Rejected { why: reason },
        };
        tried.push(test_result(&webhook.name, "webhook", begin, outcome));
    }
    for alertmanager in &options.alertmanagers {
        let begin = Instant::now();
        let outcome = match AlertmanagerClient::new(alertmanager.clone()) {
            Ok(carrier) => carrier.send_test().await,
            Err(reason) => DeliveryOutcome::Rejected { why: reason },
        };
        tried.push(test_result(&alertmanager.name, "alertmanager", begin, outcome));
    }
    if options.events {
        let client = match client {
            Some(client) => client.clone(),
            None => ApiClient(
                Client::try_default()
                    .await
                    .map_err(|error| TestDeliveryError::NoApiServer(Box::new(error)))?,
            ),
        };
        let begin = Instant::now();
        let outcome = EventWriter::new(client, "")
            .send_test(options.outbox_config_map.as_ref())
            .await;
        tried.push(test_result(EVENTS_RECEIVER, "events", begin, outcome));
    }
    if let Some(heartbeat) = &options.heartbeat {
        let begin = Instant::now();
        let outcome = match Heartbeat::new(heartbeat.clone(), NotifyMetrics::default()) {
            Ok(heartbeat) => heartbeat.send().await,
            Err(error) => DeliveryOutcome::Rejected {
                why: error.to_string(),
            },
        };
        tried.push(test_result(HEARTBEAT_RECEIVER, "heartbeat", begin, outcome));
    }
    Ok(tried)
}

fn test_result(name: &str, way: &'static str, begin: Instant, outcome: DeliveryOutcome) -> TestDelivery {
    TestDelivery {
        name: name.to_owned(),
        kind: way,
        outcome: match outcome {
            DeliveryOutcome::Delivered(_) => Ok(begin.elapsed()),
            DeliveryOutcome::Retry { why, .. } | DeliveryOutcome::Rejected { why } => Err(why),
        },
    }
}
