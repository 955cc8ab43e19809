//! What the application does to its clients.

use serde::{Deserialize, Serialize};

/// What the application does to its clients. The default is to serve them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Behaviour {
    /// HTTP status of every answer.
    pub status: u16,
    /// Milliseconds before each answer.
    pub delay_ms: u64,
    /// Ends the process with exit code 1, and again after each restart of the container.
    pub crash: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            status: 200,
            delay_ms: 0,
            crash: false,
        }
    }
}
