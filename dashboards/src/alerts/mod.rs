//! The alerts: what they watch, how bad it is, how long it must last.

pub mod inhibit;
mod mesh;
mod own;
pub mod provisioning;
mod renewals;
pub mod rules;
mod targets;

/// One alert. Its runbook is `docs/runbooks/NAME.md`.
#[derive(Debug, Clone)]
pub struct Alert {
    /// `Parallax…`.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What has to yield series for it to fire, one alert a series.
    pub expression: String,
    /// How long, in seconds. Zero where the diagnosis has waited already: verdicts open and close with hysteresis.
    pub lasting: u32,
    /// One line, with the labels of the series.
    pub summary: &'static str,
    /// What follows from it.
    pub description: &'static str,
}

/// How bad an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Users are cut off, or nobody would notice if they were.
    Critical,
    /// It can wait for the morning.
    Warning,
    /// The series has a label `severity` of its own.
    OfSeries,
}

impl Severity {
    /// The label to add, if any.
    #[must_use]
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Critical => Some("critical"),
            Self::Warning => Some("warning"),
            Self::OfSeries => None,
        }
    }
}

impl Alert {
    /// Where it is described, in the repository.
    #[must_use]
    pub fn runbook(&self) -> String {
        format!("docs/runbooks/{}.md", self.name)
    }

    /// `90s`, `5m`: as Prometheus writes it.
    #[must_use]
    pub fn for_text(&self) -> String {
        if self.lasting.is_multiple_of(60) {
            format!("{}m", self.lasting / 60)
        } else {
            format!("{}s", self.lasting)
        }
    }
}

/// Every alert: about targets, about certificates, about the mesh that looks at them, about Parallax itself.
#[must_use]
pub fn all() -> Vec<Alert> {
    let mut alerts = targets::alerts();
    alerts.extend(renewals::alerts());
    alerts.extend(mesh::alerts());
    alerts.extend(own::alerts());
    alerts
}
