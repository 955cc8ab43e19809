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
use document::{ActionDocument, MOST, VersionedAction};

pub use metrics::IncidentActionMetrics;

use parallax_history::store::{DocumentKind, QueryError, StoreHandle, StoredDocument};
use parallax_runtime::Clock;

/// Maximum length of a note, in characters.
const NOTE: usize = 500;
/// Shortest and longest silence or maintenance window, in seconds: a minute, thirty days.
const SPAN_S: (u64, u64) = (60, 30 * 86_400);
/// Time between two attempts to read the actions of the previous process.
const AGAIN: Duration = Duration::from_secs(5);

/// Why an action is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// A duration is out of range.
    #[error("{field}: expected {low} to {high} seconds (a minute to thirty days), found {found}")]
    Span {
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
    #[error("note: expected at most {NOTE} characters, found {0}")]
    Note(usize),
    /// The filter for targets is empty.
    #[error("targets: expected part of a target's URL, found an empty text")]
    NoTargets,
    /// There is no maintenance window with this id.
    #[error("no maintenance window has the id {0:?}; list them with `parallax maintenance list`")]
    NoWindow(String),
    /// The limit of maintenance windows is reached.
    #[error("too many maintenance windows; end some and retry an hour later, when ended windows are removed")]
    Full,
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
    ledger: Option<ActionConfigMap>,
    inner: Mutex<ActionManagerState>,
}

#[derive(Debug, Default)]
struct ActionManagerState {
    sheet: ActionDocument,
    /// Incremented by each change.
    changes: u64,
}

impl ActionManagerState {
    fn announced(&self, targets: &[TargetId], now: EventTime) -> Option<&MaintenanceWindow> {
        let mut windows = self.sheet.windows.values().map(|entry| &entry.value);
        windows.find(|window| windows::covers(window, targets, now))
    }

    /// Counts a change and returns its number.
    const fn changed(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }
}

impl ActionManager {
    /// A manager without actions.
    #[must_use]
    pub fn new(clock: Clock, store: StoreHandle, ledger: Option<ActionConfigMap>) -> Self {
        Self {
            clock,
            store,
            ledger,
            inner: Mutex::default(),
        }
    }

    /// Reads the actions of the previous process, then keeps memory and `ConfigMap` in sync until cancelled.
    pub async fn run(self: Arc<Self>, cancelled: CancellationToken) {
        let shared = async {
            if let Some(ledger) = &self.ledger {
                ledger.run(&self, cancelled.clone()).await;
            }
        };
        tokio::join!(self.recall(&cancelled), shared);
    }

    /// Reads the actions in the store as soon as it is available; actions taken since then take precedence.
    async fn recall(&self, cancelled: &CancellationToken) {
        loop {
            let asked = tokio::select! {
                () = cancelled.cancelled() => return,
                asked = self.store.ask(|store| {
                    Ok((store.documents(DocumentKind::Handling, MOST)?, store.documents(DocumentKind::Window, MOST)?))
                }) => asked,
            };
            match asked {
                Ok((handled, windows)) => {
                    let mut kept = ActionDocument {
                        handled: read(handled).collect(),
                        windows: read(windows).collect(),
                    };
                    kept.handled
                        .values_mut()
                        .for_each(|entry| entry.value.persisted = true);
                    kept.windows
                        .values_mut()
                        .for_each(|entry| entry.value.persisted = true);
                    drop(self.join(kept));
                    return;
                }
                Err(QueryError::Off) => return,
                Err(QueryError::Down(_) | QueryError::Slow) => {}
            }
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }

    /// Merges newer entries from elsewhere. Returns the result and the number of the last change in it.
    fn join(&self, other: ActionDocument) -> (ActionDocument, u64) {
        let mut inner = self.inner.lock();
        inner.sheet.join(other);
        inner.sheet.tidy(self.clock.now());
        (inner.sheet.clone(), inner.changes)
    }

    /// Marks these versions as persisted.
    fn shared(&self, sheet: &ActionDocument) {
        let mut inner = self.inner.lock();
        for (id, entry) in &mut inner.sheet.handled {
            let same = sheet
                .handled
                .get(id)
                .is_some_and(|there| there.changed == entry.changed);
            entry.value.persisted |= same;
        }
        for (id, entry) in &mut inner.sheet.windows {
            let same = sheet
                .windows
                .get(id)
                .is_some_and(|there| there.changed == entry.changed);
            entry.value.persisted |= same;
        }
    }

    /// Waits until the actions of the previous leader are known, for a bounded time.
    async fn ready(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.ready().await;
        }
    }

    /// Returns the actions on an incident, if any.
    pub fn of(&self, incident: &str) -> Option<IncidentActions> {
        let inner = self.inner.lock();
        inner.sheet.handled.get(incident).map(|entry| entry.value.clone())
    }

    /// Why an incident currently triggers no notification, as text.
    pub fn quiet(&self, incident: &str, targets: &[TargetId]) -> Option<String> {
        let (standing, by) = self.because(incident, targets)?;
        Some(format!("{} by {by}", standing.label()))
    }

    /// Which action, if any, keeps an incident from notifying.
    pub fn standing(&self, incident: &str, targets: &[TargetId]) -> ActionState {
        self.because(incident, targets)
            .map_or(ActionState::None, |(standing, _)| standing)
    }

    /// The action that keeps an incident from notifying, and its user.
    fn because(&self, incident: &str, targets: &[TargetId]) -> Option<(ActionState, String)> {
        let now = self.clock.now();
        let inner = self.inner.lock();
        if let Some(handling) = inner.sheet.handled.get(incident).map(|entry| &entry.value) {
            if let Some(silence) = handling.silenced.as_ref().filter(|silence| now < silence.until) {
                return Some((ActionState::Silenced, silence.mark.by.clone()));
            }
            if let Some(mark) = &handling.acknowledged {
                return Some((ActionState::Acknowledged, mark.by.clone()));
            }
        }
        inner
            .announced(targets, now)
            .map(|window| (ActionState::Maintenance, window.mark.by.clone()))
    }

    /// The maintenance window that currently covers these targets, as text.
    pub fn announced(&self, targets: &[TargetId]) -> Option<String> {
        let inner = self.inner.lock();
        let window = inner.announced(targets, self.clock.now())?;
        Some(format!(
            "{} by {}",
            ActionState::Maintenance.label(),
            window.mark.by
        ))
    }

    fn mark(&self, by: &str, note: Option<String>) -> Result<Acknowledgement, ActionError> {
        let note = note
            .map(|note| note.trim().to_owned())
            .filter(|note| !note.is_empty());
        if let Some(length) = note
            .as_ref()
            .map(|note| note.chars().count())
            .filter(|length| *length > NOTE)
        {
            return Err(ActionError::Note(length));
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
    async fn change(&self, incident: &str, change: impl FnOnce(&mut IncidentActions)) -> IncidentActions {
        let (changed, number, mut handling) = {
            let mut inner = self.inner.lock();
            let number = inner.changed();
            let now = self.clock.now();
            let entry = inner
                .sheet
                .handled
                .entry(incident.to_owned())
                .or_insert_with(|| VersionedAction {
                    changed: now,
                    value: IncidentActions::default(),
                });
            // Later than the entry it replaces, even if another replica's clock is ahead.
            entry.changed = now.max(entry.changed.plus(Micros(1)));
            entry.value.persisted = false;
            change(&mut entry.value);
            let (changed, handling) = (entry.changed, entry.value.clone());
            inner.sheet.tidy(now);
            (changed, number, handling)
        };
        handling.persisted = self
            .put(DocumentKind::Handling, incident, (changed, number), &handling)
            .await;
        if handling.persisted {
            let mut inner = self.inner.lock();
            let entry = inner.sheet.handled.get_mut(incident);
            if let Some(entry) = entry.filter(|entry| entry.changed == changed) {
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
        self.ready().await;
        let mark = self.mark(by, note)?;
        Ok(self
            .change(incident, |handling| handling.acknowledged = Some(mark))
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
        self.ready().await;
        let mark = self.mark(by, note)?;
        let until = mark.at.plus(span("for_s", seconds)?);
        let silence = IncidentSilence { mark, until };
        Ok(self
            .change(incident, |handling| handling.silenced = Some(silence))
            .await)
    }

    /// Ends a silence early.
    pub async fn unsilence(&self, incident: &str, by: &str) -> Result<IncidentActions, ActionError> {
        self.ready().await;
        let mark = self.mark(by, None)?;
        let end = |handling: &mut IncidentActions| {
            if let Some(silence) = &mut handling.silenced {
                silence.until = silence.until.min(mark.at);
                silence.mark.note = Some(format!("ended by {}", mark.by));
            }
        };
        Ok(self.change(incident, end).await)
    }

    /// Records that a run verifies a fix.
    pub async fn verify(&self, incident: &str, by: &str, run: RunId) -> Result<IncidentActions, ActionError> {
        self.ready().await;
        let mark = self.mark(by, None)?;
        let verification = FixVerification {
            mark,
            run,
            outcome: None,
        };
        Ok(self
            .change(incident, |handling| handling.verified = Some(verification))
            .await)
    }

    /// Persists a change in the store and the `ConfigMap`. Returns whether it survives a restart.
    async fn put(
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
            sort,
            id: id.to_owned(),
            at,
            value,
        };
        let shared = async {
            match &self.ledger {
                Some(ledger) => ledger.keeps(number).await,
                None => false,
            }
        };
        let (stored, shared) = tokio::join!(self.store.ask(move |store| store.put(&document)), shared);
        if let Err(error) = &stored
            && !matches!(error, QueryError::Off)
        {
            tracing::warn!(%error, id, "cannot write an action on an incident to the store");
        }
        // With a `ConfigMap`, the other replicas read only that.
        match self.ledger {
            Some(_) => shared,
            None => stored.is_ok(),
        }
    }
}

fn span(field: &'static str, seconds: u64) -> Result<Micros, ActionError> {
    let (low, high) = SPAN_S;
    if (low..=high).contains(&seconds) {
        Ok(Micros::from_secs(seconds))
    } else {
        Err(ActionError::Span {
            field,
            low,
            high,
            found: seconds,
        })
    }
}

/// Parses documents, and skips those of another version that this one cannot read.
fn read<T: DeserializeOwned>(
    documents: Vec<StoredDocument>,
) -> impl Iterator<Item = (String, VersionedAction<T>)> {
    documents.into_iter().filter_map(|document| {
        let entry = VersionedAction {
            changed: document.at,
            value: serde_json::from_value(document.value).ok()?,
        };
        Some((document.id, entry))
    })
}
