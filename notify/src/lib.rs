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
#![forbid(unsafe_code)]

mod alertmanager;

mod content;
mod delivery_pace;
mod delivery_worker;
mod events;
mod http;
pub mod incident_actions;
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

use parallax_kubernetes::object_key::ObjectKey;
use url::Url;

pub use metrics::NotifyMetrics;
pub use notifier::Notifier;
pub use notifier::NotifierError;
pub use outbox_store::OutboxStore;
pub use state::{NotificationContext, NotificationState};
pub use test_delivery::try_receivers;
pub use test_delivery::{TestDelivery, TestDeliveryError};

/// `notify`: who is told, and where what is owed outlives this aggregator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotifyOptions {
    /// The `ConfigMap` that remembers; the store without one.
    pub config_map: Option<ObjectKey>,
    /// Whether Events are written about the objects that an incident concerns.
    pub events: bool,
    /// Signed webhooks.
    pub webhooks: Vec<WebhookOptions>,
    /// Alertmanagers.
    pub alertmanagers: Vec<AlertmanagerOptions>,
}

/// A place that takes signed messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// The name of the receiver.
    pub name: String,
    /// The address that receives POST requests.
    pub url: Url,
    /// Holds the secret; read anew for each message, so that it can be changed.
    pub secret_file: PathBuf,
    /// Whom to trust besides the system's roots.
    pub ca_file: Option<PathBuf>,
}

/// An Alertmanager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertmanagerOptions {
    /// The name of the receiver.
    pub name: String,
    /// The base URL of the Alertmanager API.
    pub url: Url,
    /// The label `job`: that of the scrape, so that rules and pushed alerts inhibit each other.
    pub job: String,
    /// More labels, on every alert.
    pub labels: BTreeMap<String, String>,
    /// Shown as a bearer token; read anew for each push.
    pub token_file: Option<PathBuf>,
    /// A CA bundle, trusted in addition to the system roots.
    pub ca_file: Option<PathBuf>,
    /// Time between two pushes of an alert that fires.
    pub resend: Duration,
}

/// Whether a file of `secretFile` holds a secret.
pub fn check_secret(text: &str) -> Result<(), String> {
    webhook::keys(text).map(drop)
}

/// The name that Events have among the receivers.
pub const EVENTS: &str = "events";

impl NotifyOptions {
    /// Whether anybody is told anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.events && self.webhooks.is_empty() && self.alertmanagers.is_empty()
    }

    /// Whether the API server is needed.
    #[must_use]
    pub fn needs_cluster(&self) -> bool {
        self.events || self.config_map.is_some()
    }
}
