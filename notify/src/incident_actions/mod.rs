//! Actions of users on incidents, with user and time: acknowledge, silence for a time, announce maintenance, verify a
//! fix.
//!
//! No action changes a judgement: an incident closes on evidence alone. A silenced or acknowledged incident is still
//! open and still shown; it only triggers no notification.

mod config_map;
mod document;
mod metrics;
#[cfg(test)]
mod tests;
mod windows;

use std::{sync::Arc, time::Duration};

use parallax_api::incident_actions::{
    Acknowledgement, FixVerification, IncidentActions, IncidentSilence, MaintenanceWindow,
};
use parallax_model::{EventTime, Micros, RunId, TargetId};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

pub use config_map::ActionConfigMap;
use document::{ActionDocument, MAX_INCIDENTS, VersionedAction};

pub use metrics::IncidentActionMetrics;

use parallax_history::store::{DocumentKind, QueryError, StoreHandle, StoredDocument};
use parallax_runtime::Clock;

/// Maximum length of a note, in characters.
const MAX_NOTE_CHARS: usize = 500;
/// Shortest and longest silence or maintenance window, in seconds: a minute, thirty days.
const DURATION_LIMITS_S: (u64, u64) = (60, 30 * 86_400);
/// Time between two attempts to read the actions of the previous process.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);

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
    pub fn new(clock: Clock, store: StoreHandle, ledger: Option<ActionConfigMap>) -> Self {
        Self {
            clock,
            store,
            config_map: ledger,
            inner: Mutex::default(),
        }
    }

    /// Reads the actions of the previous process, then keeps memory and `ConfigMap` in sync until cancelled.
    pub async fn run(self: Arc<Self>, cancelled: CancellationToken) {
        let shared = async {
            if let Some(ledger) = &self.config_map {
                ledger.run(&self, cancelled.clone()).await;
            }
        };
        tokio::join!(self.load_from_store(&cancelled), shared);
    }

    /// Reads the actions in the store as soon as it is available; actions taken since then take precedence.
    async fn load_from_store(&self, cancelled: &CancellationToken) {
        loop {
            let asked = tokio::select! {
                () = cancelled.cancelled() => return,
                asked = self.store.query(|store| {
                    Ok((store.documents(DocumentKind::IncidentActions, MAX_INCIDENTS)?, store.documents(DocumentKind::MaintenanceWindow, MAX_INCIDENTS)?))
                }) => asked,
            };
            match asked {
                Ok((handled, windows)) => {
                    let mut kept = ActionDocument {
                        incidents: parse_documents(handled).collect(),
                        windows: parse_documents(windows).collect(),
                    };
                    kept.incidents
                        .values_mut()
                        .for_each(|entry| entry.value.persisted = true);
                    kept.windows
                        .values_mut()
                        .for_each(|entry| entry.value.persisted = true);
                    drop(self.merge(kept));
                    return;
                }
                Err(QueryError::NotConfigured) => return,
                Err(QueryError::Unavailable(_) | QueryError::Busy) => {}
            }
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(STORE_RETRY_DELAY) => {}
            }
        }
    }

    /// Merges newer entries from elsewhere. Returns the result and the number of the last change in it.
    fn merge(&self, other: ActionDocument) -> (ActionDocument, u64) {
        let mut inner = self.inner.lock();
        inner.document.merge(other);
        inner.document.prune(self.clock.now());
        (inner.document.clone(), inner.change_number)
    }

    /// Marks these versions as persisted.
    fn mark_persisted(&self, sheet: &ActionDocument) {
        let mut inner = self.inner.lock();
        for (id, entry) in &mut inner.document.incidents {
            let same = sheet
                .incidents
                .get(id)
                .is_some_and(|there| there.changed_at == entry.changed_at);
            entry.value.persisted |= same;
        }
        for (id, entry) in &mut inner.document.windows {
            let same = sheet
                .windows
                .get(id)
                .is_some_and(|there| there.changed_at == entry.changed_at);
            entry.value.persisted |= same;
        }
    }

    /// Waits until the actions of the previous leader are known, for a bounded time.
    async fn wait_until_ready(&self) {
        if let Some(ledger) = &self.config_map {
            ledger.wait_until_read().await;
        }
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
        let (standing, by) = self.state_and_user(incident, targets)?;
        Some(format!("{} by {by}", standing.label()))
    }

    /// Which action, if any, keeps an incident from notifying.
    pub fn state(&self, incident: &str, targets: &[TargetId]) -> ActionState {
        self.state_and_user(incident, targets)
            .map_or(ActionState::None, |(standing, _)| standing)
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

    fn signed_note(&self, by: &str, note: Option<String>) -> Result<Acknowledgement, ActionError> {
        let note = note
            .map(|note| note.trim().to_owned())
            .filter(|note| !note.is_empty());
        if let Some(length) = note
            .as_ref()
            .map(|note| note.chars().count())
            .filter(|length| *length > MAX_NOTE_CHARS)
        {
            return Err(ActionError::NoteTooLong(length));
        }
        Ok(Acknowledgement {
            by: by.to_owned(),
            at: self.clock.now(),
            note: note.map(|note| {
                note.chars()
                    .map(|c| if c.is_control() { ' ' } else { c })
                    .collect()
            }),
        })
    }

    /// Changes the actions on an incident, and waits until the change is persisted or that fails.
    async fn update(&self, incident: &str, change: impl FnOnce(&mut IncidentActions)) -> IncidentActions {
        let (changed, number, mut handling) = {
            let mut inner = self.inner.lock();
            let number = inner.next_change_number();
            let now = self.clock.now();
            let entry = inner
                .document
                .incidents
                .entry(incident.to_owned())
                .or_insert_with(|| VersionedAction {
                    changed_at: now,
                    value: IncidentActions::default(),
                });
            // Later than the entry it replaces, even if another replica's clock is ahead.
            entry.changed_at = now.max(entry.changed_at.plus(Micros(1)));
            entry.value.persisted = false;
            change(&mut entry.value);
            let (changed, handling) = (entry.changed_at, entry.value.clone());
            inner.document.prune(now);
            (changed, number, handling)
        };
        handling.persisted = self
            .persist(
                DocumentKind::IncidentActions,
                incident,
                (changed, number),
                &handling,
            )
            .await;
        if handling.persisted {
            let mut inner = self.inner.lock();
            let entry = inner.document.incidents.get_mut(incident);
            if let Some(entry) = entry.filter(|entry| entry.changed_at == changed) {
                entry.value.persisted = true;
            }
        }
        handling
    }

    /// Acknowledges an incident.
    pub async fn acknowledge(
        &self,
        incident: &str,
        by: &str,
        note: Option<String>,
    ) -> Result<IncidentActions, ActionError> {
        self.wait_until_ready().await;
        let mark = self.signed_note(by, note)?;
        Ok(self
            .update(incident, |handling| handling.acknowledged = Some(mark))
            .await)
    }

    /// Silences an incident for `seconds`.
    pub async fn silence(
        &self,
        incident: &str,
        by: &str,
        seconds: u64,
        note: Option<String>,
    ) -> Result<IncidentActions, ActionError> {
        self.wait_until_ready().await;
        let mark = self.signed_note(by, note)?;
        let until = mark.at.plus(parse_duration("for_s", seconds)?);
        let silence = IncidentSilence { author: mark, until };
        Ok(self
            .update(incident, |handling| handling.silenced = Some(silence))
            .await)
    }

    /// Ends a silence early.
    pub async fn unsilence(&self, incident: &str, by: &str) -> Result<IncidentActions, ActionError> {
        self.wait_until_ready().await;
        let mark = self.signed_note(by, None)?;
        let end = |handling: &mut IncidentActions| {
            if let Some(silence) = &mut handling.silenced {
                silence.until = silence.until.min(mark.at);
                silence.author.note = Some(format!("ended by {}", mark.by));
            }
        };
        Ok(self.update(incident, end).await)
    }

    /// Records that a run verifies a fix.
    pub async fn verify(&self, incident: &str, by: &str, run: RunId) -> Result<IncidentActions, ActionError> {
        self.wait_until_ready().await;
        let mark = self.signed_note(by, None)?;
        let verification = FixVerification {
            author: mark,
            run,
            outcome: None,
        };
        Ok(self
            .update(incident, |handling| handling.verified = Some(verification))
            .await)
    }

    /// Persists a change in the store and the `ConfigMap`. Returns whether it survives a restart.
    async fn persist(
        &self,
        sort: DocumentKind,
        id: &str,
        (at, number): (EventTime, u64),
        value: &impl Serialize,
    ) -> bool {
        let Ok(value) = serde_json::to_value(value) else {
            return false;
        };
        let document = StoredDocument {
            kind: sort,
            id: id.to_owned(),
            changed_at: at,
            value,
        };
        let shared = async {
            match &self.config_map {
                Some(ledger) => ledger.persisted(number).await,
                None => false,
            }
        };
        let (stored, shared) = tokio::join!(
            self.store.query(move |store| store.put_document(&document)),
            shared
        );
        if let Err(error) = &stored
            && !matches!(error, QueryError::NotConfigured)
        {
            tracing::warn!(%error, id, "cannot write an action on an incident to the store");
        }
        // With a `ConfigMap`, the other replicas read only that.
        match self.config_map {
            Some(_) => shared,
            None => stored.is_ok(),
        }
    }
}

fn parse_duration(field: &'static str, seconds: u64) -> Result<Micros, ActionError> {
    let (low, high) = DURATION_LIMITS_S;
    if (low..=high).contains(&seconds) {
        Ok(Micros::from_secs(seconds))
    } else {
        Err(ActionError::InvalidDuration {
            field,
            low,
            high,
            found: seconds,
        })
    }
}

/// Parses documents, and skips those of another version that this one cannot read.
fn parse_documents<T: DeserializeOwned>(
    documents: Vec<StoredDocument>,
) -> impl Iterator<Item = (String, VersionedAction<T>)> {
    documents.into_iter().filter_map(|document| {
        let entry = VersionedAction {
            changed_at: document.changed_at,
            value: serde_json::from_value(document.value).ok()?,
        };
        Some((document.id, entry))
    })
}
