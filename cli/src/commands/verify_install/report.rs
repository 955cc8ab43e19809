//! The result of all checks, for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    checks::{Check, CheckState, checks},
    facts::Facts,
};
use crate::commands::{color, server_text::replace_control_characters};

/// Maximum number of details per check, unless all are requested.
const MAX_DETAILS: usize = 4;

/// The result of all checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// Every check that applies passes.
    Ok,
    /// A check fails.
    NotOk,
    /// No check fails, and at least one could not be judged.
    Unknown,
}

/// All checks of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    outcome: Outcome,
    namespace: String,
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn new(facts: &Facts) -> Self {
        let checks = checks(facts);
        let any = |state| checks.iter().any(|check| check.state == state);
        let outcome = if any(CheckState::NotOk) {
            Outcome::NotOk
        } else if any(CheckState::Unknown) {
            Outcome::Unknown
        } else {
            Outcome::Ok
        };
        Self {
            outcome,
            namespace: facts.namespace.clone(),
            checks,
        }
    }

    pub(super) const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Names the checks that do not pass.
    pub(super) fn pending(&self) -> String {
        let pending = self
            .checks
            .iter()
            .filter(|check| matches!(check.state, CheckState::NotOk | CheckState::Unknown));
        let names: Vec<&str> = pending.map(|check| check.name).collect();
        names.join(", ")
    }

    /// Renders one line per check, with details and advice below those that do not pass.
    pub(super) fn render(&self, all_details: bool) -> String {
        let style = color();
        let width = self
            .checks
            .iter()
            .map(|check| check.name.len())
            .max()
            .unwrap_or(0);
        let indent = " ".repeat(width + 5);
        let mut out = String::new();
        for check in &self.checks {
            let (symbol, colour) = match check.state {
                CheckState::Ok => ("✓", "32"),
                CheckState::NotOk => ("✗", "1;31"),
                CheckState::Unknown => ("?", "33"),
                CheckState::NotInstalled => ("-", "90"),
            };
            let word = match check.state {
                CheckState::Unknown => "unknown: ",
                CheckState::NotInstalled => "not installed: ",
                CheckState::Ok | CheckState::NotOk => "",
            };
            // Writing into a string cannot fail.
            let _ = writeln!(
                out,
                "{} {:width$}   {word}{}",
                style.paint(colour, symbol),
                check.name,
                replace_control_characters(&check.evidence)
            );
            let limit = if all_details { usize::MAX } else { MAX_DETAILS };
            for detail in check.details.iter().take(limit) {
                let _ = writeln!(out, "{indent}{}", replace_control_characters(detail));
            }
            if check.details.len() > limit {
                let _ = writeln!(out, "{indent}and {} more: -o wide", check.details.len() - limit);
            }
            if let Some(action) = &check.action {
                let _ = writeln!(out, "{indent}→ {}", replace_control_characters(action));
            }
        }
        let _ = writeln!(out, "\n{}", self.summary());
        out
    }

    fn summary(&self) -> String {
        let number = |state| self.checks.iter().filter(|check| check.state == state).count();
        let judged = self.checks.len() - number(CheckState::NotInstalled);
        let (failed, unknown) = (number(CheckState::NotOk), number(CheckState::Unknown));
        match self.outcome {
            Outcome::Ok => format!("The installation is in order: {judged} checks pass."),
            Outcome::NotOk => format!(
                "The installation is not in order: {failed} of {judged} checks fail, {unknown} unknown."
            ),
            Outcome::Unknown => format!(
                "Unknown whether the installation is in order: {unknown} of {judged} checks could not be judged."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, state: CheckState, details: usize) -> Check {
        Check {
            name,
            state,
            evidence: "as found".to_owned(),
            details: (1..=details)
                .map(|number| format!("n{number}: gone\u{7}"))
                .collect(),
            action: (state == CheckState::NotOk).then(|| "see: kubectl".to_owned()),
        }
    }

    fn report(outcome: Outcome, checks: Vec<Check>) -> Report {
        Report {
            outcome,
            namespace: "parallax".to_owned(),
            checks,
        }
    }

    #[test]
    fn one_failing_check_outweighs_unknown_ones_and_an_absent_part_counts_for_nothing() {
        let facts = Facts::without_cluster(Err("connection refused".to_owned()), "not asked");
        let report = Report::new(&facts);
        assert_eq!(report.outcome(), Outcome::Unknown, "{report:?}");
        assert_eq!(report.checks.len(), 11);
        assert!(
            report
                .checks
                .iter()
                .all(|check| check.state == CheckState::Unknown)
        );
        assert!(report.pending().starts_with("workloads, aggregator"));
    }

    #[test]
    fn details_are_limited_and_advice_follows_them() {
        let report = report(
            Outcome::NotOk,
            vec![
                check("plan", CheckState::Ok, 0),
                check("probers", CheckState::NotOk, 6),
                check("zones", CheckState::Unknown, 0),
                check("preflight", CheckState::NotInstalled, 0),
            ],
        );
        let rendered = report.render(false);
        assert_eq!(
            rendered,
            "✓ plan        as found\n\
             ✗ probers     as found\n              n1: gone \n              n2: gone \n              n3: gone \n              n4: gone \n              and 2 more: -o wide\n              → see: kubectl\n\
             ? zones       unknown: as found\n\
             - preflight   not installed: as found\n\n\
             The installation is not in order: 1 of 3 checks fail, 1 unknown.\n"
        );
        assert!(report.render(true).contains("n6: gone"));
        assert_eq!(report.pending(), "probers, zones");
    }

    #[test]
    fn the_summary_counts_what_is_installed() {
        let ok = report(
            Outcome::Ok,
            vec![
                check("plan", CheckState::Ok, 0),
                check("preflight", CheckState::NotInstalled, 0),
            ],
        );
        assert!(ok.render(false).ends_with("in order: 1 checks pass.\n"));
        let unknown = report(Outcome::Unknown, vec![check("plan", CheckState::Unknown, 0)]);
        assert!(
            unknown
                .render(false)
                .contains("1 of 1 checks could not be judged")
        );
    }
}
