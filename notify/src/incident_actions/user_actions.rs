//! Acknowledgements, silences and verifications of a fix.

use parallax_api::incident_actions::{Acknowledgement, FixVerification, IncidentActions, IncidentSilence};
use parallax_history::store::DocumentKind;
use parallax_model::{Micros, RunId};

use super::{ActionError, ActionManager, document::VersionedAction};

/// Maximum length of a note, in characters.
pub(super) const MAX_NOTE_CHARS: usize = 500;
/// Shortest and longest silence or maintenance window, in seconds: a minute, thirty days.
const DURATION_LIMITS_S: (u64, u64) = (60, 30 * 86_400);

impl ActionManager {
    pub(super) fn signed_note(&self, by: &str, note: Option<String>) -> Result<Acknowledgement, ActionError> {
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
        let until = mark.at.plus(parse_duration("duration_s", seconds)?);
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
}

pub(super) fn parse_duration(field: &'static str, seconds: u64) -> Result<Micros, ActionError> {
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
