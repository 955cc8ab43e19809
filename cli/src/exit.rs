//! Exit codes of commands that do not succeed.

use std::{fmt, process::ExitCode};

/// Outcome of a command that did not succeed. Unknown must never look like success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer is no: exit code 1. Already printed.
    No,
    /// Usage or configuration error: exit code 2.
    Usage(String),
    /// The command could not run, or the result is unknown: exit code 3.
    CouldNot(String),
    /// A temporary failure: exit code 3, unless the caller retries.
    NotNow(String),
}

impl Failure {
    /// Wraps a usage or configuration error, with its whole chain in one line.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(format!("{:#}", error.into()))
    }

    /// Wraps an error of the environment, with its whole chain in one line.
    pub(crate) fn could_not(error: impl Into<anyhow::Error>) -> Self {
        Self::CouldNot(format!("{:#}", error.into()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::No => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::CouldNot(_) | Self::NotNow(_) => ExitCode::from(3),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No => f.write_str("the answer is no"),
            Self::Usage(text) | Self::CouldNot(text) | Self::NotNow(text) => f.write_str(text),
        }
    }
}
