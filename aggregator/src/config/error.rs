//! Errors of a configuration file, one per line: `file:line:column: field: what was expected`.

use std::fmt::{self, Write as _};

use super::tree::SourcePosition;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file.
    pub file: String,
    /// Position in the file, if known.
    pub place: Option<SourcePosition>,
    /// The field (`targets[1].url`); empty for the file as a whole.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        written(f, &self.file)?;
        if let Some(place) = self.place {
            write!(f, ":{place}")?;
        }
        if !self.path.is_empty() {
            f.write_str(": ")?;
            written(f, &self.path)?;
        }
        f.write_str(": ")?;
        written(f, &self.message)
    }
}

/// Writes text that may quote the file, escaping control characters, which must not reach a terminal.
fn written(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|c| match c {
        c if c.is_control() => write!(f, "{}", c.escape_debug()),
        c => f.write_char(c),
    })
}

/// All errors of a configuration or a topology, at least one, in line order; those of the topology come last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    complaints: Vec<ConfigProblem>,
}

impl ConfigError {
    /// Creates an error from at least one problem.
    #[must_use]
    pub fn new(mut complaints: Vec<ConfigProblem>) -> Self {
        complaints.sort_by_key(|complaint| complaint.place);
        Self { complaints }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.complaints.extend(other.complaints);
        self
    }

    /// Returns all problems.
    #[must_use]
    pub fn complaints(&self) -> &[ConfigProblem] {
        &self.complaints
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, complaint) in self.complaints.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{complaint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
