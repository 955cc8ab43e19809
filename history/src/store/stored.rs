//! Stored incidents: a summary in columns, and the whole incident as JSON.

use std::{fmt, str::FromStr};

use parallax_diagnosis::verdict::{Incident, IncidentState, Verdict};
use parallax_model::{EventTime, Probability};
use serde::Serialize;
use serde_json::Value;

/// How an incident ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum IncidentEnding {
    /// The engine closed it on evidence, or its subject is gone.
    Judged,
    /// The aggregator stopped while it was open, and it was not found again: the end was not observed.
    Restart,
    /// The aggregator stopped while it was open and then found the same fault again, under another id.
    Continued {
        /// The other id.
        by: String,
    },
}

/// An incident's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentEnd {
    /// When it ended, or was last known to be open.
    pub ended_at: EventTime,
    /// Why it ended.
    pub ending: IncidentEnding,
}

/// The summary of an incident for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentSummary {
    /// The id.
    pub id: String,
    /// The subject of the verdict.
    pub subject: String,
    /// The region and its members.
    pub region: String,
    /// The headline.
    pub sentence: String,
    /// The probability of the verdict.
    pub probability: Probability,
    /// The first failing round.
    pub since: EventTime,
    /// When it was first named.
    pub opened: EventTime,
    /// When it was last known to be in this state.
    pub seen: EventTime,
    /// `None` while no end is known.
    pub end: Option<IncidentEnd>,
}

impl IncidentSummary {
    /// The summary of an incident, last seen at this time.
    #[must_use]
    pub fn from_incident(incident: &Incident, seen: EventTime) -> Self {
        let end = match incident.state {
            IncidentState::Closed { closed } => Some(IncidentEnd {
                ended_at: closed,
                ending: IncidentEnding::Judged,
            }),
            IncidentState::Open | IncidentState::Recovering => None,
        };
        Self {
            id: incident.id.clone(),
            subject: incident.verdict.subject.to_string(),
            region: incident.verdict.region.to_string(),
            sentence: incident.verdict.sentence.clone(),
            probability: incident.verdict.probability,
            since: incident.since,
            opened: incident.opened,
            seen,
            end,
        }
    }

    /// Whether both have the same subject and region. Ids also depend on the opening round, so a restart may change
    /// them.
    #[must_use]
    pub fn resembles(&self, other: &Self) -> bool {
        self.subject == other.subject && self.region == other.region
    }

    /// Its position in the history, if it has ended.
    #[must_use]
    pub fn cursor(&self) -> Option<HistoryCursor> {
        let end = self.end.as_ref()?;
        Some(HistoryCursor {
            ended_at: end.ended_at,
            id: Some(self.id.clone()),
        })
    }
}

/// A stored incident. The JSON is not parsed: the verdict of an earlier version is still worth showing.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredIncident {
    /// The summary.
    pub summary: IncidentSummary,
    /// The incident as JSON.
    pub incident: Value,
}

impl StoredIncident {
    /// The incident as in the API, with its stored end. Without one, it was interrupted: an earlier aggregator left it
    /// open, and this one has not found it again.
    #[must_use]
    pub fn into_json(self) -> Value {
        let mut value = self.incident;
        let (at, ending) = match &self.summary.end {
            Some(end) => (end.ended_at, serde_json::to_value(&end.ending).ok()),
            None => (self.summary.seen, Some(serde_json::json!({"how": "interrupted"}))),
        };
        if let Some(fields) = value.as_object_mut() {
            fields.insert("state".to_owned(), "closed".into());
            fields.insert("closed".to_owned(), at.0.into());
            fields.insert("ended".to_owned(), ending.unwrap_or_default());
        }
        value
    }
}

/// A verdict and the time from which it was valid.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VerdictChange {
    /// When the verdict changed.
    pub changed_at: EventTime,
    pub verdict: Value,
}

/// An incident to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IncidentRow {
    pub incident: Incident,
    /// When it was in this state.
    pub seen_at: EventTime,
}

/// A changed verdict to write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VerdictRow {
    pub incident: String,
    pub changed_at: EventTime,
    pub verdict: Verdict,
}

/// A position in the list of ended incidents, ordered latest first and then by id; a page contains what follows it.
/// Written `MICROSECONDS` or `MICROSECONDS-ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryCursor {
    /// The end of the last incident before this position.
    pub ended_at: EventTime,
    /// Its id; without one the position is before every incident that ended at that time.
    pub id: Option<String>,
}

impl HistoryCursor {
    /// Whether an incident with this end and id follows the position.
    #[must_use]
    pub fn precedes(&self, at: EventTime, id: &str) -> bool {
        at < self.ended_at || at == self.ended_at && self.id.as_deref().is_some_and(|own| own < id)
    }
}

impl fmt::Display for HistoryCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ended_at.0)?;
        match &self.id {
            Some(id) => write!(f, "-{id}"),
            None => Ok(()),
        }
    }
}

/// Not a position in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected before=MICROSECONDS since 1970, or the \"next\" of an earlier response; omit it for the latest"
)]
pub struct InvalidCursor;

impl FromStr for HistoryCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let (at, id) = match text.split_once('-') {
            Some((at, id)) if !at.is_empty() => (at, Some(id.to_owned())),
            _ => (text, None),
        };
        let at = at.parse().map_err(|_| InvalidCursor)?;
        Ok(Self {
            ended_at: EventTime(at),
            id,
        })
    }
}
