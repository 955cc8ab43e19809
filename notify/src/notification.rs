//! A letter: what is to be told of one incident, and what each receiver has heard of it.

use std::{collections::BTreeMap, time::Duration};

use parallax_model::EventTime;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::content::NotificationContent;

/// How bad it is, as alerts say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AlertSeverity {
    Warning,
    Critical,
}

impl AlertSeverity {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Where the incident stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum NotificationPhase {
    Open,
    Over { at: EventTime, how: NotificationEnding },
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NotificationEnding {
    /// By its evidence.
    Judged,
    /// An aggregator stopped while it was open, and what it was about is well since: the end was missed.
    Unseen,
}

/// What a receiver has heard last of a letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DeliveredState {
    /// The letter's number at that time.
    pub(super) number: u32,
    /// That it is over.
    pub(super) over: bool,
    /// When it was last said.
    pub(super) at: EventTime,
    /// What the carrier must know of it to take it back: the labels of an alert.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) mark: Value,
}

/// What is to be told of one incident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Notification {
    /// The id under which it was first told; stays when a restart gives the incident another one.
    pub(super) thread: String,
    /// Grows with each thing worth telling.
    pub(super) number: u32,
    /// When that last happened.
    pub(super) changed: EventTime,
    pub(super) state: NotificationPhase,
    /// The worst that was told of it.
    pub(super) worst: AlertSeverity,
    /// Somebody has dealt with it, so that nobody is to be called.
    pub(super) quiet: bool,
    /// How often receivers have been reminded that it still stands.
    #[serde(default)]
    pub(super) reminders: u32,
    pub(super) content: NotificationContent,
    /// By receiver.
    #[serde(default)]
    pub(super) heard: BTreeMap<String, DeliveredState>,
    /// Numbers that a receiver refused for good.
    #[serde(default)]
    pub(super) refused: BTreeMap<String, u32>,
    /// Found in a view of this life. Without it is what a former life, or another leader, left.
    #[serde(skip)]
    pub(super) confirmed: bool,
    /// Not in the vault yet, and not to be sent before.
    #[serde(skip)]
    pub(super) held: bool,
}

/// How a receiver wants to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverMode {
    /// Each thing once.
    Messages,
    /// Each thing once, and now and then that it still stands.
    Reminded(Duration),
    /// What fires and what does not, said again and again; what somebody has dealt with does not.
    Firing(Duration),
}

impl ReceiverMode {
    const fn again(self) -> Option<Duration> {
        match self {
            Self::Messages => None,
            Self::Reminded(every) | Self::Firing(every) => Some(every),
        }
    }
}

/// What a receiver is to be told next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DueMessage {
    /// That it is open; first where the receiver does not know of it.
    Open { first: bool },
    /// That it is still so.
    Again,
    /// That it is over, or calls nobody any more.
    Over,
}

impl Notification {
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, NotificationPhase::Open)
    }

    /// What a receiver is owed, but for reminders.
    pub(super) fn owed(&self, receiver: &str, manner: ReceiverMode) -> Option<DueMessage> {
        let heard = self.heard.get(receiver);
        let knows = heard.filter(|heard| !heard.over);
        let refused = self.refused.get(receiver) == Some(&self.number);
        let fires = self.is_open() && !self.quiet;
        if let ReceiverMode::Firing(_) = manner {
            return match knows {
                None if fires && !refused => Some(DueMessage::Open { first: true }),
                Some(heard) if fires && heard.number < self.number && !refused => {
                    Some(DueMessage::Open { first: false })
                }
                // Taken back also where it was refused once: what fires there must not fire for ever.
                Some(_) if !fires && !refused => Some(DueMessage::Over),
                _ => None,
            };
        }
        if refused || heard.is_some_and(|heard| heard.number >= self.number) {
            return None;
        }
        match (self.is_open(), knows) {
            (true, _) if self.quiet => None,
            (true, knows) => Some(DueMessage::Open {
                first: knows.is_none(),
            }),
            // Who was called hears the end, whoever has dealt with it meanwhile: it calls nobody.
            (false, Some(_)) => Some(DueMessage::Over),
            // Nobody was to be called, so nobody hears the end either; otherwise both are told as one.
            (false, None) => (!self.quiet).then_some(DueMessage::Over),
        }
    }

    /// When a receiver is to be reminded, if ever.
    pub(super) fn again(&self, receiver: &str, manner: ReceiverMode) -> Option<EventTime> {
        let heard = self.heard.get(receiver)?;
        let stands = self.is_open() && !self.quiet && !heard.over && heard.number == self.number;
        let every = manner.again().filter(|_| stands)?;
        Some(heard.at.plus(every.into()))
    }

    /// Since when something is owed.
    pub(super) const fn since(&self) -> EventTime {
        self.changed
    }

    /// The name of what is said now: the same for the same, whoever says it and however often.
    pub(super) fn message(&self) -> String {
        format!("msg_{}_{}_{}", self.thread, self.content.occurrence, self.number)
    }
}
