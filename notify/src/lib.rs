//! Notifies people of incidents in clusters without Prometheus and Alertmanager rules: Kubernetes Events, signed
//! webhooks and alerts pushed to an Alertmanager. One notification per incident, whatever the number of its targets.
//!
//! ```text
//! views ─▶ outbox writer ─▶ outbox (a notification per incident) ─▶ outbox store (ConfigMap or store: survives kill -9)
//!                              │ ▲ delivery state per receiver
//!                              ▼ │
//!                           a delivery worker per receiver ─▶ transport: webhook · alertmanager · events
//! ```
//! A notification holds the state of an incident and, per receiver, what was delivered. The due message follows from
//! the two, so nothing is queued twice and a newer state supersedes an undelivered one. Only the leader writes and
//! sends. A notification is persisted before it is sent, and its deliveries afterwards: if the process is killed in
//! between, the receiver gets the same message again, under the same id.
#![forbid(unsafe_code)]

mod alertmanager;

mod content;
mod delivery_worker;
mod events;
mod heartbeat;
mod http;
pub mod incident_actions;
mod metrics;
mod notification;
mod notifier;
mod objects;
mod outbox;
mod outbox_store;
mod retry_schedule;
mod state;
mod test_delivery;
#[cfg(test)]
mod tests;
mod webhook;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use parallax_kubernetes::object_key::ObjectKey;
use url::Url;

pub use heartbeat::{Heartbeat, HeartbeatAddress, HeartbeatOptions, read_address as read_heartbeat_address};
pub use metrics::NotifyMetrics;
pub use notifier::Notifier;
pub use notifier::NotifierError;
pub use outbox_store::OutboxStore;
pub use state::{NotificationContext, NotificationState};
pub use test_delivery::send_tests;
pub use test_delivery::{TestDelivery, TestDeliveryError};

/// `notify`: the receivers, and where pending notifications are persisted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotifyOptions {
    /// The `ConfigMap` that persists the outbox; without it the store does.
    pub outbox_config_map: Option<ObjectKey>,
    /// Whether Events are written on the objects that an incident affects.
    pub events: bool,
    /// Signed webhooks.
    pub webhooks: Vec<WebhookOptions>,
    /// Alertmanagers.
    pub alertmanagers: Vec<AlertmanagerOptions>,
    /// The heartbeat. It tells of no incident, so it is not a receiver.
    pub heartbeat: Option<HeartbeatOptions>,
}

/// A receiver of signed messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// The name of the receiver.
    pub name: String,
    /// The address that receives POST requests.
    pub url: Url,
    /// Contains the secret; read again for each message, so that it can be rotated.
    pub secret_file: PathBuf,
    /// A CA bundle, trusted in addition to the system roots.
    pub ca_file: Option<PathBuf>,
}

/// An Alertmanager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertmanagerOptions {
    /// The name of the receiver.
    pub name: String,
    /// The base URL of the Alertmanager API.
    pub url: Url,
    /// The label `job`, as a scrape sets it, so that inhibition rules apply to scraped and pushed alerts alike.
    pub job: String,
    /// Additional labels on every alert.
    pub labels: BTreeMap<String, String>,
    /// Contains the bearer token; read again for each push.
    pub token_file: Option<PathBuf>,
    /// A CA bundle, trusted in addition to the system roots.
    pub ca_file: Option<PathBuf>,
    /// Time between two pushes of a firing alert.
    pub resend_interval: Duration,
}

/// Checks the content of a `secretFile`.
pub fn check_secret(text: &str) -> Result<(), String> {
    webhook::parse_keys(text).map(drop)
}

/// The receiver name of Kubernetes Events.
pub const EVENTS_RECEIVER: &str = "events";
/// The receiver name of the heartbeat.
pub const HEARTBEAT_RECEIVER: &str = "heartbeat";

impl NotifyOptions {
    /// Whether no receiver is configured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.events && self.webhooks.is_empty() && self.alertmanagers.is_empty()
    }

    /// Whether an API server is required.
    #[must_use]
    pub fn needs_cluster(&self) -> bool {
        self.events || self.outbox_config_map.is_some()
    }
}
