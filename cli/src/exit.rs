//! Exit codes of commands that do not succeed.

use std::{fmt, process::ExitCode};

/// Outcome of a command that did not succeed. Unknown must never look like success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer is no: exit code 1. Already printed.
    Negative,
    /// Usage or configuration error: exit code 2.
    Usage(String),
    /// The command could not run, or the result is unknown: exit code 3.
    Indeterminate(String),
    /// A temporary failure: exit code 3, unless the caller retries.
    Unavailable(String),
}

impl Failure {
    /// Wraps a usage or configuration error, with its whole chain in one line.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(format!("{:#}", error.into()))
    }

    /// Wraps an error of the environment, with its whole chain in one line.
    pub(crate) fn indeterminate(error: impl Into<anyhow::Error>) -> Self {
        Self::Indeterminate(format!("{:#}", error.into()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Negative => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::Indeterminate(_) | Self::Unavailable(_) => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Negative => f.write_str("the answer is no"),
            Self::Usage(text) | Self::Indeterminate(text) | Self::Unavailable(text) => f.write_str(text),
        }
    }
}
