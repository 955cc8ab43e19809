//! Severity of an open incident, for alerts and for the page.

use parallax_diagnosis::{
    verdict::Incident,
    view::{CellState, View},
};
use serde::{Deserialize, Serialize};

/// Severity of an open incident. It follows from the current state of the cells, not from the cause, because
/// the same cause can affect a few clients or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentSeverity {
    /// Probes fail intermittently, or the targets are recovering everywhere.
    Warning,
    /// At least one vantage cannot reach one of the targets, or none reports about them.
    Critical,
}

impl IncidentSeverity {
    /// Returns the severity of an open incident from the current state of its cells.
    #[must_use]
    pub fn of(incident: &Incident, view: &View) -> Self {
        let fresh: Vec<_> = view
            .matrix
            .iter()
            .filter(|row| incident.verdict.targets.contains(&row.target))
            .flat_map(|row| &row.cells)
            .filter(|cell| cell.state != CellState::Unknown)
            .collect();
        // Missing reports are not a recovery.
        if fresh.is_empty() || fresh.iter().any(|cell| cell.every_probe_failed()) {
            Self::Critical
        } else {
            Self::Warning
        }
    }

    /// The label value, which is also shown to people.
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
    fn missing_reports_do_not_lower_the_severity() {
        let mut view = fixtures::outage();
        let incident = view.incidents[0].clone();
        assert_eq!(IncidentSeverity::of(&incident, &view), IncidentSeverity::Critical);
        let mut all = |state, probes, failures| {
            for cell in view.matrix.iter_mut().flat_map(|row| &mut row.cells) {
                (cell.state, cell.probes, cell.failures) = (state, probes, failures);
            }
            IncidentSeverity::of(&incident, &view)
        };
        assert_eq!(all(CellState::Unknown, 0, 0), IncidentSeverity::Critical);
        assert_eq!(all(CellState::Flaky, 3, 1), IncidentSeverity::Warning);
        // After a restart, the first probe of an outage that lasts.
        assert_eq!(all(CellState::Flaky, 1, 1), IncidentSeverity::Critical);
    }
}
