//! State that the outbox writer and the delivery workers share, and its status for API, page and metrics.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parallax_api::{
    links::ExternalLinks,
    notifications::{ReceiverState, ReceiverStatusList, ReceiverView},
};
use parallax_diagnosis::view::View;
use parallax_kubernetes::{replicas::ReplicaState, topology_state::TopologyState};
use parallax_model::EventTime;
use parallax_runtime::Clock;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use super::{
    delivery_pace::DeliveryPace,
    metrics::{DeliveryResult, NotifyMetrics},
    notification::ReceiverMode,
    outbox::{Delivery, Outbox, ReceiverMap},
    outbox_store::OutboxStore,
};
use crate::incident_actions;

/// Delivery status of one receiver.
#[derive(Debug, Clone)]
pub(super) struct ReceiverProgress {
    pub(super) way: &'static str,
    pub(super) manner: ReceiverMode,
    pub(super) delivered: Option<EventTime>,
    /// Time of the first failure, and the latest error.
    pub(super) failing: Option<(EventTime, String)>,
    /// Time of the latest rejection, and its reason.
    pub(super) refused: Option<(EventTime, String)>,
}

#[derive(Debug, Default)]
struct NotificationQueues {
    outbox: Outbox,
    receivers: BTreeMap<String, ReceiverProgress>,
    /// Incremented by each change that must be persisted.
    version: u64,
    /// The persisted version.
    kept: u64,
    /// Why the outbox store cannot be used.
    unkept: Option<String>,
}

/// State that the outbox writer and the delivery workers share.
#[derive(Debug)]
pub struct NotificationState {
    pub(super) clock: Clock,
    pub(super) replica: ReplicaState,
    pub(super) handling: Arc<incident_actions::ActionManager>,
    pub(super) views: watch::Receiver<Arc<View>>,
    pub(super) topology: watch::Receiver<TopologyState>,
    pub(super) links: Arc<ExternalLinks>,
    pub(super) vault: OutboxStore,
    metrics: NotifyMetrics,
    inner: Mutex<NotificationQueues>,
    /// Wakes the delivery workers.
    bell: watch::Sender<u64>,
    /// Wakes the outbox writer.
    done: watch::Sender<u64>,
}

/// The next step of a delivery worker.
pub(super) enum NextDelivery {
    Go(Box<Delivery>),
    /// Nothing is due before this time.
    At(Instant),
    Nothing,
}

/// Sources of the notification state.
pub struct NotificationContext {
    /// Event time.
    pub clock: Clock,
    /// Whether this replica leads; only the leader notifies.
    pub replica: ReplicaState,
    /// Acknowledgements, silences and maintenance windows.
    pub handling: Arc<incident_actions::ActionManager>,
    /// The current incidents.
    pub views: watch::Receiver<Arc<View>>,
    /// The current topology.
    pub topology: watch::Receiver<TopologyState>,
    /// Links to dashboards and to the page.
    pub links: Arc<ExternalLinks>,
}

impl NotificationState {
    /// Notifications without a receiver.
    #[must_use]
    pub fn new(around: NotificationContext, vault: OutboxStore, metrics: NotifyMetrics) -> Self {
        let NotificationContext {
            clock,
            replica,
            handling,
            views,
            topology,
            links,
        } = around;
        Self {
            clock,
            replica,
            handling,
            views,
            topology,
            links,
            vault,
            metrics,
            inner: Mutex::default(),
            bell: watch::Sender::new(0),
            done: watch::Sender::new(0),
        }
    }

    /// Registers a receiver.
    pub(super) fn tell(&self, name: &str, way: &'static str, manner: ReceiverMode) {
        self.metrics.known(name);
        let fares = ReceiverProgress {
            way,
            manner,
            delivered: None,
            failing: None,
            refused: None,
        };
        self.inner.lock().receivers.insert(name.to_owned(), fares);
    }

    fn receivers(inner: &NotificationQueues) -> ReceiverMap {
        let all = inner.receivers.iter();
        all.map(|(name, fares)| (name.clone(), fares.manner)).collect()
    }

    /// Changes the outbox. `change` returns whether the result must be persisted.
    pub(super) fn change(&self, change: impl FnOnce(&mut Outbox) -> bool) {
        let now = self.clock.now();
        let changed = {
            let mut inner = self.inner.lock();
            let mut changed = change(&mut inner.outbox);
            let receivers = Self::receivers(&inner);
            let before = inner.outbox.letters.len();
            let lost = inner.outbox.tidy(&receivers, now);
            changed |= inner.outbox.letters.len() != before;
            for receiver in lost {
                self.metrics.count(&receiver, DeliveryResult::Dropped);
                tracing::warn!(
                    receiver,
                    "the outbox is full; dropped a notification that this receiver has not received yet"
                );
            }
            inner.version += u64::from(changed);
            changed
        };
        if changed {
            self.ring();
        }
    }

    /// Replaces the outbox with the persisted one when this replica starts to lead.
    pub(super) fn replace(&self, outbox: Outbox) {
        let mut inner = self.inner.lock();
        inner.outbox = outbox;
        inner.kept = inner.version;
    }

    /// Returns the version and content to persist, if the outbox store lacks them.
    pub(super) fn unwritten(&self) -> Option<(u64, Outbox)> {
        let inner = self.inner.lock();
        (inner.version > inner.kept).then(|| (inner.version, inner.outbox.clone()))
    }

    /// Records that a version is persisted, and merges the deliveries of another writer.
    pub(super) fn written(&self, version: u64, joined: Option<Outbox>) {
        let mut inner = self.inner.lock();
        inner.kept = inner.kept.max(version);
        inner.unkept = None;
        if let Some(joined) = joined {
            inner.outbox.join(joined);
        }
    }

    /// Records that the outbox store cannot be used.
    pub(super) fn unwritable(&self, why: String) {
        self.inner.lock().unkept = Some(why);
    }

    /// Releases the notifications that waited to be persisted.
    pub(super) fn release(&self) {
        let released = {
            let mut inner = self.inner.lock();
            let held = inner.outbox.letters.values_mut().filter(|letter| letter.held);
            held.map(|letter| letter.held = false).count()
        };
        if released > 0 {
            self.ring();
        }
    }

    fn ring(&self) {
        self.bell.send_modify(|rung| *rung = rung.wrapping_add(1));
    }

    pub(super) fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    pub(super) fn done(&self) -> watch::Receiver<u64> {
        self.done.subscribe()
    }

    /// Returns what a receiver's worker does next.
    pub(super) fn next(&self, receiver: &str, pace: &mut DeliveryPace) -> NextDelivery {
        let (now, at) = (Instant::now(), self.clock.now());
        let inner = self.inner.lock();
        let Some(manner) = inner.receivers.get(receiver).map(|fares| fares.manner) else {
            return NextDelivery::Nothing;
        };
        pace.retain(|thread| inner.outbox.letters.contains_key(thread));
        if let Some(until) = pace.rests(now) {
            return NextDelivery::At(until);
        }
        let turn = |thread: &str| {
            let free = pace.letter_rests(thread, now).is_none();
            free.then(|| pace.failures(thread))
        };
        if let Some(errand) = inner.outbox.errand(receiver, manner, at, turn) {
            return NextDelivery::Go(Box::new(errand));
        }
        let letters = inner.outbox.letters.keys();
        let resting = letters.filter_map(|thread| pace.letter_rests(thread, now)).min();
        let reminder = inner.outbox.reminder(receiver, manner).map(|due| {
            let left = if due > at {
                due - at
            } else {
                parallax_model::Micros(0)
            };
            // Event time has microseconds; one millisecond later the reminder is due for certain.
            now + Duration::from(left) + Duration::from_millis(1)
        });
        match resting.into_iter().chain(reminder).min() {
            Some(at) => NextDelivery::At(at),
            None => NextDelivery::Nothing,
        }
    }

    /// Records a delivery.
    pub(super) fn delivered(&self, receiver: &str, errand: &Delivery, mark: Value) {
        let now = self.clock.now();
        self.metrics.count(receiver, DeliveryResult::Delivered);
        let mut inner = self.inner.lock();
        if inner.outbox.heard(receiver, errand, mark, now) {
            inner.version += 1;
        }
        let well = inner.receivers.get_mut(receiver).and_then(|fares| {
            fares.delivered = Some(now);
            fares.failing.take()
        });
        drop(inner);
        if well.is_some() {
            tracing::info!(receiver, "notifications are delivered again");
        }
        self.done.send_modify(|done| *done = done.wrapping_add(1));
    }

    /// Records a failed attempt, which is retried.
    pub(super) fn failed(&self, receiver: &str, errand: &Delivery, why: String) {
        let now = self.clock.now();
        self.metrics.count(receiver, DeliveryResult::Failed);
        let mut inner = self.inner.lock();
        let Some(fares) = inner.receivers.get_mut(receiver) else {
            return;
        };
        let said = fares.failing.as_ref().is_some_and(|(_, before)| *before == why);
        if !said {
            // Logged once per reason: a receiver that is down for a day must not flood the log.
            tracing::warn!(receiver, way = fares.way, incident = %errand.letter.content.incident, reason = %why,
                "cannot deliver a notification; retrying with increasing delays. Check the receiver, and its entry under `notify` in the configuration");
        }
        let since = fares.failing.as_ref().map_or(now, |(since, _)| *since);
        fares.failing = Some((since, why));
    }

    /// Records a permanent rejection.
    pub(super) fn refused(&self, receiver: &str, errand: &Delivery, why: String) {
        let now = self.clock.now();
        self.metrics.count(receiver, DeliveryResult::Refused);
        let mut inner = self.inner.lock();
        inner.outbox.refused(receiver, errand);
        inner.version += 1;
        if let Some(fares) = inner.receivers.get_mut(receiver) {
            tracing::error!(receiver, way = fares.way, incident = %errand.letter.content.incident, reason = %why,
                "the receiver rejected a notification, which is dropped; fix its entry under `notify` in the configuration");
            fares.refused = Some((now, why));
            // The receiver responds.
            fares.failing = None;
        }
        drop(inner);
        self.done.send_modify(|done| *done = done.wrapping_add(1));
    }

    /// For each receiver: the number of pending notifications, and the age of the oldest in seconds.
    pub fn pending(&self) -> Vec<(String, usize, f64)> {
        let now = self.clock.now();
        let leads = self.replica.leads();
        let inner = self.inner.lock();
        let all = inner.receivers.iter().map(|(name, fares)| {
            let (count, oldest) = if leads {
                inner.outbox.pending(name, fares.manner)
            } else {
                (0, None)
            };
            let age = oldest.map_or(0.0, |oldest| (now - oldest).as_secs_f64());
            (name.clone(), count, age)
        });
        all.collect()
    }

    /// Whether pending notifications would be lost with this process.
    pub fn is_unkept(&self) -> bool {
        !self.vault.keeps() || self.inner.lock().unkept.is_some()
    }

    /// Status for API and page.
    pub fn shown(&self) -> ReceiverStatusList {
        let leads = self.replica.leads();
        let inner = self.inner.lock();
        let receivers = inner.receivers.iter().map(|(name, fares)| {
            let (pending, oldest) = if leads {
                inner.outbox.pending(name, fares.manner)
            } else {
                (0, None)
            };
            ReceiverView {
                name: name.clone(),
                way: fares.way.to_owned(),
                standing: match &fares.failing {
                    Some((since, reason)) => ReceiverState::Failing {
                        since: *since,
                        reason: reason.clone(),
                    },
                    None => ReceiverState::Well,
                },
                pending,
                oldest,
                delivered: fares.delivered,
                refused: fares.refused.as_ref().map(|(at, _)| *at),
                refused_because: fares.refused.as_ref().map(|(_, why)| why.clone()),
            }
        });
        ReceiverStatusList {
            receivers: receivers.collect(),
            kept: self.vault.keeps() && inner.unkept.is_none(),
            unkept_because: inner.unkept.clone().or_else(|| {
                (!self.vault.keeps())
                    .then(|| "neither notify.configMap nor store is set, so a restart may repeat a notification or omit a recovery".to_owned())
            }),
        }
    }
}
