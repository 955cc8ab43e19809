//! One marked message to each receiver, for whoever sets them up.

use std::time::{Duration, Instant};

use kube::Client;

use super::{
    EVENTS, NotifyOptions, alertmanager::Alertmanager, events::Events, http::Outcome, webhook::Webhook,
};
use crate::api_client::ApiClient;

/// What one receiver said.
#[derive(Debug)]
pub struct Tried {
    /// Its name.
    pub name: String,
    /// `webhook`, `alertmanager` or `events`.
    pub way: &'static str,
    /// How long it took, or why it came to nothing.
    pub outcome: Result<Duration, String>,
}

/// Nobody can be told anything.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The configuration names no receiver.
    #[error("nobody is told anything: set events, webhooks or alertmanagers under `notify`")]
    Nobody,
    /// Events need an API server.
    #[error("cannot find the API server that notify.events needs: {0}; run in a cluster, or set KUBECONFIG")]
    Cluster(#[source] Box<kube::Error>),
}

/// Says something that is no incident to each receiver, one after the other.
pub(crate) async fn try_receivers(
    options: &NotifyOptions,
    client: Option<&ApiClient>,
) -> Result<Vec<Tried>, TrialError> {
    if options.is_empty() {
        return Err(TrialError::Nobody);
    }
    let mut tried = Vec::new();
    for webhook in &options.webhooks {
        let begin = Instant::now();
        let outcome = match Webhook::new(webhook.clone()) {
            Ok(carrier) => carrier.test().await,
            Err(why) => Outcome::Refused { why },
        };
        tried.push(said(&webhook.name, "webhook", begin, outcome));
    }
    for alertmanager in &options.alertmanagers {
        let begin = Instant::now();
        let outcome = match Alertmanager::new(alertmanager.clone()) {
            Ok(carrier) => carrier.test().await,
            Err(why) => Outcome::Refused { why },
        };
        tried.push(said(&alertmanager.name, "alertmanager", begin, outcome));
    }
    if options.events {
        let client = match client {
            Some(client) => client.clone(),
            None => ApiClient(
                Client::try_default()
                    .await
                    .map_err(|error| TrialError::Cluster(Box::new(error)))?,
            ),
        };
        let begin = Instant::now();
        let outcome = Events::new(client, "").test(options.config_map.as_ref()).await;
        tried.push(said(EVENTS, "events", begin, outcome));
    }
    Ok(tried)
}

fn said(name: &str, way: &'static str, begin: Instant, outcome: Outcome) -> Tried {
    Tried {
        name: name.to_owned(),
        way,
        outcome: match outcome {
            Outcome::Delivered(_) => Ok(begin.elapsed()),
            Outcome::Later { why, .. } | Outcome::Refused { why } => Err(why),
        },
    }
}
