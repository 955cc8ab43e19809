//! The alerts: expression, severity and duration of each.

pub mod inhibit;
mod mesh;
pub mod parallax;
pub mod provisioning;
mod renewals;
pub mod rules;
mod targets;

use crate::promql::Leader;

/// One alert. Its runbook is `docs/runbooks/NAME.md`.
#[derive(Debug, Clone)]
pub struct Alert {
    /// The name, `Parallax…`.
    pub name: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The alert fires for each series of this `PromQL` expression.
    pub expression: String,
    /// `for` in seconds. Zero for verdicts, which open and close with their own hysteresis.
    pub for_seconds: u32,
    /// One line, with labels of the series.
    pub summary: &'static str,
    /// The consequences.
    pub description: &'static str,
}

/// The severity of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Users are cut off, or it would go unnoticed if they were.
    Critical,
    /// Can wait until the morning.
    Warning,
    /// The series have a label `severity`.
    FromSeries,
}

impl Severity {
    /// The label `severity` to add, if any.
    #[must_use]
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Critical => Some("critical"),
            Self::Warning => Some("warning"),
            Self::FromSeries => None,
        }
    }
}

impl Alert {
    /// Path of the runbook in the repository.
    #[must_use]
    pub fn runbook(&self) -> String {
        format!("docs/runbooks/{}.md", self.name)
    }

    /// The duration in Prometheus' format: `90s`, `5m`.
    #[must_use]
    pub fn duration_text(&self) -> String {
        if self.for_seconds.is_multiple_of(60) {
            format!("{}m", self.for_seconds / 60)
        } else {
            format!("{}s", self.for_seconds)
        }
    }
}

/// All alerts: about targets, certificates, the mesh and Parallax itself.
#[must_use]
pub fn all(leader: Leader) -> Vec<Alert> {
    let mut alerts = targets::alerts(leader);
    alerts.extend(renewals::alerts(leader));
    alerts.extend(mesh::alerts(leader));
    alerts.extend(parallax::alerts(leader));
    alerts
}
