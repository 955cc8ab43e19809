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
    metrics::{DeliveryResult, NotifyMetrics},
    notification::ReceiverMode,
    outbox::{Delivery, Outbox, ReceiverMap},
    outbox_store::OutboxStore,
    retry_schedule::RetrySchedule,
};
use crate::incident_actions;

/// Delivery status of one receiver.
#[derive(Debug, Clone)]
pub(super) struct ReceiverProgress {
    pub(super) kind: &'static str,
    pub(super) mode: ReceiverMode,
    pub(super) last_delivery: Option<EventTime>,
    /// Time of the first failure, and the latest error.
    pub(super) failing: Option<(EventTime, String)>,
    /// Time of the latest rejection, and its reason.
    pub(super) last_rejection: Option<(EventTime, String)>,
}

#[derive(Debug, Default)]
struct NotificationQueues {
    outbox: Outbox,
    receivers: BTreeMap<String, ReceiverProgress>,
    /// Incremented by each change that must be persisted.
    version: u64,
    /// The persisted version.
    persisted_version: u64,
    /// Why the outbox store cannot be used.
    persist_error: Option<String>,
}

/// State that the outbox writer and the delivery workers share.
#[derive(Debug)]
pub struct NotificationState {
    pub(super) clock: Clock,
    pub(super) replica: ReplicaState,
    pub(super) actions: Arc<incident_actions::ActionManager>,
    pub(super) views: watch::Receiver<Arc<View>>,
    pub(super) topology: watch::Receiver<TopologyState>,
    pub(super) links: Arc<ExternalLinks>,
    pub(super) outbox_store: OutboxStore,
    metrics: NotifyMetrics,
    inner: Mutex<NotificationQueues>,
    /// Wakes the delivery workers.
    outbox_changed: watch::Sender<u64>,
    /// Wakes the outbox writer.
    delivery_finished: watch::Sender<u64>,
}

/// The next step of a delivery worker.
pub(super) enum NextDelivery {
    Send(Box<Delivery>),
    /// Nothing is due before this time.
    WaitUntil(Instant),
    Idle,
}

/// Sources of the notification state.
pub struct NotificationContext {
    /// Event time.
    pub clock: Clock,
    /// Whether this replica leads; only the leader notifies.
    pub replica: ReplicaState,
    /// Acknowledgements, silences and maintenance windows.
    pub actions: Arc<incident_actions::ActionManager>,
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
    pub fn new(context: NotificationContext, outbox_store: OutboxStore, metrics: NotifyMetrics) -> Self {
        let NotificationContext {
            clock,
            replica,
            actions: handling,
            views,
            topology,
            links,
        } = context;
        Self {
            clock,
            replica,
            actions: handling,
            views,
            topology,
            links,
            outbox_store,
            metrics,
            inner: Mutex::default(),
            outbox_changed: watch::Sender::new(0),
            delivery_finished: watch::Sender::new(0),
        }
    }

    /// Registers a receiver.
    pub(super) fn add_receiver(&self, name: &str, kind: &'static str, mode: ReceiverMode) {
        self.metrics.initialize(name);
        let progress = ReceiverProgress {
            kind,
            mode,
            last_delivery: None,
            failing: None,
            last_rejection: None,
        };
        self.inner.lock().receivers.insert(name.to_owned(), progress);
    }

    fn receivers(inner: &NotificationQueues) -> ReceiverMap {
        let all = inner.receivers.iter();
        all.map(|(name, progress)| (name.clone(), progress.mode))
            .collect()
    }

    /// Changes the outbox. `change` returns whether the result must be persisted.
    pub(super) fn update_outbox(&self, change: impl FnOnce(&mut Outbox) -> bool) {
        let now = self.clock.now();
        let changed = {
            let mut inner = self.inner.lock();
            let mut changed = change(&mut inner.outbox);
            let receivers = Self::receivers(&inner);
            let before = inner.outbox.notifications.len();
            let lost = inner.outbox.prune(&receivers, now);
            changed |= inner.outbox.notifications.len() != before;
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
            self.wake_workers();
        }
    }

    /// Replaces the outbox with the persisted one when this replica starts to lead.
    pub(super) fn replace_outbox(&self, outbox: Outbox) {
        let mut inner = self.inner.lock();
        inner.outbox = outbox;
        inner.persisted_version = inner.version;
    }

    /// Returns the version and content to persist, if the outbox store lacks them.
    pub(super) fn unpersisted(&self) -> Option<(u64, Outbox)> {
        let inner = self.inner.lock();
        (inner.version > inner.persisted_version).then(|| (inner.version, inner.outbox.clone()))
    }

    /// Records that a version is persisted, and merges the deliveries of another writer.
    pub(super) fn mark_persisted(&self, version: u64, joined: Option<Outbox>) {
        let mut inner = self.inner.lock();
        inner.persisted_version = inner.persisted_version.max(version);
        inner.persist_error = None;
        if let Some(joined) = joined {
            inner.outbox.merge(joined);
        }
    }

    /// Records that the outbox store cannot be used.
    pub(super) fn record_persist_error(&self, reason: String) {
        self.inner.lock().persist_error = Some(reason);
    }

    /// Releases the notifications that waited to be persisted.
    pub(super) fn release_persisted(&self) {
        let released = {
            let mut inner = self.inner.lock();
            let pending = inner
                .outbox
                .notifications
                .values_mut()
                .filter(|notification| notification.unpersisted);
            pending
                .map(|notification| notification.unpersisted = false)
                .count()
        };
        if released > 0 {
            self.wake_workers();
        }
    }

    fn wake_workers(&self) {
        self.outbox_changed
            .send_modify(|rung| *rung = rung.wrapping_add(1));
    }

    pub(super) fn subscribe_outbox(&self) -> watch::Receiver<u64> {
        self.outbox_changed.subscribe()
    }

    pub(super) fn subscribe_deliveries(&self) -> watch::Receiver<u64> {
        self.delivery_finished.subscribe()
    }

    /// Returns what a receiver's worker does next.
    pub(super) fn next_delivery(&self, receiver: &str, schedule: &mut RetrySchedule) -> NextDelivery {
        let (now, at) = (Instant::now(), self.clock.now());
        let inner = self.inner.lock();
        let Some(manner) = inner.receivers.get(receiver).map(|progress| progress.mode) else {
            return NextDelivery::Idle;
        };
        schedule.retain(|thread| inner.outbox.notifications.contains_key(thread));
        if let Some(until) = schedule.receiver_retry_at(now) {
            return NextDelivery::WaitUntil(until);
        }
        let turn = |thread: &str| {
            let free = schedule.notification_retry_at(thread, now).is_none();
            free.then(|| schedule.failures(thread))
        };
        if let Some(delivery) = inner.outbox.next_delivery(receiver, manner, at, turn) {
            return NextDelivery::Send(Box::new(delivery));
        }
        let threads = inner.outbox.notifications.keys();
        let resting = threads
            .filter_map(|thread| schedule.notification_retry_at(thread, now))
            .min();
        let reminder = inner.outbox.next_reminder(receiver, manner).map(|due| {
            let left = if due > at {
                due - at
            } else {
                parallax_model::Micros(0)
            };
            // Event time has microseconds; one millisecond later the reminder is due for certain.
            now + Duration::from(left) + Duration::from_millis(1)
        });
        match resting.into_iter().chain(reminder).min() {
            Some(at) => NextDelivery::WaitUntil(at),
            None => NextDelivery::Idle,
        }
    }

    /// Records a delivery.
    pub(super) fn record_delivery(&self, receiver: &str, delivery: &Delivery, mark: Value) {
        let now = self.clock.now();
        self.metrics.count(receiver, DeliveryResult::Delivered);
        let mut inner = self.inner.lock();
        if inner.outbox.record_delivery(receiver, delivery, mark, now) {
            inner.version += 1;
        }
        let well = inner.receivers.get_mut(receiver).and_then(|progress| {
            progress.last_delivery = Some(now);
            progress.failing.take()
        });
        drop(inner);
        if well.is_some() {
            tracing::info!(receiver, "notifications are delivered again");
        }
        self.delivery_finished
            .send_modify(|done| *done = done.wrapping_add(1));
    }

    /// Records a failed attempt, which is retried.
    pub(super) fn record_failure(&self, receiver: &str, delivery: &Delivery, reason: String) {
        let now = self.clock.now();
        self.metrics.count(receiver, DeliveryResult::Failed);
        let mut inner = self.inner.lock();
        let Some(progress) = inner.receivers.get_mut(receiver) else {
            return;
        };
        let already_logged = progress
            .failing
            .as_ref()
            .is_some_and(|(_, before)| *before == reason);
        if !already_logged {
            // Logged once per reason: a receiver that is down for a day must not flood the log.
            tracing::warn!(receiver, way = progress.kind, incident = %delivery.notification.content.incident, reason = %reason,
                "cannot deliver a notification; retrying with increasing delays. Check the receiver, and its entry under `notify` in the configuration");
        }
        let since = progress.failing.as_ref().map_or(now, |(since, _)| *since);
        progress.failing = Some((since, reason));
    }

    /// Records a permanent rejection.
    pub(super) fn record_rejection(&self, receiver: &str, delivery: &Delivery, reason: String) {
        let now = self.clock.now();
        self.metrics.count(receiver, DeliveryResult::Refused);
        let mut inner = self.inner.lock();
        inner.outbox.record_rejection(receiver, delivery);
        inner.version += 1;
        if let Some(progress) = inner.receivers.get_mut(receiver) {
            tracing::error!(receiver, way = progress.kind, incident = %delivery.notification.content.incident, reason = %reason,
                "the receiver rejected a notification, which is dropped; fix its entry under `notify` in the configuration");
            progress.last_rejection = Some((now, reason));
            // The receiver responds.
            progress.failing = None;
        }
        drop(inner);
        self.delivery_finished
            .send_modify(|done| *done = done.wrapping_add(1));
    }

    /// For each receiver: the number of pending notifications, and the age of the oldest in seconds.
    pub fn pending(&self) -> Vec<(String, usize, f64)> {
        let now = self.clock.now();
        let leads = self.replica.is_leader();
        let inner = self.inner.lock();
        let all = inner.receivers.iter().map(|(name, progress)| {
            let (count, oldest) = if leads {
                inner.outbox.pending(name, progress.mode)
            } else {
                (0, None)
            };
            let age = oldest.map_or(0.0, |oldest| (now - oldest).as_secs_f64());
            (name.clone(), count, age)
        });
        all.collect()
    }

    /// Whether pending notifications would be lost with this process.
    pub fn is_unpersisted(&self) -> bool {
        !self.outbox_store.is_persistent() || self.inner.lock().persist_error.is_some()
    }

    /// Status for API and page.
    pub fn status(&self) -> ReceiverStatusList {
        let leads = self.replica.is_leader();
        let inner = self.inner.lock();
        let receivers = inner.receivers.iter().map(|(name, progress)| {
            let (pending, oldest) = if leads {
                inner.outbox.pending(name, progress.mode)
            } else {
                (0, None)
            };
            ReceiverView {
                name: name.clone(),
                kind: progress.kind.to_owned(),
                state: match &progress.failing {
                    Some((since, reason)) => ReceiverState::Failing {
                        since: *since,
                        reason: reason.clone(),
                    },
                    None => ReceiverState::Healthy,
                },
                pending,
                oldest_pending: oldest,
                last_delivered: progress.last_delivery,
                last_rejected: progress.last_rejection.as_ref().map(|(at, _)| *at),
                rejected_because: progress
                    .last_rejection
                    .as_ref()
                    .map(|(_, rejection)| rejection.clone()),
            }
        });
        ReceiverStatusList {
            receivers: receivers.collect(),
            persisted: self.outbox_store.is_persistent() && inner.persist_error.is_none(),
            not_persisted_because: inner.persist_error.clone().or_else(|| {
                (!self.outbox_store.is_persistent())
                    .then(|| "neither notify.configMap nor store is set, so a restart may repeat a notification or omit a recovery".to_owned())
            }),
        }
    }
}
