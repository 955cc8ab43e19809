//! Actions of users on incidents, with user and time: acknowledge, silence for a time, announce maintenance, verify a
//! fix.
//!
//! No action changes a judgement: an incident closes on evidence alone. A silenced or acknowledged incident is still
//! open and still shown; it only triggers no notification.

mod config_map;
mod document;
mod metrics;
mod persistence;
#[cfg(test)]
mod tests;
mod user_actions;
mod windows;

use std::sync::Arc;

use parallax_api::incident_actions::{IncidentActions, MaintenanceWindow};
use parallax_model::{EventTime, TargetId};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use config_map::ActionConfigMap;
use document::ActionDocument;

pub use metrics::IncidentActionMetrics;

use parallax_history::store::StoreHandle;
use parallax_runtime::Clock;
use user_actions::{MAX_NOTE_CHARS, parse_duration};

/// Why an action is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// A duration is out of range.
    #[error("{field}: expected {low} to {high} seconds (a minute to thirty days), found {found}")]
    InvalidDuration {
        /// The field of the request.
        field: &'static str,
        /// The smallest value allowed, in seconds.
        low: u64,
        /// The largest value allowed, in seconds.
        high: u64,
        /// The value in the request.
        found: u64,
    },
    /// The note is too long; its length in characters.
    #[error("note: expected at most {MAX_NOTE_CHARS} characters, found {0}")]
    NoteTooLong(usize),
    /// The filter for targets is empty.
    #[error("targets: expected part of a target's URL, found an empty text")]
    EmptyTargetFilter,
    /// There is no maintenance window with this id.
    #[error("no maintenance window has the id {0:?}; list them with `parallax maintenance list`")]
    UnknownWindow(String),
    /// The limit of maintenance windows is reached.
    #[error("too many maintenance windows; end some and retry an hour later, when ended windows are removed")]
    TooManyWindows,
}

/// The action that keeps an incident from notifying, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionState {
    /// No action; receivers are notified.
    None,
    /// A person acknowledged the incident.
    Acknowledged,
    /// A person silenced the incident.
    Silenced,
    /// A maintenance window covers the incident.
    Maintenance,
}

impl ActionState {
    /// The word in texts and metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Acknowledged => "acknowledged",
            Self::Silenced => "silenced",
            Self::Maintenance => "maintenance",
        }
    }
}

/// The actions of users: in memory, in the store if there is one, and in the `ConfigMap` that all replicas read.
#[derive(Debug)]
pub struct ActionManager {
    clock: Clock,
    store: StoreHandle,
    config_map: Option<ActionConfigMap>,
    inner: Mutex<ActionManagerState>,
}

#[derive(Debug, Default)]
struct ActionManagerState {
    document: ActionDocument,
    /// Incremented by each change.
    change_number: u64,
}

impl ActionManagerState {
    fn covering_window(&self, targets: &[TargetId], now: EventTime) -> Option<&MaintenanceWindow> {
        let mut windows = self.document.windows.values().map(|entry| &entry.value);
        windows.find(|window| windows::covers(window, targets, now))
    }

    /// Counts a change and returns its number.
    const fn next_change_number(&mut self) -> u64 {
        self.change_number += 1;
        self.change_number
    }
}

impl ActionManager {
    /// A manager without actions.
    #[must_use]
    pub fn new(clock: Clock, store: StoreHandle, config_map: Option<ActionConfigMap>) -> Self {
        Self {
            clock,
            store,
            config_map,
            inner: Mutex::default(),
        }
    }

    /// Reads the actions of the previous process, then keeps memory and `ConfigMap` in sync until cancelled.
    pub async fn run(self: Arc<Self>, cancelled: CancellationToken) {
        let shared = async {
            if let Some(config_map) = &self.config_map {
                config_map.run(&self, cancelled.clone()).await;
            }
        };
        tokio::join!(self.load_from_store(&cancelled), shared);
    }

    /// Returns the actions on an incident, if any.
    pub fn actions_on(&self, incident: &str) -> Option<IncidentActions> {
        let inner = self.inner.lock();
        inner
            .document
            .incidents
            .get(incident)
            .map(|entry| entry.value.clone())
    }

    /// Why an incident currently triggers no notification, as text.
    pub fn quiet_reason(&self, incident: &str, targets: &[TargetId]) -> Option<String> {
        let (state, by) = self.state_and_user(incident, targets)?;
        Some(format!("{} by {by}", state.label()))
    }

    /// Which action, if any, keeps an incident from notifying.
    pub fn state(&self, incident: &str, targets: &[TargetId]) -> ActionState {
        self.state_and_user(incident, targets)
            .map_or(ActionState::None, |(state, _)| state)
    }

    /// The action that keeps an incident from notifying, and its user.
    fn state_and_user(&self, incident: &str, targets: &[TargetId]) -> Option<(ActionState, String)> {
        let now = self.clock.now();
        let inner = self.inner.lock();
        if let Some(handling) = inner.document.incidents.get(incident).map(|entry| &entry.value) {
            if let Some(silence) = handling.silenced.as_ref().filter(|silence| now < silence.until) {
                return Some((ActionState::Silenced, silence.author.by.clone()));
            }
            if let Some(mark) = &handling.acknowledged {
                return Some((ActionState::Acknowledged, mark.by.clone()));
            }
        }
        inner
            .covering_window(targets, now)
            .map(|window| (ActionState::Maintenance, window.author.by.clone()))
    }

    /// The maintenance window that currently covers these targets, as text.
    pub fn maintenance_reason(&self, targets: &[TargetId]) -> Option<String> {
        let inner = self.inner.lock();
        let window = inner.covering_window(targets, self.clock.now())?;
        Some(format!(
            "{} by {}",
            ActionState::Maintenance.label(),
            window.author.by
        ))
    }
}
