//! Why a store cannot be used, in words for the page and a class that decides what to do.

/// What sort of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// No such folder, no right to open it, a disk that does not answer.
    Missing,
    /// It can be read only.
    ReadOnly,
    /// No space on the disk, or the configured size is reached.
    Full,
    /// Another process holds it.
    Held,
    /// Its content cannot be trusted.
    Corrupt,
    /// It is sound and not ours to write: another program's file, or a newer version's.
    Foreign,
    /// Anything else.
    Other,
}

/// The store cannot do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    pub sort: StoreErrorKind,
    /// Names operation and object and says what to do.
    pub message: String,
}

impl StoreError {
    pub fn new(sort: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            sort,
            message: message.into(),
        }
    }
}
