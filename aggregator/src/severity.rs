//! How bad an open incident is, for alerts and for the page.

use parallax_diagnosis::{
    verdict::Incident,
    view::{CellState, View},
};

/// Derived from what is seen now, not from the cause: the same cause may cost a little or everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Some vantage reaches one of the targets no more.
    Critical,
    /// Probes fail now and then, or the first successes are back everywhere.
    Warning,
}

impl Severity {
    pub(crate) fn of(incident: &Incident, view: &View) -> Self {
        let lost = view
            .matrix
            .iter()
            .filter(|row| incident.verdict.targets.contains(&row.target))
            .flat_map(|row| &row.cells)
            .any(|cell| cell.state == CellState::Failing);
        if lost { Self::Critical } else { Self::Warning }
    }

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}
