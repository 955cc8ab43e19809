//! The one line at the top. "Unknown" is never said as "ok".

use std::fmt::Write as _;

use parallax_diagnosis::{
    findings::Severity,
    verdict::{Incident, IncidentState},
    view::{CellState, MatrixRow, VantageState, View},
};

use super::words::count;
use crate::severity::Severity as IncidentSeverity;

/// What the headline is coloured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Ok,
    Unknown,
    Warning,
    Critical,
}

impl Tone {
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    pub(super) const fn symbol(self) -> &'static str {
        match self {
            Self::Ok => "✓",
            Self::Unknown => "?",
            Self::Warning => "!",
            Self::Critical => "✕",
        }
    }
}

/// The state in a few words, and a sentence behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Headline {
    pub(super) tone: Tone,
    pub(super) text: String,
    pub(super) detail: String,
}

impl Headline {
    pub(super) fn of(view: &View) -> Self {
        let with = |state| view.vantages.iter().filter(|v| v.state == state).count();
        let (waiting, silent, reporting) = (
            with(VantageState::Waiting),
            with(VantageState::Silent),
            with(VantageState::Reporting),
        );
        let open: Vec<_> = view
            .incidents
            .iter()
            .filter(|incident| is_open(incident))
            .collect();
        if !open.is_empty() {
            return Self::incidents(&open, view, silent);
        }
        let say = |tone, text: String, detail: String| Self { tone, text, detail };
        if view.vantages.is_empty() {
            return say(
                Tone::Unknown,
                "No vantage is expected".to_owned(),
                "The topology names no node with a prober, so nobody asks.".to_owned(),
            );
        }
        if waiting == view.vantages.len() {
            return say(
                Tone::Unknown,
                format!("Waiting for the first report of {}", count(waiting, "vantage")),
                "Nothing is known yet.".to_owned(),
            );
        }
        if reporting == 0 {
            return say(
                Tone::Unknown,
                "No vantage reports".to_owned(),
                "Whatever they last said is no longer evidence.".to_owned(),
            );
        }
        if !view.investigating.is_empty() {
            return say(
                Tone::Warning,
                format!("Investigating {}", count(view.investigating.len(), "failure")),
                "Something fails; no cause is named yet.".to_owned(),
            );
        }
        Self::quiet(view, waiting, silent)
    }

    fn incidents(open: &[&Incident], view: &View, silent: usize) -> Self {
        let critical = open
            .iter()
            .any(|incident| IncidentSeverity::of(incident, view) == IncidentSeverity::Critical);
        let recovering = open
            .iter()
            .all(|incident| incident.state == IncidentState::Recovering);
        let mut targets: Vec<_> = open
            .iter()
            .flat_map(|incident| &incident.verdict.targets)
            .collect();
        targets.sort();
        targets.dedup();
        let mut details = vec![if recovering {
            "The first successes are in, not yet enough to close".to_owned()
        } else {
            format!("{} affected", count(targets.len(), "target"))
        }];
        if !view.investigating.is_empty() {
            details.push(format!(
                "{} under investigation",
                count(view.investigating.len(), "more failure")
            ));
        }
        if silent > 0 {
            details.push(format!("{} silent", count(silent, "vantage")));
        }
        Self {
            tone: if critical { Tone::Critical } else { Tone::Warning },
            text: count(open.len(), "open incident"),
            detail: format!("{}.", details.join(", ")),
        }
    }

    /// No incident and nothing under investigation: ok only as far as it was seen.
    fn quiet(view: &View, waiting: usize, silent: usize) -> Self {
        let rows = |test: fn(&MatrixRow) -> bool| view.matrix.iter().filter(|row| test(row)).count();
        let never = rows(|row| row.never_ok && fails(row));
        let failing = rows(|row| !row.never_ok && fails(row));
        let unseen = rows(|row| row.cells.iter().all(|cell| cell.state == CellState::Unknown));
        let mut doubts = Vec::new();
        for (n, words) in [
            (silent, "vantage is silent|vantages are silent"),
            (
                waiting,
                "vantage has not reported yet|vantages have not reported yet",
            ),
            (
                unseen,
                "target has no fresh evidence|targets have no fresh evidence",
            ),
        ] {
            let (one, many) = words.split_once('|').unwrap_or((words, words));
            match n {
                0 => {}
                1 => doubts.push(format!("1 {one}")),
                n => doubts.push(format!("{n} {many}")),
            }
        }
        let doubt = doubts.join(", ");
        let (tone, text, detail) = if failing > 0 {
            let text = format!("Probes fail for {}", count(failing, "target"));
            (Tone::Warning, text, "Too little yet to name a cause.".to_owned())
        } else if view.matrix.is_empty() {
            (
                Tone::Unknown,
                "No target".to_owned(),
                "Nothing is configured to be reachable.".to_owned(),
            )
        } else if !doubts.is_empty() {
            (
                Tone::Unknown,
                "Not everything is known".to_owned(),
                format!("{doubt}."),
            )
        } else if never > 0 {
            let text = format!("{} never answered", count(never, "target"));
            (Tone::Warning, text, "Everything else is reachable.".to_owned())
        } else {
            reachable(view)
        };
        Self { tone, text, detail }
    }
}

/// Every probe succeeds. What was found besides still counts, and a pass inside is none outside.
fn reachable(view: &View) -> (Tone, String, String) {
    let mut detail = format!(
        "{} from {}",
        count(view.matrix.len(), "target"),
        count(view.vantages.len(), "vantage")
    );
    if !view.hazards.is_empty() {
        let _ = write!(detail, "; {}", count(view.hazards.len(), "hazard"));
    }
    if view.not_excluded.iter().any(|open| open.id == "I7") {
        detail.push_str("; whether clients outside the cluster get through is not known");
    }
    detail.push('.');
    let reachable = "All targets reachable";
    match view.findings.iter().map(|finding| finding.severity).max() {
        Some(worst @ (Severity::Critical | Severity::Warning)) => {
            let tone = if worst == Severity::Critical {
                Tone::Critical
            } else {
                Tone::Warning
            };
            let text = format!("{reachable}, and {}", count(view.findings.len(), "finding"));
            (tone, text, detail)
        }
        Some(Severity::Notice) | None => (Tone::Ok, reachable.to_owned(), detail),
    }
}

pub(super) fn is_open(incident: &Incident) -> bool {
    !matches!(incident.state, IncidentState::Closed { .. })
}

fn fails(row: &MatrixRow) -> bool {
    row.cells
        .iter()
        .any(|cell| matches!(cell.state, CellState::Failing | CellState::Flaky))
}
