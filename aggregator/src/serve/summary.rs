//! Overall status, shared by the headline of the page, `GET /v1/state` and `parallax status`.
//!
//! Unknown is never reported as ok.

mod reachable_status;

use parallax_api::severity::IncidentSeverity;
use parallax_diagnosis::{
    findings::{Finding, Severity},
    verdict::{Incident, IncidentState, Subject},
    view::{MatrixRow, VantageState, View},
};
use parallax_model::{EventTime, Micros};
use serde::Serialize;

use super::page::wording::format_count;
use reachable_status::count_investigations;

/// Intervals without a new view after which the last one no longer shows the present.
const STALE_INTERVALS: u64 = 3;

/// Shortest time without a new view that counts. A busy engine answers within two seconds, or later.
const MIN_STALE: Micros = Micros::from_secs(5);

/// Returns the age of a view that no longer shows the present, because the engine does not advance.
pub(crate) fn stale_for(view: &View, now: EventTime) -> Option<Micros> {
    let age = now - view.at;
    let limit = Micros(view.interval.0.saturating_mul(STALE_INTERVALS)).max(MIN_STALE);
    (age > limit).then_some(age)
}

/// Overall status, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Every expected vantage reports, and every target works.
    Ok,
    /// A target fails, whether its cause is named or not, or a finding is critical.
    Failing,
    /// Coverage is incomplete, the diagnosis does not advance, or the aggregator has just started.
    Unknown,
}

/// Colour of the headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SummaryTone {
    Ok,
    Unknown,
    Warning,
    Critical,
}

impl SummaryTone {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Self::Ok => "✓",
            Self::Unknown => "?",
            Self::Warning => "!",
            Self::Critical => "✕",
        }
    }
}

/// The status with a headline and a sentence of detail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StatusSummary {
    pub(crate) status: Status,
    pub(crate) tone: SummaryTone,
    pub(crate) text: String,
    pub(crate) detail: String,
}

impl StatusSummary {
    /// Summarises a view. The status is never ok while the aggregator is catching up, or if the view is stale.
    pub(crate) fn of(view: &View, now: EventTime, catching_up: bool) -> Self {
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
            return Self::incident_summary(&open, view, silent);
        }
        let unknown = |text: String, detail: String| Self {
            status: Status::Unknown,
            tone: SummaryTone::Unknown,
            text,
            detail,
        };
        if view.vantages.is_empty() {
            return unknown(
                "No vantages".to_owned(),
                "The topology contains no node with a prober, so no target is probed.".to_owned(),
            );
        }
        if waiting == view.vantages.len() {
            return unknown(
                format!(
                    "Waiting for the first report of {}",
                    format_count(waiting, "vantage")
                ),
                "There is no evidence yet.".to_owned(),
            );
        }
        if reporting == 0 {
            return unknown(
                "No vantage reports".to_owned(),
                "The latest reports are too old to be evidence.".to_owned(),
            );
        }
        if let Some(failing) = Self::failing_summary(view, catching_up) {
            return failing;
        }
        if let Some(age) = stale_for(view, now) {
            return unknown(
                "The diagnosis is stale".to_owned(),
                format!("The diagnosis has not advanced for {}.", age.humanize()),
            );
        }
        if catching_up {
            return unknown(
                "Catching up after a start".to_owned(),
                format!(
                    "The aggregator has just started; {reporting} of {} are reporting.",
                    format_count(view.vantages.len(), "vantage")
                ),
            );
        }
        Self::quiet_summary(view, waiting, silent)
    }

    /// Summarises failures outside incidents; `None` without any. While the aggregator is catching up, the only probe of a
    /// target may be the lost one.
    fn failing_summary(view: &View, catching_up: bool) -> Option<Self> {
        let is_failing = |row: &MatrixRow| {
            if catching_up {
                failures(row) > TOLERATED_FAILURES
            } else {
                is_failing(row)
            }
        };
        let failing = |tone, text: String, detail: &str| {
            Some(Self {
                status: Status::Failing,
                tone,
                text,
                detail: detail.to_owned(),
            })
        };
        let rows = |test: &dyn Fn(&MatrixRow) -> bool| view.matrix.iter().filter(|row| test(row)).count();
        let broken = rows(&|row| !row.never_succeeded && !row.is_new && is_failing(row));
        if broken > 0 {
            return failing(
                SummaryTone::Warning,
                format!("Probes fail for {}", format_count(broken, "target")),
                if count_investigations(view) > 0 {
                    "Under investigation; no cause is named yet."
                } else {
                    "There is too little evidence to name a cause."
                },
            );
        }
        let never = rows(&|row| row.never_succeeded && !row.pending && !row.is_new && is_failing(row));
        if never > 0 {
            return failing(
                SummaryTone::Warning,
                format!("{} never worked", format_count(never, "target")),
                "No target that has worked before is failing. If a target is not in service yet, annotate it with parallax.dev/pending.",
            );
        }
        let critical = |finding: &&Finding| finding.severity == Severity::Critical;
        let critical = view.findings.iter().filter(critical).count();
        if critical > 0 {
            return failing(
                SummaryTone::Critical,
                format_count(critical, "critical finding"),
                "All probes that must succeed do.",
            );
        }
        None
    }

    fn incident_summary(open: &[&Incident], view: &View, silent: usize) -> Self {
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
            "The first probes succeed again; not yet enough evidence to close".to_owned()
        } else {
            format!("{} affected", format_count(targets.len(), "target"))
        }];
        if !view.investigations.is_empty() {
            details.push(format!(
                "{} under investigation",
                format_count(view.investigations.len(), "more failure")
            ));
        }
        if silent > 0 {
            details.push(format!("{} silent", format_count(silent, "vantage")));
        }
        Self {
            status: Status::Failing,
            tone: if critical {
                SummaryTone::Critical
            } else {
                SummaryTone::Warning
            },
            text: format_count(open.len(), "open incident"),
            detail: format!("{}.", details.join(", ")),
        }
    }
}

/// Reports whether a subject covers targets, and `test` holds for all of them.
fn covers_only(view: &View, subject: &Subject, test: impl Fn(&MatrixRow) -> bool) -> bool {
    let concerned = |row: &&MatrixRow| match subject {
        Subject::Front(front) => row.fronts.contains(front),
        Subject::Target(target) => row.target == *target,
        _ => false,
    };
    let mut rows = view.matrix.iter().filter(concerned).peekable();
    rows.peek().is_some() && rows.all(test)
}

/// Reports whether a target is not in service yet and has never worked.
fn is_pending(row: &MatrixRow) -> bool {
    row.never_succeeded && row.pending
}

pub(crate) fn is_open(incident: &Incident) -> bool {
    !matches!(incident.state, IncidentState::Closed { .. })
}

/// Failed probes of a target that are tolerated if others succeed: ordinary packet loss.
const TOLERATED_FAILURES: u64 = 1;

fn is_failing(row: &MatrixRow) -> bool {
    let probes: u64 = row.cells.iter().map(|cell| cell.probes).sum();
    let failures = failures(row);
    failures > TOLERATED_FAILURES || (failures > 0 && failures == probes)
}

fn failures(row: &MatrixRow) -> u64 {
    row.cells.iter().map(|cell| cell.failures).sum()
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
