//! The outbox writer: updates the outbox from views, persists it, and releases notifications once they are persisted.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use parallax_kubernetes::api_client::ApiClient;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    EVENTS_RECEIVER, NotifyOptions,
    alertmanager::AlertmanagerClient,
    content::NotificationContent,
    delivery_worker::{self, NotificationTransport, sleep_or_cancelled},
    events::EventWriter,
    outbox::OutboxInput,
    state::NotificationState,
    webhook::WebhookClient,
};

/// How long messages wait for the outbox to be persisted: a late notification is worse than a repeated one.
const PERSIST_TIMEOUT: Duration = Duration::from_secs(3);
/// Time until a failed outbox store is tried again.
const PERSIST_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long a new leader tries to read the persisted outbox. After that, receivers may get messages twice.
const OUTBOX_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time between two updates.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

type NotifierJob = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The outbox writer and the delivery workers of all receivers, ready to run.
pub struct Notifier {
    state: Arc<NotificationState>,
    jobs: Vec<Box<dyn FnOnce(CancellationToken) -> NotifierJob + Send>>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier")
            .field("workers", &self.jobs.len())
            .finish_non_exhaustive()
    }
}

/// A receiver whose configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("notify: {receiver}: {reason}")]
pub struct NotifierError {
    receiver: String,
    reason: String,
}

impl NotifierError {
    pub(super) fn new(receiver: &str, reason: String) -> Self {
        Self {
            receiver: receiver.to_owned(),
            reason,
        }
    }
}

impl Notifier {
    /// Creates a delivery worker for each receiver.
    pub fn new(
        state: Arc<NotificationState>,
        options: &NotifyOptions,
        client: Option<&ApiClient>,
    ) -> Result<Self, NotifierError> {
        let mut notifier = Self {
            state,
            jobs: Vec::new(),
        };
        let wrong = |receiver: &str| {
            let receiver = receiver.to_owned();
            move |reason| NotifierError::new(&receiver, reason)
        };
        for webhook in &options.webhooks {
            let carrier = WebhookClient::new(webhook.clone()).map_err(wrong(&webhook.name))?;
            notifier.add_receiver(&webhook.name, carrier);
        }
        for alertmanager in &options.alertmanagers {
            let carrier = AlertmanagerClient::new(alertmanager.clone()).map_err(wrong(&alertmanager.name))?;
            notifier.add_receiver(&alertmanager.name, carrier);
        }
        if let Some(client) = client.filter(|_| options.events) {
            let carrier = EventWriter::new(client.clone(), notifier.state.replica.name());
            notifier.add_receiver(EVENTS_RECEIVER, carrier);
        }
        Ok(notifier)
    }

    pub(super) fn add_receiver(
        &mut self,
        name: &str,
        transport: impl NotificationTransport + Send + Sync + 'static,
    ) {
        self.state.add_receiver(name, transport.kind(), transport.mode());
        let (state, name) = (self.state.clone(), name.to_owned());
        self.jobs.push(Box::new(move |cancelled| {
            Box::pin(delivery_worker::run(state, name, transport, cancelled))
        }));
    }

    #[cfg(test)]
    pub(super) const fn without_receivers(state: Arc<NotificationState>) -> Self {
        Self {
            state,
            jobs: Vec::new(),
        }
    }

    /// Runs until cancelled. Deliveries under way then end within a bounded time, and their results are persisted.
    pub async fn run(self, cancelled: CancellationToken) {
        if self.jobs.is_empty() {
            return;
        }
        if !self.state.outbox_store.is_persistent() {
            tracing::warn!(
                "notifications are in the memory of this process only; set notify.configMap or store, or a restart may repeat a notification or omit a recovery"
            );
        }
        let ended = CancellationToken::new();
        let couriers = join_all(self.jobs.into_iter().map(|job| job(cancelled.clone())));
        let couriers = async {
            couriers.await;
            ended.cancel();
        };
        tokio::join!(couriers, run_outbox_writer(&self.state, &cancelled, &ended));
    }
}

/// Writes the outbox until all delivery workers have ended.
async fn run_outbox_writer(
    state: &NotificationState,
    cancelled: &CancellationToken,
    ended: &CancellationToken,
) {
    let mut views = state.views.clone();
    let mut done = state.subscribe_deliveries();
    let mut changes = state.replica.changes();
    let mut led = None;
    let mut known = true;
    let mut retry = Instant::now();
    let mut last_error = None;
    loop {
        let epoch = state.replica.role().plan_identity().map(|(epoch, _)| epoch);
        if epoch.is_some() && epoch != led {
            // The previous leader has sent notifications; the outbox store has them.
            known = restore_outbox(state, cancelled).await;
            led = epoch;
        }
        done.borrow_and_update();
        if epoch.is_some() && !cancelled.is_cancelled() {
            update_outbox(state);
        }
        // A former leader persists its last deliveries when it stops; the write merges them with what the next leader
        // wrote.
        if led.is_some() && (epoch.is_some() || cancelled.is_cancelled()) {
            persist_outbox(state, &mut known, &mut retry, &mut last_error).await;
        }
        if !cancelled.is_cancelled() {
            led = epoch;
        }
        if ended.is_cancelled() {
            return;
        }
        tokio::select! {
            () = ended.cancelled() => {
                // The last write, even if one failed a moment ago.
                retry = Instant::now();
            }
            seen = views.changed(), if !cancelled.is_cancelled() => {
                if seen.is_err() {
                    // The engine task has ended; shutdown follows.
                    sleep_or_cancelled(UPDATE_INTERVAL, ended).await;
                }
            }
            _ = done.changed() => {}
            () = changes.next() => {}
            () = sleep_until(Instant::now() + UPDATE_INTERVAL) => {}
        }
    }
}

/// Reads the outbox of the previous leader. Returns whether that succeeded.
async fn restore_outbox(state: &NotificationState, cancelled: &CancellationToken) -> bool {
    let give_up = Instant::now() + OUTBOX_READ_TIMEOUT;
    loop {
        match state.outbox_store.read().await {
            Ok(outbox) => {
                state.replace_outbox(outbox);
                return true;
            }
            Err(reason) => {
                state.record_persist_error(reason.clone());
                if Instant::now() >= give_up || cancelled.is_cancelled() {
                    tracing::warn!(reason = %reason, "cannot read the notifications that were sent before; receivers may get some of them again");
                    return false;
                }
            }
        }
        sleep_or_cancelled(UPDATE_INTERVAL, cancelled).await;
    }
}

fn update_outbox(notifications: &NotificationState) {
    let view = notifications.views.borrow().clone();
    let (topology, publishers) = {
        let state = notifications.topology.borrow();
        (state.topology.clone(), state.publishers.clone())
    };
    let seen = OutboxInput {
        view: &view,
        now: notifications.clock.now(),
        started_at: notifications.clock.start(),
        is_handled: &|id, targets| {
            notifications.actions.state(id, targets) != crate::incident_actions::ActionState::None
        },
        render: &|incident, grade| {
            NotificationContent::from_incident(
                incident,
                grade,
                (&topology, &publishers),
                &notifications.links,
            )
        },
    };
    notifications.update_outbox(|outbox| outbox.update(&seen));
}

/// Persists the outbox if it has changed, then releases the notifications that waited for it.
async fn persist_outbox(
    state: &NotificationState,
    restored: &mut bool,
    retry: &mut Instant,
    last_error: &mut Option<String>,
) {
    if let Some((version, outbox)) = state.unpersisted()
        && Instant::now() >= *retry
    {
        let writing = async {
            let mut outbox = outbox;
            let mut joined = None;
            // The previous content must not be overwritten unread.
            if !*restored {
                outbox.merge(state.outbox_store.read().await?);
                *restored = true;
                joined = Some(outbox.clone());
            }
            Ok(state
                .outbox_store
                .write(&outbox, state.clock.now())
                .await?
                .or(joined))
        };
        let wrote = timeout(PERSIST_TIMEOUT, writing).await;
        match wrote.unwrap_or_else(|_| Err("the outbox store does not respond in time".to_owned())) {
            Ok(joined) => {
                state.mark_persisted(version, joined);
                if last_error.take().is_some() {
                    tracing::info!("notifications are persisted again");
                }
            }
            Err(reason) => {
                *retry = Instant::now() + PERSIST_RETRY_DELAY;
                if last_error.as_ref() != Some(&reason) {
                    tracing::warn!(reason = %reason, "cannot persist notifications; they are sent anyway, and may be repeated after a restart");
                    *last_error = Some(reason.clone());
                }
                state.record_persist_error(reason);
            }
        }
    }
    state.release_persisted();
}
