//! A notification: the state of one incident, and what each receiver got of it.

use std::{collections::BTreeMap, time::Duration};

use parallax_api::severity::IncidentSeverity;
use parallax_model::EventTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::content::NotificationContent;

/// Whether the incident is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum NotificationPhase {
    Open,
    Ended {
        at: EventTime,
        ending: NotificationEnding,
    },
}

/// How the incident ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NotificationEnding {
    /// The engine closed it on evidence.
    Judged,
    /// An aggregator stopped while it was open and its targets work since: the end was not observed.
    Unobserved,
}

/// The latest delivery to a receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DeliveredState {
    /// The notification's number at that time.
    pub(super) number: u32,
    /// Whether the message was a recovery.
    pub(super) recovered: bool,
    /// Time of the latest delivery.
    pub(super) delivered_at: EventTime,
    /// What the transport needs to resolve it later: the labels of an alert.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) transport_state: Value,
}

/// The notification of one incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Notification {
    /// The incident's id in the first message; stays when a restart gives the incident another id.
    pub(super) thread: String,
    /// Incremented by each change that is worth a message.
    pub(super) revision: u32,
    /// Time of that change.
    pub(super) changed_at: EventTime,
    pub(super) phase: NotificationPhase,
    /// The highest severity of a message so far.
    pub(super) highest_severity: IncidentSeverity,
    /// The incident is acknowledged, silenced or in a maintenance window: neither an opening nor a change is due.
    pub(super) handled: bool,
    /// Number of reminders delivered while the incident is open.
    #[serde(default)]
    pub(super) reminders: u32,
    pub(super) content: NotificationContent,
    /// The latest delivery, by receiver.
    #[serde(default)]
    pub(super) delivered: BTreeMap<String, DeliveredState>,
    /// The number that a receiver permanently rejected, by receiver.
    #[serde(default)]
    pub(super) rejected: BTreeMap<String, u32>,
    /// Found in a view of this process. Otherwise the previous process, or another leader, left it.
    #[serde(skip)]
    pub(super) seen_in_view: bool,
    /// Not persisted yet; it is not sent before.
    #[serde(skip)]
    pub(super) unpersisted: bool,
}

/// When messages to a receiver are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverMode {
    /// Each change once.
    Messages,
    /// Each change once, and a reminder at this interval while the incident is open.
    Reminders(Duration),
    /// Firing alerts, pushed again at this interval; a handled incident does not fire.
    Firing(Duration),
}

impl ReceiverMode {
    const fn resend_interval(self) -> Option<Duration> {
        match self {
            Self::Messages => None,
            Self::Reminders(every) | Self::Firing(every) => Some(every),
        }
    }
}

/// The kind of message that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DueMessage {
    /// The incident is open; `first` if the receiver does not know of it.
    Open { first: bool },
    /// The incident is still open.
    Reminder,
    /// The incident is over, or its alert no longer fires.
    Recovered,
}

impl Notification {
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, NotificationPhase::Open)
    }

    /// Returns the due message of a receiver, except reminders.
    pub(super) fn due_message(&self, receiver: &str, mode: ReceiverMode) -> Option<DueMessage> {
        let delivered = self.delivered.get(receiver);
        let informed = delivered.filter(|delivered| !delivered.recovered);
        let refused = self.rejected.get(receiver) == Some(&self.revision);
        let fires = self.is_open() && !self.handled;
        if let ReceiverMode::Firing(_) = mode {
            return match informed {
                None if fires && !refused => Some(DueMessage::Open { first: true }),
                Some(delivered) if fires && delivered.number < self.revision && !refused => {
                    Some(DueMessage::Open { first: false })
                }
                // Due even if an earlier number was rejected: the alert must not fire forever.
                Some(_) if !fires && !refused => Some(DueMessage::Recovered),
                _ => None,
            };
        }
        if refused || delivered.is_some_and(|delivered| delivered.number >= self.revision) {
            return None;
        }
        match (self.is_open(), informed) {
            (true, _) if self.handled => None,
            (true, informed) => Some(DueMessage::Open {
                first: informed.is_none(),
            }),
            // A receiver that got the opening gets the end, even of a handled incident: a recovery does not page anyone.
            (false, Some(_)) => Some(DueMessage::Recovered),
            // No opening was due, so no end is; otherwise one message reports both.
            (false, None) => (!self.handled).then_some(DueMessage::Recovered),
        }
    }

    /// Returns when the next reminder to a receiver is due, if any.
    pub(super) fn reminder_due(&self, receiver: &str, mode: ReceiverMode) -> Option<EventTime> {
        let delivered = self.delivered.get(receiver)?;
        let stands =
            self.is_open() && !self.handled && !delivered.recovered && delivered.number == self.revision;
        let every = mode.resend_interval().filter(|_| stands)?;
        Some(delivered.delivered_at.plus(every.into()))
    }

    /// Since when a message is due.
    pub(super) const fn due_since(&self) -> EventTime {
        self.changed_at
    }

    /// The id of the current message: the same on every retry and from every replica.
    pub(super) fn message_id(&self) -> String {
        format!(
            "msg_{}_{}_{}",
            self.thread, self.content.occurrence, self.revision
        )
    }
}
