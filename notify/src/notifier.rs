//! The clerk: turns what is seen into letters, keeps the vault, and lets couriers go only with what is in it.

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

/// The vault is written at once, but waited for so long only: calling people late is worse than calling them twice.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time until a vault that cannot be used is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long the past is waited for when we begin to lead. Then a receiver may hear twice what it knew.
const PAST: Duration = Duration::from_secs(30);
/// Longest time between two looks.
const LOOK: Duration = Duration::from_secs(1);

type NotifierJob = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Everything that tells somebody something, ready to run.
pub struct Notifier {
    desk: Arc<NotificationState>,
    jobs: Vec<Box<dyn FnOnce(CancellationToken) -> NotifierJob + Send>>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staff")
            .field("couriers", &self.jobs.len())
            .finish_non_exhaustive()
    }
}

/// A receiver that cannot be told anything as it is configured.
#[derive(Debug, thiserror::Error)]
#[error("notify: {receiver}: {why}")]
pub struct NotifierError {
    receiver: String,
    why: String,
}

impl Notifier {
    /// Couriers for all receivers.
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

    /// Works until cancelled; what is under way then ends within a bounded time, and what was heard is kept.
    pub async fn run(self, cancelled: CancellationToken) {
        if self.jobs.is_empty() {
            return;
        }
        if !self.desk.vault.keeps() {
            tracing::warn!(
                "notifications are remembered by this process only; set notify.configMap, or store, so that a restart neither tells twice nor forgets an end"
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

/// Until all couriers have ended.
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
            // Who led before has told things; what they were is in the vault.
            known = past(desk, cancelled).await;
            led = epoch;
        }
        done.borrow_and_update();
        if epoch.is_some() && !cancelled.is_cancelled() {
            look(desk);
        }
        // Whoever led has one more thing to say at the end: what was heard meanwhile. It joins what the next one knows.
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
                // The last word, also where it failed a moment ago.
                retry = Instant::now();
            }
            seen = views.changed(), if !cancelled.is_cancelled() => {
                if seen.is_err() {
                    // The diagnosis has ended, and everything with it soon.
                    moment(LOOK, ended).await;
                }
            }
            _ = done.changed() => {}
            () = changes.next() => {}
            () = sleep_until(Instant::now() + LOOK) => {}
        }
    }
}

/// Reads what was told before we began to lead; whether that is known then.
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
                    tracing::warn!(reason = %why, "what was told before is not known; receivers may hear again what they know");
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

/// Writes what the vault lacks, and lets go what waited for it.
async fn keep(desk: &NotificationState, known: &mut bool, retry: &mut Instant, said: &mut Option<String>) {
    if let Some((version, outbox)) = desk.unwritten()
        && Instant::now() >= *retry
    {
        let writing = async {
            let mut outbox = outbox;
            let mut joined = None;
            // What was there before must not be written over.
            if !*known {
                outbox.join(desk.vault.read().await?);
                *known = true;
                joined = Some(outbox.clone());
            }
            Ok(desk.vault.write(&outbox, desk.clock.now()).await?.or(joined))
        };
        let wrote = timeout(PATIENCE, writing).await;
        match wrote.unwrap_or_else(|_| Err("it does not answer in time".to_owned())) {
            Ok(joined) => {
                desk.written(version, joined);
                if said.take().is_some() {
                    tracing::info!("what was told is remembered again");
                }
            }
            Err(why) => {
                *retry = Instant::now() + AGAIN;
                if said.as_ref() != Some(&why) {
                    tracing::warn!(reason = %why, "what was told cannot be remembered; notifications are sent all the same, and may be sent again after a restart");
                    *said = Some(why.clone());
                }
                desk.unwritable(why);
            }
        }
    }
    desk.release();
}
