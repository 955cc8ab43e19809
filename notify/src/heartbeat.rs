//! The heartbeat: a request at a fixed interval while everything works. A service such as Healthchecks alerts people when the
//! requests stop, so that the death of the aggregator is noticed without Prometheus.

use std::{path::PathBuf, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    HEARTBEAT_RECEIVER,
    http::{self, DeliveryOutcome},
    metrics::{DeliveryResult, NotifyMetrics},
    notifier::NotifierError,
};

/// `notify.heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatOptions {
    /// Where the address is.
    pub address: HeartbeatAddress,
    /// A CA bundle, trusted in addition to the system roots.
    pub ca_file: Option<PathBuf>,
    /// Time between two requests.
    pub interval: Duration,
}

/// The address that receives GET requests. Anyone who knows it can hide the death of the aggregator, so it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeartbeatAddress {
    /// In the configuration.
    Url(Url),
    /// In a file that is read again for each request, so that it can be rotated.
    File(PathBuf),
}

/// Sends the heartbeat.
#[derive(Debug)]
pub struct Heartbeat {
    options: HeartbeatOptions,
    client: reqwest::Client,
    metrics: NotifyMetrics,
}

impl Heartbeat {
    /// Creates the sender.
    ///
    /// # Errors
    /// The CA file cannot be used.
    pub fn new(options: HeartbeatOptions, metrics: NotifyMetrics) -> Result<Self, NotifierError> {
        let client = http::build_client(options.ca_file.as_deref())
            .map_err(|reason| NotifierError::new(HEARTBEAT_RECEIVER, reason))?;
        Ok(Self {
            options,
            client,
            metrics,
        })
    }

    /// Sends a request at each interval in which `works` returns true, until cancelled. A failed request is not repeated: the next
    /// one follows soon, and the service waits for more than one.
    pub async fn run(self, works: impl Fn() -> bool + Send, cancelled: CancellationToken) {
        self.metrics.initialize(HEARTBEAT_RECEIVER);
        let mut due = interval(self.options.interval);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_error = None;
        loop {
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = due.tick() => {}
            }
            if !works() {
                continue;
            }
            let outcome = tokio::select! {
                () = cancelled.cancelled() => return,
                outcome = self.send() => outcome,
            };
            let (result, error) = match outcome {
                DeliveryOutcome::Delivered(_) => (DeliveryResult::Delivered, None),
                DeliveryOutcome::Retry { why, .. } => (DeliveryResult::Failed, Some(why)),
                DeliveryOutcome::Rejected { why } => (DeliveryResult::Refused, Some(why)),
            };
            self.metrics.count(HEARTBEAT_RECEIVER, result);
            match &error {
                Some(reason) if error != last_error => {
                    tracing::warn!(
                        reason,
                        "cannot send the heartbeat; its receiver will report the aggregator as dead"
                    );
                }
                None if last_error.is_some() => tracing::info!("the heartbeat is sent again"),
                Some(_) | None => {}
            }
            last_error = error;
        }
    }

    /// Sends one request.
    pub(super) async fn send(&self) -> DeliveryOutcome {
        let url = match &self.options.address {
            HeartbeatAddress::Url(url) => url.clone(),
            HeartbeatAddress::File(path) => match read_address(path) {
                Ok(url) => url,
                Err(reason) => return DeliveryOutcome::retry(reason),
            },
        };
        http::send(self.client.get(url)).await
    }
}

/// Reads the address from a file.
///
/// # Errors
/// Says what was expected, without quoting the content.
pub fn read_address(path: &std::path::Path) -> Result<Url, String> {
    let text = http::read_trimmed(path)?;
    let url = Url::parse(&text).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| {
            format!(
                "{} does not contain an address like https://hc-ping.com/UUID",
                path.display()
            )
        })
}
