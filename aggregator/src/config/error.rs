//! Errors of a configuration file, one per line: `file:line:column: field: what was expected`.

use std::fmt::{self, Write as _};

use super::tree::SourcePosition;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file.
    pub file: String,
    /// Position in the file, if known.
    pub position: Option<SourcePosition>,
    /// The field (`targets[1].url`); empty for the file as a whole.
    pub path: String,
    /// What was found and what was expected.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, &self.file)?;
        if let Some(place) = self.position {
            write!(f, ":{place}")?;
        }
        if !self.path.is_empty() {
            f.write_str(": ")?;
            write_escaped(f, &self.path)?;
        }
        f.write_str(": ")?;
        write_escaped(f, &self.message)
    }
}

/// Writes text that may quote the file, escaping control characters, which must not reach a terminal.
fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|c| match c {
        c if c.is_control() => write!(f, "{}", c.escape_debug()),
        c => f.write_char(c),
    })
}

/// All errors of a configuration or a topology, at least one, in line order; those of the topology come last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<ConfigProblem>,
}

impl ConfigError {
    /// Creates an error from at least one problem.
    pub(super) fn new(mut complaints: Vec<ConfigProblem>) -> Self {
        complaints.sort_by_key(|complaint| complaint.position);
        Self { problems: complaints }
    }

    pub(super) fn with_problems_of(mut self, other: Self) -> Self {
        self.problems.extend(other.problems);
        self
    }

    /// Returns all problems.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, complaint) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{complaint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
