//! Colors and signs.

use parallax_diagnosis::view::CellState;

/// Whether the terminal understands colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorMode {
    /// Signs only.
    Plain,
    /// Signs and ANSI colours.
    Coloured,
}

impl ColorMode {
    /// A text in the colour of an ANSI code (`31`, `1;32`), or as it is.
    #[must_use]
    pub fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    /// The sign of a cell.
    pub(crate) fn state(self, state: CellState) -> String {
        match state {
            CellState::Ok => self.paint("32", "✓"),
            CellState::Failing => self.paint("1;31", "✗"),
            CellState::Flaky => self.paint("33", "~"),
            CellState::Unknown => self.paint("90", "·"),
        }
    }
}
