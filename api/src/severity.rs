//! How bad an open incident is, for alerts and for the page.

use parallax_diagnosis::{
    verdict::Incident,
    view::{CellState, View},
};

/// Derived from what is seen now, not from the cause: the same cause may cost a little or everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Some vantage reaches one of the targets no more, or nobody says anything of them any more.
    Critical,
    /// Probes fail now and then, or the first successes are back everywhere.
    Warning,
}

impl Severity {
    /// The severity of an open incident, from the current state of its cells.
    #[must_use]
    pub fn of(incident: &Incident, view: &View) -> Self {
        let fresh: Vec<_> = view
            .matrix
            .iter()
            .filter(|row| incident.verdict.targets.contains(&row.target))
            .flat_map(|row| &row.cells)
            .map(|cell| cell.state)
            .filter(|state| *state != CellState::Unknown)
            .collect();
        // Silence is no recovery.
        if fresh.is_empty() || fresh.contains(&CellState::Failing) {
            Self::Critical
        } else {
            Self::Warning
        }
    }

    /// The label value and the word shown to people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_fixtures as fixtures;

    #[test]
    fn an_incident_is_no_less_severe_because_nobody_reports_any_more() {
        let mut view = fixtures::outage();
        let incident = view.incidents[0].clone();
        assert_eq!(Severity::of(&incident, &view), Severity::Critical);
        let mut all = |state| {
            for cell in view.matrix.iter_mut().flat_map(|row| &mut row.cells) {
                cell.state = state;
            }
            Severity::of(&incident, &view)
        };
        assert_eq!(all(CellState::Unknown), Severity::Critical);
        assert_eq!(all(CellState::Flaky), Severity::Warning);
    }
}
