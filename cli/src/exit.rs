//! Why a command ends other than well, and the exit code that scripts branch on.

use std::{fmt, process::ExitCode};

/// A command that did not end well. "Could not tell" must never look like "fine".
#[derive(Debug)]
pub(crate) enum Failure {
    /// The answer is no: 1. It is printed already.
    No,
    /// Usage or configuration: 2.
    Usage(String),
    /// Could not run, or could not tell: 3.
    CouldNot(String),
    /// Could not run now, and may in a moment: 3 for who does not wait.
    NotNow(String),
}

impl Failure {
    /// From an error that the configuration caused; the whole chain in one line.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(format!("{:#}", error.into()))
    }

    /// From an error of the world around; the whole chain in one line.
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
