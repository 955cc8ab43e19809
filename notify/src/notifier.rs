//! The outbox writer: updates the outbox from views, persists it, and releases notifications once they are persisted.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use parallax_kubernetes::api_client::ApiClient;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    EVENTS, NotifyOptions,
    alertmanager::AlertmanagerClient,
    content::NotificationContent,
    delivery_worker::{self, NotificationTransport, moment},
    events::EventWriter,
    outbox::EngineIncidents,
    state::NotificationState,
    webhook::WebhookClient,
};

/// How long messages wait for the outbox to be persisted: a late notification is worse than a repeated one.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time until a failed outbox store is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a new leader tries to read the persisted outbox. After that, receivers may get messages twice.
const PAST: Duration = Duration::from_secs(30);
/// Longest time between two updates.
const LOOK: Duration = Duration::from_secs(1);

type NotifierJob = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// The outbox writer and the delivery workers of all receivers, ready to run.
pub struct Notifier {
    desk: Arc<NotificationState>,
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
#[error("notify: {receiver}: {why}")]
pub struct NotifierError {
    receiver: String,
    why: String,
}

impl Notifier {
    /// Creates a delivery worker for each receiver.
    pub fn new(
        desk: Arc<NotificationState>,
        options: &NotifyOptions,
        client: Option<&ApiClient>,
    ) -> Result<Self, NotifierError> {
        let mut staff = Self {
            desk,
            jobs: Vec::new(),
        };
        let wrong = |receiver: &str| {
            let receiver = receiver.to_owned();
            move |why| NotifierError { receiver, why }
        };
        for webhook in &options.webhooks {
            let carrier = WebhookClient::new(webhook.clone()).map_err(wrong(&webhook.name))?;
            staff.engage(&webhook.name, carrier);
        }
        for alertmanager in &options.alertmanagers {
            let carrier = AlertmanagerClient::new(alertmanager.clone()).map_err(wrong(&alertmanager.name))?;
            staff.engage(&alertmanager.name, carrier);
        }
        if let Some(client) = client.filter(|_| options.events) {
            let carrier = EventWriter::new(client.clone(), staff.desk.replica.name());
            staff.engage(EVENTS, carrier);
        }
        Ok(staff)
    }

    pub(super) fn engage(&mut self, name: &str, carrier: impl NotificationTransport + Send + Sync + 'static) {
        self.desk.tell(name, carrier.way(), carrier.manner());
        let (desk, name) = (self.desk.clone(), name.to_owned());
        self.jobs.push(Box::new(move |cancelled| {
            Box::pin(delivery_worker::work(desk, name, carrier, cancelled))
        }));
    }

    #[cfg(test)]
    pub(super) const fn of(desk: Arc<NotificationState>) -> Self {
        Self {
            desk,
            jobs: Vec::new(),
        }
    }

    /// Runs until cancelled. Deliveries under way then end within a bounded time, and their results are persisted.
    pub async fn run(self, cancelled: CancellationToken) {
        if self.jobs.is_empty() {
            return;
        }
        if !self.desk.vault.keeps() {
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
        tokio::join!(couriers, clerk(&self.desk, &cancelled, &ended));
    }
}

/// Writes the outbox until all delivery workers have ended.
async fn clerk(desk: &NotificationState, cancelled: &CancellationToken, ended: &CancellationToken) {
    let mut views = desk.views.clone();
    let mut done = desk.done();
    let mut changes = desk.replica.changes();
    let mut led = None;
    let mut known = true;
    let mut retry = Instant::now();
    let mut said = None;
    loop {
        let epoch = desk.replica.part().planning().map(|(epoch, _)| epoch);
        if epoch.is_some() && epoch != led {
            // The previous leader has sent notifications; the outbox store has them.
            known = past(desk, cancelled).await;
            led = epoch;
        }
        done.borrow_and_update();
        if epoch.is_some() && !cancelled.is_cancelled() {
            look(desk);
        }
        // A former leader persists its last deliveries when it stops; the write merges them with what the next leader
        // wrote.
        if led.is_some() && (epoch.is_some() || cancelled.is_cancelled()) {
            keep(desk, &mut known, &mut retry, &mut said).await;
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
                    moment(LOOK, ended).await;
                }
            }
            _ = done.changed() => {}
            () = changes.next() => {}
            () = sleep_until(Instant::now() + LOOK) => {}
        }
    }
}

/// Reads the outbox of the previous leader. Returns whether that succeeded.
async fn past(desk: &NotificationState, cancelled: &CancellationToken) -> bool {
    let give_up = Instant::now() + PAST;
    loop {
        match desk.vault.read().await {
            Ok(outbox) => {
                desk.replace(outbox);
                return true;
            }
            Err(why) => {
                desk.unwritable(why.clone());
                if Instant::now() >= give_up || cancelled.is_cancelled() {
                    tracing::warn!(reason = %why, "cannot read the notifications that were sent before; receivers may get some of them again");
                    return false;
                }
            }
        }
        moment(LOOK, cancelled).await;
    }
}

fn look(desk: &NotificationState) {
    let view = desk.views.borrow().clone();
    let (topology, publishers) = {
        let state = desk.topology.borrow();
        (state.topology.clone(), state.publishers.clone())
    };
    let seen = EngineIncidents {
        view: &view,
        now: desk.clock.now(),
        start: desk.clock.start(),
        quiet: &|id, targets| {
            desk.handling.standing(id, targets) != crate::incident_actions::ActionState::None
        },
        content: &|incident, grade| {
            NotificationContent::of(incident, grade, (&topology, &publishers), &desk.links)
        },
    };
    desk.change(|outbox| outbox.look(&seen));
}

/// Persists the outbox if it has changed, then releases the notifications that waited for it.
async fn keep(desk: &NotificationState, known: &mut bool, retry: &mut Instant, said: &mut Option<String>) {
    if let Some((version, outbox)) = desk.unwritten()
        && Instant::now() >= *retry
    {
        let writing = async {
            let mut outbox = outbox;
            let mut joined = None;
            // The previous content must not be overwritten unread.
            if !*known {
                outbox.join(desk.vault.read().await?);
                *known = true;
                joined = Some(outbox.clone());
            }
            Ok(desk.vault.write(&outbox, desk.clock.now()).await?.or(joined))
        };
        let wrote = timeout(PATIENCE, writing).await;
        match wrote.unwrap_or_else(|_| Err("the outbox store does not respond in time".to_owned())) {
            Ok(joined) => {
                desk.written(version, joined);
                if said.take().is_some() {
                    tracing::info!("notifications are persisted again");
                }
            }
            Err(why) => {
                *retry = Instant::now() + AGAIN;
                if said.as_ref() != Some(&why) {
                    tracing::warn!(reason = %why, "cannot persist notifications; they are sent anyway, and may be repeated after a restart");
                    *said = Some(why.clone());
                }
                desk.unwritable(why);
            }
        }
    }
    desk.release();
}
