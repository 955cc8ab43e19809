//! Calling people, for clusters without Prometheus and Alertmanager's rules: Kubernetes Events, signed webhooks, alerts
//! pushed to an Alertmanager. One notification an incident, whatever the number of its targets.
//!
//! ```text
//! views ─▶ clerk ─▶ outbox (a letter an incident) ─▶ vault (ConfigMap or store: outlives a kill -9)
//!                      │ ▲ what each receiver has heard
//!                      ▼ │
//!          a courier a receiver ─▶ carrier: webhook · alertmanager · events
//! ```
//! A letter says what an incident has come to, and by name what each receiver has heard of it. What a receiver is owed
//! follows from the two, so nothing is queued twice and the newest supersedes what was not delivered. Only the leader writes
//! and sends. A letter is in the vault before it is sent, and what was heard afterwards: killed in between, a receiver hears
//! the same again, under the same id.

mod alertmanager;
pub mod api;
mod content;
mod delivery_pace;
mod delivery_worker;
mod events;
mod http;
mod metrics;
mod notification;
mod notifier;
mod objects;
mod outbox;
mod outbox_store;
mod state;
mod test_delivery;
#[cfg(test)]
mod tests;
mod webhook;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use url::Url;

use parallax_kubernetes::object_key::ObjectKey;

pub(crate) use metrics::NotifyMetrics;
pub(crate) use notifier::Notifier;
pub use notifier::NotifierError;
pub(crate) use outbox_store::OutboxStore;
pub(crate) use state::{NotificationContext, NotificationState};
pub(crate) use test_delivery::try_receivers;
pub use test_delivery::{TestDelivery, TestDeliveryError};

/// `notify`: who is told, and where what is owed outlives this aggregator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NotifyOptions {
    /// The `ConfigMap` that remembers; the store without one.
    pub(crate) config_map: Option<ObjectKey>,
    /// Whether Events are written about the objects that an incident concerns.
    pub(crate) events: bool,
    pub(crate) webhooks: Vec<WebhookOptions>,
    pub(crate) alertmanagers: Vec<AlertmanagerOptions>,
}

/// A place that takes signed messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebhookOptions {
    pub(crate) name: String,
    pub(crate) url: Url,
    /// Holds the secret; read anew for each message, so that it can be changed.
    pub(crate) secret_file: PathBuf,
    /// Whom to trust besides the system's roots.
    pub(crate) ca_file: Option<PathBuf>,
}

/// An Alertmanager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertmanagerOptions {
    pub(crate) name: String,
    pub(crate) url: Url,
    /// The label `job`: that of the scrape, so that rules and pushed alerts inhibit each other.
    pub(crate) job: String,
    /// More labels, on every alert.
    pub(crate) labels: BTreeMap<String, String>,
    /// Shown as a bearer token; read anew for each push.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    /// Time between two pushes of an alert that fires.
    pub(crate) resend: Duration,
}

/// Whether a file of `secretFile` holds a secret.
pub(crate) fn check_secret(text: &str) -> Result<(), String> {
    webhook::keys(text).map(drop)
}

/// The name that Events have among the receivers.
pub(crate) const EVENTS: &str = "events";

impl NotifyOptions {
    /// Whether anybody is told anything.
    pub(crate) fn is_empty(&self) -> bool {
        !self.events && self.webhooks.is_empty() && self.alertmanagers.is_empty()
    }

    /// Whether the API server is needed.
    pub(crate) fn needs_cluster(&self) -> bool {
        self.events || self.config_map.is_some()
    }
}

/// A desk with one receiver that is owed nothing.
#[cfg(test)]
pub(crate) fn told_nobody_but(receiver: &str, metrics: &NotifyMetrics) -> std::sync::Arc<NotificationState> {
    use crate::{incident_actions, store::StoreHandle};
    use parallax_fixtures as fixtures;
    use parallax_kubernetes::{replicas::ReplicaState, topology_state::TopologyState};
    use parallax_runtime::Clock;

    let clock = Clock::starting_at(fixtures::NOW);
    let around = NotificationContext {
        clock,
        replica: ReplicaState::alone(1, "n"),
        handling: std::sync::Arc::new(incident_actions::ActionManager::new(
            clock,
            StoreHandle::off(),
            None,
        )),
        views: tokio::sync::watch::channel(std::sync::Arc::new(fixtures::healthy())).1,
        topology: tokio::sync::watch::channel(TopologyState::new(std::sync::Arc::default())).1,
        links: std::sync::Arc::default(),
    };
    let desk = std::sync::Arc::new(NotificationState::new(
        around,
        OutboxStore::Nowhere,
        metrics.clone(),
    ));
    desk.tell(receiver, "webhook", notification::ReceiverMode::Messages);
    desk
}
