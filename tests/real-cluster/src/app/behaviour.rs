//! Behaviour of the application towards its clients.

use serde::{Deserialize, Serialize};

/// Behaviour of the application towards its clients. By default it serves them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Behaviour {
    /// HTTP status of every response.
    pub status: u16,
    /// Delay of each response in milliseconds.
    pub delay_ms: u64,
    /// Whether the process exits with code 1, also after each restart of the container.
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
