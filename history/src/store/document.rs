//! Small documents that are replaced as a whole: actions of users, runs, and state without a `ConfigMap`.

use parallax_model::EventTime;
use serde_json::Value;

/// The kind of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// Actions on an incident, by the incident's id.
    Handling,
    /// A maintenance window.
    Window,
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
            Self::Handling => "handling",
            Self::Window => "window",
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
    pub sort: DocumentKind,
    /// Unique within its kind.
    pub id: String,
    /// When it was last changed.
    pub at: EventTime,
    /// The content, as in the API.
    pub value: Value,
}
