//! What people did and asked for: small documents, each replaced as a whole.

use parallax_model::EventTime;
use serde_json::Value;

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    /// How somebody handles an incident, by the incident's id.
    Handling,
    /// A maintenance window.
    Window,
    /// A run that is over.
    Run,
    /// What is still to be told to whom.
    Outbox,
    /// What the engine must not forget.
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

/// A document. It is kept for as long after its last change as an incident after its end.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDocument {
    /// The kind of document.
    pub sort: DocumentKind,
    /// Unique within its kind.
    pub id: String,
    /// When it was last changed.
    pub at: EventTime,
    /// As the API says it.
    pub value: Value,
}
