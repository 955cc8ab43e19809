//! One finding about a URL.

use std::net::SocketAddr;

use super::explanation::Explanation;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FindingLevel {
    Note,
    Warning,
    /// This machine could not probe.
    Unknown,
    Failure,
}

impl FindingLevel {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Unknown => "unknown",
            Self::Failure => "failure",
        }
    }
}

/// One finding about a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: FindingLevel,
    /// A stable identifier: the failure kind, or one of the ids in `findings` and `caa`.
    pub(super) id: String,
    /// The affected addresses; empty if the finding is about the name.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) said: Explanation,
    /// The number of passes in which it was found.
    pub(super) times: u32,
}
