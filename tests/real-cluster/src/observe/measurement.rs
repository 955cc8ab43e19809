//! How long something took that has a limit.

use std::{fmt, time::Duration};

use serde::Serialize;

/// How long actions took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// What was measured.
    pub name: String,
    /// Its duration in seconds.
    pub seconds: f64,
    /// The limit in seconds, if there is one.
    pub within: Option<u64>,
}

impl Measurement {
    /// Reports whether it took longer than permitted.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.within
            .is_some_and(|within| self.seconds > Duration::from_secs(within).as_secs_f64())
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:.1} s", self.name, self.seconds)?;
        match self.within {
            Some(within) => write!(f, ", at most {within} s"),
            None => Ok(()),
        }
    }
}
