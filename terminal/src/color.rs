//! Colors and state symbols.

use parallax_diagnosis::view::CellState;

/// Whether the terminal supports color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorMode {
    /// Symbols only.
    Plain,
    /// Symbols and ANSI colors.
    Colored,
}

impl ColorMode {
    /// Wraps a text in an ANSI color code (`31`, `1;32`); returns it unchanged in plain mode.
    #[must_use]
    pub fn paint(self, code: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Colored => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }

    /// The symbol of a cell's state.
    pub(crate) fn state_symbol(self, state: CellState) -> String {
        match state {
            CellState::Ok => self.paint("32", "✓"),
            CellState::Failing => self.paint("1;31", "✗"),
            CellState::Flaky => self.paint("33", "~"),
            CellState::Unknown => self.paint("90", "·"),
        }
    }
}
