//! Errors of the store: a message for people, and a kind that decides what to do.

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The folder is missing or the disk does not respond.
    Unavailable,
    /// The file is read-only.
    ReadOnly,
    /// The disk is full, or the configured size is reached.
    Full,
    /// Another process has the file open.
    Locked,
    /// The content is damaged.
    Corrupt,
    /// The file is intact but must not be written: it belongs to another program or to a newer version.
    Foreign,
    /// Anything else.
    Other,
}

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    pub kind: StoreErrorKind,
    /// Names operation and object, and says what to do.
    pub message: String,
}

impl StoreError {
    pub fn new(sort: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind: sort,
            message: message.into(),
        }
    }
}
