//! What is wrong with a file, for people: one line a complaint, `file:line:column: field: what was expected`.

use std::fmt::{self, Write as _};

use super::tree::SourcePosition;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file.
    pub file: String,
    /// Where in the file, as far as that can be said.
    pub place: Option<SourcePosition>,
    /// The field (`targets[1].url`); empty where the file as a whole is meant.
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

/// Text that may quote the file, whose keys may hold anything: control characters reach no terminal.
fn written(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|c| match c {
        c if c.is_control() => write!(f, "{}", c.escape_debug()),
        c => f.write_char(c),
    })
}

/// Everything that is wrong with a configuration or a topology: at least one complaint, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    complaints: Vec<ConfigProblem>,
}

impl ConfigError {
    /// From at least one complaint.
    #[must_use]
    pub fn new(mut complaints: Vec<ConfigProblem>) -> Self {
        complaints.sort_by_key(|complaint| complaint.place);
        Self { complaints }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.complaints.extend(other.complaints);
        self
    }

    /// All complaints.
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
