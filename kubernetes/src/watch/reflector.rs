//! Lists one kind of object and then watches it indefinitely.
//!
//! It issues its own list and watch requests with kube's client instead of using kube's `watcher`. `watcher`
//! reports neither bookmarks nor the resumption of a broken watch, and does not time out lists, so a consumer
//! cannot tell whether the known objects are current.

mod failure;
mod list;

use std::time::Duration;

use futures_util::TryStreamExt;
use kube::{
    Client,
    core::{Request, WatchEvent, params::WatchParams},
};
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};

use crate::watch::{
    WatchTiming, WatchedResource,
    backoff::WatchBackoff,
    health::{WatchFailure, WatchFailureReason},
    key::{Key, key_of, version_of},
};

/// How long the server keeps one watch open.
const WATCH_SECONDS: u32 = 290;

/// Maximum length of an error text in characters.
const MAX_ERROR_LENGTH: usize = 300;

/// An update from one watch.
#[derive(Debug)]
pub enum WatchUpdate<T> {
    /// A complete list, and the number of objects in it that could not be parsed.
    Listed(Vec<T>, u64),
    /// An object was added or modified.
    Applied(Box<T>),
    /// An object was deleted.
    Deleted(Key),
    /// An object cannot be parsed; its last known version stays.
    Unreadable,
    /// The watch is open.
    Live,
    /// The API server does not know the resource.
    Absent,
    /// A list or watch failed.
    Failed(WatchFailure),
}

/// Lists and watches one resource and sends the updates to a channel.
pub struct Reflector<S: WatchedResource> {
    /// The client of the API server.
    pub client: Client,
    /// The resource to list and watch.
    pub source: S,
    /// Label selector that restricts the objects.
    pub label_selector: Option<String>,
    /// Timeouts and backoff.
    pub timing: WatchTiming,
    /// Receives the updates.
    pub updates: mpsc::Sender<(S, WatchUpdate<S::Object>)>,
}

/// The receiver was dropped.
#[derive(Debug)]
struct ReceiverDropped;

/// State of the attempts to list and watch since the last response.
struct WatchAttempts {
    backoff: WatchBackoff,
    /// Reason of the last failure; each run of failures with the same reason is logged once.
    last_logged: Option<WatchFailureReason>,
}

impl WatchAttempts {
    /// Records a response. Returns whether an attempt had failed before.
    fn reset(&mut self) -> bool {
        self.backoff.reset();
        self.last_logged.take().is_some()
    }
}

/// Why a watch ended.
enum WatchEnd {
    /// It expired as planned, or broke after the known version, and can resume from there.
    Resume,
    /// The known version is too old to resume from.
    Relist,
    /// No event arrived for as long as a watch may be silent.
    Idle,
    Failed(WatchFailure),
}

impl<S: WatchedResource> Reflector<S> {
    /// Runs until the receiver is dropped.
    pub async fn run(self) {
        let mut attempts = WatchAttempts {
            backoff: WatchBackoff::new(self.timing.first_retry_delay, self.timing.max_retry_delay),
            last_logged: None,
        };
        let _deaf: Result<(), ReceiverDropped> = async {
            // Time without any response before the next list.
            let mut silent = Duration::ZERO;
            loop {
                let Some(version) = self.list(silent, &mut attempts).await? else {
                    continue;
                };
                silent = self.watch_until_relist(version, &mut attempts).await?;
            }
        }
        .await;
    }

    async fn send(&self, update: WatchUpdate<S::Object>) -> Result<(), ReceiverDropped> {
        self.updates
            .send((self.source.clone(), update))
            .await
            .map_err(|_| ReceiverDropped)
    }

    /// Reports a failure and waits before the next attempt.
    async fn report_failure(
        &self,
        failure: WatchFailure,
        attempts: &mut WatchAttempts,
    ) -> Result<(), ReceiverDropped> {
        let reason = failure.reason.label();
        // An outage of the API server is logged once per resource and reason. For optional resources, it is
        // logged once regardless of the reason.
        let repeated = attempts.last_logged.replace(failure.reason) == Some(failure.reason);
        if repeated || self.source.is_optional() && !attempts.backoff.has_no_failures() {
            tracing::debug!(resource = %self.source, reason, message = %failure, "watch still fails");
        } else {
            tracing::warn!(resource = %self.source, reason, message = %failure, "cannot watch; keeping the last known objects");
        }
        let wait = attempts.backoff.next(failure.retry_after);
        self.send(WatchUpdate::Failed(failure)).await?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Watches, resuming as needed, until a new list is needed. Returns the time without any response until
    /// then.
    async fn watch_until_relist(
        &self,
        mut version: String,
        attempts: &mut WatchAttempts,
    ) -> Result<Duration, ReceiverDropped> {
        loop {
            match self.watch_once(&mut version, attempts).await? {
                // Avoid reopening immediately a watch that ends immediately.
                WatchEnd::Resume => tokio::time::sleep(attempts.backoff.next(None)).await,
                WatchEnd::Relist => {
                    let message = "the resource version is too old to resume from; listing again";
                    let failure = self.failure(WatchFailureReason::Gone, &message);
                    self.send(WatchUpdate::Failed(failure)).await?;
                    tokio::time::sleep(attempts.backoff.next(None)).await;
                    return Ok(Duration::ZERO);
                }
                // If etcd sends no progress notifications, a watch of unchanging objects receives no
                // bookmarks. Only a new list distinguishes this from a watch that lost its events, and
                // recovers what was lost.
                WatchEnd::Idle => {
                    let silence = self.timing.idle_timeout;
                    tracing::debug!(resource = %self.source, seconds = silence.as_secs_f64(), "watch is silent; listing again");
                    return Ok(silence);
                }
                WatchEnd::Failed(failure) => self.report_failure(failure, attempts).await?,
            }
        }
    }

    async fn watch_once(
        &self,
        version: &mut String,
        attempts: &mut WatchAttempts,
    ) -> Result<WatchEnd, ReceiverDropped> {
        let params = WatchParams {
            label_selector: self.label_selector.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = self.request();
        let request = if self.source.metadata_only() {
            request.watch_metadata(&params, version)
        } else {
            request.watch(&params, version)
        };
        let opened = match request {
            Ok(request) => {
                timeout(
                    self.timing.request_timeout,
                    self.client.request_events::<Value>(request),
                )
                .await
            }
            Err(error) => return Ok(WatchEnd::Failed(self.failure(WatchFailureReason::Other, &error))),
        };
        let events = match opened {
            Ok(Ok(events)) => events,
            Ok(Err(error)) => return Ok(self.end_of_error(&error)),
            Err(_) => {
                let message = format!(
                    "watch not opened within {} s",
                    self.timing.request_timeout.as_secs_f64()
                );
                let mut failure = self.failure(WatchFailureReason::Timeout, &message);
                failure.silent_for = self.timing.request_timeout;
                return Ok(WatchEnd::Failed(failure));
            }
        };
        tokio::pin!(events);
        self.send(WatchUpdate::Live).await?;
        loop {
            let event = match timeout(self.timing.idle_timeout, events.try_next()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None)) => return Ok(WatchEnd::Resume),
                Ok(Err(error)) => return Ok(self.end_of_error(&error)),
                Err(_) => return Ok(WatchEnd::Idle),
            };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.record_version(&object, version);
                    let update = self.parse(object).map_or(WatchUpdate::Unreadable, |parsed| {
                        WatchUpdate::Applied(Box::new(parsed))
                    });
                    self.send(update).await?;
                }
                WatchEvent::Deleted(object) => {
                    self.record_version(&object, version);
                    self.send(WatchUpdate::Deleted(key_of(&object))).await?;
                }
                WatchEvent::Bookmark(mark) => *version = mark.metadata.resource_version,
                WatchEvent::Error(status) => return Ok(self.end_of_status(&status)),
            }
            // An event proves that the watch works, so earlier failures are over.
            if attempts.reset() {
                tracing::info!(resource = %self.source, "watch resumed");
            }
        }
    }

    fn record_version(&self, object: &Value, version: &mut String) {
        if let Some(known) = version_of(object) {
            version.replace_range(.., known);
        } else {
            tracing::debug!(resource = %self.source, "an event has no resource version");
        }
    }

    fn parse(&self, object: Value) -> Option<S::Object> {
        let key = key_of(&object);
        self.source
            .read(object)
            .map_err(|reason| {
                let reason: String = reason.chars().take(MAX_ERROR_LENGTH).collect();
                tracing::warn!(resource = %self.source, %key, %reason, "cannot parse an object; skipping it");
            })
            .ok()
    }

    fn request(&self) -> Request {
        Request::new(self.source.path())
    }
}
