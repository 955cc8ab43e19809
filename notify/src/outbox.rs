//! All notifications, as a value without clock or tasks: which changes are worth a message, what was delivered, what
//! is due.

use std::collections::BTreeMap;

use parallax_api::severity::IncidentSeverity;
use parallax_diagnosis::{
    verdict::{Incident, IncidentState},
    view::{CellState, MatrixCell, VantageState, View},
};
use parallax_model::{EventTime, Micros};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    content::NotificationContent,
    notification::{
        DeliveredState, DueMessage, Notification, NotificationEnding, NotificationPhase, ReceiverMode,
    },
};

/// Maximum number of notifications. An incident is one cause, so there are rarely more than a handful.
pub(super) const MAX_NOTIFICATIONS: usize = 150;
/// Maximum size as JSON, in bytes: the API server limits a `ConfigMap` to 1 MiB.
pub(super) const MAX_BYTES: usize = 768 << 10;
/// How long a notification stays after every receiver got its end: longer than the past that a restarted aggregator
/// replays.
const RETENTION_AFTER_END: Micros = Micros::from_secs(30 * 60);
/// After a message, changes of cause or severity wait this long, so that a developing fault notifies once.
const SETTLE_TIME: Micros = Micros::from_secs(30);
/// After a message, targets and consequences that join the incident wait at least this long, so that one message tells of
/// all that a fault reaches within its first rounds.
const MIN_JOIN_PAUSE: Micros = Micros::from_secs(60);
/// How long after the start an incident can still continue a notification of the previous process.
const ADOPTION_PERIOD: Micros = Micros::from_secs(600);

/// Receivers by name.
pub(super) type ReceiverMap = BTreeMap<String, ReceiverMode>;

/// All notifications, by thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outbox {
    pub(super) notifications: BTreeMap<String, Notification>,
}

/// The engine's current view, and what is needed to compare the outbox with it.
pub(super) struct OutboxInput<'a> {
    pub(super) view: &'a View,
    pub(super) now: EventTime,
    /// When this aggregator started.
    pub(super) started_at: EventTime,
    /// Whether an incident is acknowledged, silenced or in a maintenance window.
    pub(super) is_handled: &'a dyn Fn(&str, &[parallax_model::TargetId]) -> bool,
    /// Renders the content of a notification.
    pub(super) render: &'a dyn Fn(&Incident, IncidentSeverity) -> NotificationContent,
}

/// A message to deliver to one receiver.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Delivery {
    pub(super) notification: Notification,
    pub(super) message: DueMessage,
    /// What was delivered to the receiver before.
    pub(super) previous: Option<DeliveredState>,
}

/// How long after a message new members wait for the next one. The pause doubles with each message, so that an incident
/// that grows for an hour notifies a handful of times.
fn join_pause(notification: &Notification) -> Micros {
    (notification.changed_at - notification.content.opened).max(MIN_JOIN_PAUSE)
}

impl Outbox {
    /// Updates the outbox from the current view. Returns whether the result must be persisted.
    pub(super) fn update(&mut self, seen: &OutboxInput<'_>) -> bool {
        let mut changed = false;
        for incident in &seen.view.incidents {
            changed |= match incident.state {
                IncidentState::Open | IncidentState::Recovering => self.update_open(incident, seen),
                IncidentState::Closed { closed } => self.update_closed(incident, closed, seen),
            };
        }
        changed | self.end_missing(seen)
    }

    fn by_incident(&mut self, id: &str) -> Option<&mut Notification> {
        self.notifications
            .values_mut()
            .find(|notification| notification.content.incident == id)
    }

    fn update_open(&mut self, incident: &Incident, seen: &OutboxInput<'_>) -> bool {
        let grade = IncidentSeverity::of(incident, seen.view);
        let quiet = (seen.is_handled)(&incident.id, &incident.verdict.targets);
        if self.by_incident(&incident.id).is_none() && !self.adopt(incident, seen.view) {
            let notification = Notification {
                thread: incident.id.clone(),
                revision: 1,
                changed_at: seen.now,
                phase: NotificationPhase::Open,
                highest_severity: grade,
                handled: quiet,
                reminders: 0,
                content: (seen.render)(incident, grade),
                delivered: BTreeMap::new(),
                rejected: BTreeMap::new(),
                seen_in_view: true,
                unpersisted: true,
            };
            self.notifications.insert(incident.id.clone(), notification);
            return true;
        }
        let Some(notification) = self.by_incident(&incident.id) else {
            return false;
        };
        notification.seen_in_view = true;
        let again = match notification.phase {
            NotificationPhase::Open => false,
            // A restarted aggregator replays past observations: a failure from before the end does not reopen the
            // notification.
            NotificationPhase::Ended { at, .. } if incident.since > at => true,
            NotificationPhase::Ended { .. } => return false,
        };
        let content = (seen.render)(incident, grade);
        let renamed =
            content.cause != notification.content.cause || content.region != notification.content.region;
        let occurrence = if again {
            incident.occurrences.max(notification.content.occurrence + 1)
        } else {
            notification.content.occurrence.max(incident.occurrences)
        };
        let mut changed = notification.handled != quiet || notification.content.severity != grade;
        notification.handled = quiet;
        let settled = seen.now - notification.changed_at >= SETTLE_TIME;
        let joined = content.member_count() > notification.content.member_count()
            && seen.now - notification.changed_at >= join_pause(notification);
        if again || joined || settled && (renamed || grade > notification.highest_severity) {
            notification.highest_severity = if again {
                grade
            } else {
                notification.highest_severity.max(grade)
            };
            notification.revision += 1;
            notification.changed_at = seen.now;
            notification.phase = NotificationPhase::Open;
            notification.content = NotificationContent {
                occurrence,
                ..content
            };
            notification.unpersisted = true;
            changed = true;
        }
        notification.content.severity = grade;
        changed
    }

    /// Whether an incident continues a notification that the previous process, or another leader, sent under another
    /// id; if so, the notification takes the new id. A notification of the same region is preferred, otherwise one of
    /// the same subject is taken: evidence often renames the region, while two faults of one subject rarely follow
    /// each other unobserved.
    fn adopt(&mut self, incident: &Incident, view: &View) -> bool {
        let subject = super::content::subject_text(&incident.verdict);
        let region = super::content::region_text(&incident.verdict);
        let stands = |notification: &Notification| {
            let id = &notification.content.incident;
            view.incidents.iter().any(|incident| incident.id == *id)
        };
        let mut alike: Vec<&mut Notification> = self
            .notifications
            .values_mut()
            .filter(|notification| {
                !notification.seen_in_view
                    && notification.is_open()
                    && notification.content.subject == subject
            })
            .filter(|notification| !stands(notification))
            .collect();
        alike.sort_by_key(|notification| notification.content.region != region);
        let Some(notification) = alike.into_iter().next() else {
            return false;
        };
        notification.content.incident.clone_from(&incident.id);
        true
    }

    fn update_closed(&mut self, incident: &Incident, at: EventTime, seen: &OutboxInput<'_>) -> bool {
        let quiet = (seen.is_handled)(&incident.id, &incident.verdict.targets);
        match self.by_incident(&incident.id) {
            Some(notification) if notification.is_open() => {
                notification.seen_in_view = true;
                notification.handled = quiet;
                notification.end(at, NotificationEnding::Judged, seen.now);
                true
            }
            // It was never worth a message, or its end is recorded already.
            _ => false,
        }
    }

    /// Ends open notifications whose incident is gone.
    fn end_missing(&mut self, seen: &OutboxInput<'_>) -> bool {
        let mut changed = false;
        let view = seen.view;
        for notification in self
            .notifications
            .values_mut()
            .filter(|notification| notification.is_open())
        {
            if view
                .incidents
                .iter()
                .any(|incident| incident.id == notification.content.incident)
            {
                continue;
            }
            // An incident of this process is not forgotten while it is open. One of the previous process may be found
            // again within `ADOPTION`. Neither ends while its targets are not observed.
            let may_end = notification.seen_in_view || seen.now - seen.started_at >= ADOPTION_PERIOD;
            if may_end && targets_work(&notification.content.targets, view) {
                notification.end(seen.now, NotificationEnding::Unobserved, seen.now);
                changed = true;
            }
        }
        changed
    }

    /// Forgets notifications whose end every receiver got, then the oldest beyond the limits, closed ones first.
    /// Returns, by receiver, the messages lost with them.
    pub(super) fn prune(&mut self, receivers: &ReceiverMap, now: EventTime) -> Vec<String> {
        let undelivered = |notification: &Notification| {
            let all = receivers.iter();
            all.filter(|(name, manner)| notification.due_message(name, **manner).is_some())
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        self.notifications
            .retain(|_, notification| match notification.phase {
                NotificationPhase::Ended { at, .. } => {
                    now < at.plus(RETENTION_AFTER_END)
                        || now < notification.changed_at.plus(RETENTION_AFTER_END)
                        || !undelivered(notification).is_empty()
                }
                NotificationPhase::Open => true,
            });
        let mut order: Vec<(bool, EventTime, String)> = self
            .notifications
            .values()
            .map(|notification| {
                (
                    notification.is_open(),
                    notification.changed_at,
                    notification.thread.clone(),
                )
            })
            .collect();
        order.sort();
        let mut lost = Vec::new();
        let mut order = order.into_iter();
        while (self.notifications.len() > MAX_NOTIFICATIONS || self.to_json().len() > MAX_BYTES)
            && let Some((_, _, thread)) = order.next()
        {
            lost.extend(self.notifications.remove(&thread).iter().flat_map(&undelivered));
        }
        lost
    }

    /// The JSON that is persisted.
    pub(super) fn to_json(&self) -> String {
        // Strings, numbers and string keys only: serialization cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Merges the outbox of another writer: what receivers got, and notifications that are unknown here.
    pub(super) fn merge(&mut self, other: Self) {
        for (thread, theirs) in other.notifications {
            match self.notifications.get_mut(&thread) {
                None => drop(self.notifications.insert(thread, theirs)),
                Some(ours) => ours.merge(theirs),
            }
        }
    }

    /// Returns the message to send to a receiver now: the one that failed least often, then the one due for longest.
    /// `turn` returns how often a notification has failed, or `None` while it is backing off.
    pub(super) fn next_delivery(
        &self,
        receiver: &str,
        manner: ReceiverMode,
        now: EventTime,
        failures: impl Fn(&str) -> Option<u32>,
    ) -> Option<Delivery> {
        let free = self
            .notifications
            .values()
            .filter(|notification| !notification.unpersisted);
        let mut ready: Vec<(u32, &Notification)> = free
            .filter_map(|notification| Some((failures(&notification.thread)?, notification)))
            .collect();
        ready.sort_by_key(|(failures, notification)| {
            (*failures, notification.due_since(), &notification.thread)
        });
        let ready: Vec<&Notification> = ready.into_iter().map(|(_, notification)| notification).collect();
        let first_due = ready
            .iter()
            .find_map(|notification| Some((*notification, notification.due_message(receiver, manner)?)));
        let again = || {
            let due = ready.iter().filter_map(|notification| {
                let at = notification.reminder_due(receiver, manner)?;
                (at <= now).then_some((at, *notification))
            });
            due.min_by_key(|(at, _)| *at)
                .map(|(_, notification)| (notification, DueMessage::Reminder))
        };
        let (notification, message) = first_due.or_else(again)?;
        Some(Delivery {
            notification: notification.clone(),
            message,
            previous: notification.delivered.get(receiver).cloned(),
        })
    }

    /// Returns when the next reminder to a receiver is due.
    pub(super) fn next_reminder(&self, receiver: &str, manner: ReceiverMode) -> Option<EventTime> {
        self.notifications
            .values()
            .filter_map(|notification| notification.reminder_due(receiver, manner))
            .min()
    }

    /// Records a delivery. Returns whether the result must be persisted.
    pub(super) fn record_delivery(
        &mut self,
        receiver: &str,
        delivery: &Delivery,
        mark: Value,
        now: EventTime,
    ) -> bool {
        let Some(notification) = self.notifications.get_mut(&delivery.notification.thread) else {
            return false;
        };
        let over = delivery.message == DueMessage::Recovered;
        let delivered = DeliveredState {
            number: delivery.notification.revision,
            recovered: over,
            delivered_at: now,
            transport_state: mark,
        };
        let before = notification.delivered.insert(receiver.to_owned(), delivered);
        if delivery.message == DueMessage::Reminder {
            notification.reminders = notification.reminders.saturating_add(1);
        }
        let same = |before: &DeliveredState| {
            let delivered = &notification.delivered[receiver];
            before.number == delivered.number
                && before.recovered == delivered.recovered
                && before.transport_state == delivered.transport_state
        };
        !before.as_ref().is_some_and(same)
    }

    /// Records a permanent rejection.
    pub(super) fn record_rejection(&mut self, receiver: &str, delivery: &Delivery) {
        if let Some(notification) = self.notifications.get_mut(&delivery.notification.thread) {
            notification
                .rejected
                .insert(receiver.to_owned(), delivery.notification.revision);
        }
    }

    /// The number of pending notifications of a receiver, and when the oldest became due.
    pub(super) fn pending(&self, receiver: &str, manner: ReceiverMode) -> (usize, Option<EventTime>) {
        let due = self
            .notifications
            .values()
            .filter(|notification| notification.due_message(receiver, manner).is_some());
        due.fold((0, None), |(count, oldest), notification| {
            let oldest = oldest.map_or(notification.due_since(), |oldest: EventTime| {
                oldest.min(notification.due_since())
            });
            (count + 1, Some(oldest))
        })
    }
}

impl Notification {
    fn end(&mut self, at: EventTime, ending: NotificationEnding, now: EventTime) {
        self.phase = NotificationPhase::Ended { at, ending };
        self.revision += 1;
        self.changed_at = now;
        self.unpersisted = true;
    }

    fn merge(&mut self, theirs: Self) {
        for (receiver, delivered) in theirs.delivered {
            let older = self
                .delivered
                .get(&receiver)
                .is_none_or(|own| own.number < delivered.number);
            if older {
                self.delivered.insert(receiver, delivered);
            }
        }
        for (receiver, number) in theirs.rejected {
            let own = self.rejected.entry(receiver).or_default();
            *own = (*own).max(number);
        }
        self.revision = self.revision.max(theirs.revision);
    }
}

/// Whether the targets of an incident are observed and none fails. Targets that are no longer probed do not count.
fn targets_work(targets: &[String], view: &View) -> bool {
    let reporting = view
        .vantages
        .iter()
        .any(|vantage| vantage.state == VantageState::Reporting);
    let rows = view
        .matrix
        .iter()
        .filter(|row| targets.iter().any(|target| target == row.target.as_str()));
    let mut known = rows.map(|row| {
        let seen = row.cells.iter().any(|cell| cell.state != CellState::Unknown);
        seen && !row.cells.iter().any(MatrixCell::every_probe_failed)
    });
    view.last_judged_round.is_some() && reporting && known.all(|well| well)
}
