//! Small documents that are replaced as a whole: actions of users, runs, and state without a `ConfigMap`.

use parallax_model::EventTime;
use serde_json::Value;

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// Actions on an incident, by the incident's id.
    IncidentActions,
    /// A maintenance window.
    MaintenanceWindow,
    /// A completed run.
    Run,
    /// The outbox of notifications.
    Outbox,
    /// The checkpoint of the engine.
    Checkpoint,
}

impl DocumentKind {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::IncidentActions => "handling",
            Self::MaintenanceWindow => "window",
            Self::Run => "run",
            Self::Outbox => "outbox",
            Self::Checkpoint => "checkpoint",
        }
    }
}

/// A document. It is kept as long after its last change as an incident after its end.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDocument {
    /// The kind of document.
    pub kind: DocumentKind,
    /// Unique within its kind.
    pub id: String,
    /// When it was last changed.
    pub changed_at: EventTime,
    /// The content, as in the API.
    pub value: Value,
}
