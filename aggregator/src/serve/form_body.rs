//! Bodies of the page's forms. The fuzz target `form_body` includes this file, so it uses nothing else of the aggregator.

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Maximum number of fields that are read. The forms have two.
const MAX_FIELDS: usize = 8;

/// The fields of a form.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FormBody {
    csrf_token: String,
    action: String,
}

/// An action on an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IncidentAction {
    Acknowledge,
    Silence { seconds: u64 },
    Unsilence,
    Verify,
}

/// An action on maintenance windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaintenanceAction<'a> {
    Open {
        seconds: u64,
    },
    End {
        /// Id of the window.
        window: &'a str,
    },
}

impl FormBody {
    /// Parses a body of the media type `application/x-www-form-urlencoded`.
    pub(super) fn parse(body: &[u8]) -> serde_json::Result<Self> {
        let fields: Map<String, Value> = url::form_urlencoded::parse(body)
            .take(MAX_FIELDS)
            .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
            .collect();
        serde_json::from_value(Value::Object(fields))
    }

    /// Returns the CSRF token of the page that contained the form; `None` if it is not in lowercase hexadecimal.
    pub(super) fn csrf_tag(&self) -> Option<Vec<u8>> {
        HEXLOWER.decode(self.csrf_token.as_bytes()).ok()
    }

    /// Returns the action of an incident's form; `None` if it is unknown.
    pub(super) fn incident_action(&self) -> Option<IncidentAction> {
        match self.action.as_str() {
            "acknowledge" => Some(IncidentAction::Acknowledge),
            "unsilence" => Some(IncidentAction::Unsilence),
            "verify" => Some(IncidentAction::Verify),
            action => {
                let seconds = action.strip_prefix("silence-")?.parse().ok()?;
                Some(IncidentAction::Silence { seconds })
            }
        }
    }

    /// Returns the action of a form for maintenance; `None` if it is unknown.
    pub(super) fn maintenance_action(&self) -> Option<MaintenanceAction<'_>> {
        if let Some(window) = self.action.strip_prefix("end-") {
            return Some(MaintenanceAction::End { window });
        }
        let seconds = self.action.strip_prefix("open-")?.parse().ok()?;
        Some(MaintenanceAction::Open { seconds })
    }
}
