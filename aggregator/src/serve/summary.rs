//! Overall status, shared by the headline of the page, `GET /v1/state` and `parallax status`.
//!
//! Unknown is never reported as ok.

use std::fmt::Write as _;

use parallax_api::severity::IncidentSeverity;
use parallax_diagnosis::{
    findings::{Finding, Severity},
    verdict::{Incident, IncidentState, Subject},
    view::{CellState, MatrixRow, VantageState, View},
};
use serde::Serialize;

use super::page::wording::format_count;

/// Overall status, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Every expected vantage reports, and every target works.
    Ok,
    /// A target fails, whether its cause is named or not, or a finding is critical.
    Failing,
    /// Coverage is incomplete, or the aggregator has just started.
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
    /// Summarises a view. While the aggregator is catching up, the status is never ok.
    pub(crate) fn of(view: &View, catching_up: bool) -> Self {
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
        if let Some(failing) = Self::failing_summary(view) {
            return failing;
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

    /// Summarises failures outside incidents; `None` without any.
    fn failing_summary(view: &View) -> Option<Self> {
        let failing = |tone, text: String, detail: &str| {
            Some(Self {
                status: Status::Failing,
                tone,
                text,
                detail: detail.to_owned(),
            })
        };
        let rows = |test: fn(&MatrixRow) -> bool| view.matrix.iter().filter(|row| test(row)).count();
        let broken = rows(|row| !row.never_succeeded && !row.is_new && is_failing(row));
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
        let never = rows(|row| row.never_succeeded && !row.pending && !row.is_new && is_failing(row));
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

    /// Summarises a view without incidents and failing targets: ok only if coverage is complete.
    fn quiet_summary(view: &View, waiting: usize, silent: usize) -> Self {
        let unseen = view
            .matrix
            .iter()
            .filter(|row| row.cells.iter().all(|cell| cell.state == CellState::Unknown))
            .count();
        let new = view
            .matrix
            .iter()
            .filter(|row| !row.pending && row.is_new && is_failing(row))
            .count();
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
            (
                count_investigations(view),
                "failure that affects no target is under investigation|failures that affect no target are under investigation",
            ),
            (
                new,
                "new target does not work everywhere yet|new targets do not work everywhere yet",
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
        let unknown = |text: &str, detail: String| Self {
            status: Status::Unknown,
            tone: SummaryTone::Unknown,
            text: text.to_owned(),
            detail,
        };
        if view.matrix.is_empty() {
            return unknown("No targets", "No target is configured.".to_owned());
        }
        if !doubts.is_empty() {
            return unknown("Status partly unknown", format!("{doubt}."));
        }
        reachable_summary(view)
    }
}

/// Counts open investigations, except excused ones and those about only new targets or targets not in service yet.
fn count_investigations(view: &View) -> usize {
    let open = view.investigations.iter().filter(|open| !open.transient);
    open.filter(|open| !covers_only(view, &open.subject, |row| is_pending(row) || row.is_new))
        .count()
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

/// Summarises a view in which every target works, with findings, hazards and what is unknown from outside the cluster.
fn reachable_summary(view: &View) -> StatusSummary {
    let mut detail = format!(
        "{} from {}",
        format_count(view.matrix.len(), "target"),
        format_count(view.vantages.len(), "vantage")
    );
    let pending = view.matrix.iter().filter(|row| is_pending(row)).count();
    if pending > 0 {
        let _ = write!(detail, "; {} not in service yet", format_count(pending, "target"));
    }
    let known = view
        .matrix
        .iter()
        .filter(|row| !row.never_succeeded && !row.is_new);
    let lost: u64 = known.flat_map(|row| &row.cells).map(|cell| cell.failures).sum();
    if lost > 0 {
        let _ = write!(
            detail,
            "; {} lost",
            format_count(usize::try_from(lost).unwrap_or(usize::MAX), "probe")
        );
    }
    let excused = view.investigations.iter().filter(|open| open.transient).count();
    if excused > 0 {
        let _ = write!(
            detail,
            "; {} expected to resolve by itself",
            format_count(excused, "failure")
        );
    }
    if !view.hazards.is_empty() {
        let _ = write!(detail, "; {}", format_count(view.hazards.len(), "hazard"));
    }
    if view.not_excluded.iter().any(|open| open.id == "I7") {
        detail.push_str("; reachability from outside the cluster is unknown");
    }
    detail.push('.');
    let reachable = "All targets reachable";
    let found = view
        .findings
        .iter()
        .any(|finding| finding.severity > Severity::Notice);
    let (tone, text) = if found {
        let found = format_count(view.findings.len(), "finding");
        (SummaryTone::Warning, format!("{reachable}, and {found}"))
    } else {
        (SummaryTone::Ok, reachable.to_owned())
    };
    StatusSummary {
        status: Status::Ok,
        tone,
        text,
        detail,
    }
}

pub(crate) fn is_open(incident: &Incident) -> bool {
    !matches!(incident.state, IncidentState::Closed { .. })
}

/// Failed probes of a target that are tolerated if others succeed: ordinary packet loss.
const TOLERATED_FAILURES: u64 = 1;

fn is_failing(row: &MatrixRow) -> bool {
    let sums = row.cells.iter().map(|cell| (cell.probes, cell.failures));
    let (probes, failures) = sums.fold((0, 0), |(n, f), (probes, failures)| (n + probes, f + failures));
    failures > TOLERATED_FAILURES || (failures > 0 && failures == probes)
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::view::Investigation;

    use super::*;
    use parallax_fixtures::{healthy, outage, row, vantage};

    fn status(view: &View) -> Status {
        StatusSummary::of(view, false).status
    }

    fn investigate(view: &mut View, subject: Subject) {
        view.investigations.push(Investigation {
            subject,
            sentence: "failing, cause not yet known".to_owned(),
            since: view.at,
            transient: false,
        });
    }

    #[test]
    fn a_failure_is_one_whether_its_cause_is_named_or_not() {
        assert_eq!(status(&healthy()), Status::Ok);
        assert_eq!(status(&outage()), Status::Failing);
        for state in [CellState::Failing, CellState::Flaky] {
            let mut view = healthy();
            view.matrix[0].cells[0].state = state;
            view.matrix[0].cells[0].failures = 2;
            assert_eq!(status(&view), Status::Failing, "{state:?}");
            // Catching up and missing vantages do not hide a failure.
            view.vantages[1] = vantage("n2/pod", VantageState::Silent);
            assert_eq!(
                StatusSummary::of(&view, true).status,
                Status::Failing,
                "{state:?}"
            );
        }
    }

    #[test]
    fn one_lost_probe_is_reported_and_tolerated() {
        let mut view = healthy();
        let lose = |view: &mut View, cell: usize| {
            view.matrix[0].cells[cell].state = CellState::Flaky;
            view.matrix[0].cells[cell].failures = 1;
        };
        lose(&mut view, 0);
        let said = StatusSummary::of(&view, false);
        assert_eq!((said.status, said.tone), (Status::Ok, SummaryTone::Ok));
        assert!(said.detail.contains("; 1 probe lost"), "{}", said.detail);
        // A second failure from another vantage is not tolerated.
        lose(&mut view, 1);
        assert_eq!(status(&view), Status::Failing);
    }

    #[test]
    fn an_excused_failure_keeps_the_status_ok() {
        let mut view = healthy();
        investigate(&mut view, Subject::Network);
        view.investigations[0].transient = true;
        let said = StatusSummary::of(&view, false);
        assert_eq!(said.status, Status::Ok);
        assert!(
            said.detail.contains("; 1 failure expected to resolve by itself"),
            "{}",
            said.detail
        );
    }

    #[test]
    fn a_failure_of_no_target_is_neither_ok_nor_a_failing_target_while_its_cause_is_looked_for() {
        let mut view = healthy();
        investigate(&mut view, Subject::Network);
        let said = StatusSummary::of(&view, false);
        assert_eq!(
            (said.status, &*said.detail),
            (
                Status::Unknown,
                "1 failure that affects no target is under investigation."
            )
        );
        view.matrix[0].cells[0].state = CellState::Flaky;
        view.matrix[0].cells[0].failures = 2;
        let said = StatusSummary::of(&view, false);
        assert_eq!(
            (said.status, &*said.text, &*said.detail),
            (
                Status::Failing,
                "Probes fail for 1 target",
                "Under investigation; no cause is named yet."
            )
        );
    }

    #[test]
    fn what_never_worked_fails_unless_it_is_not_in_service_yet() {
        let mut view = healthy();
        let mut never = row("https://new.example.test/", None, &[CellState::Failing; 2]);
        never.never_succeeded = true;
        view.matrix.push(never);
        let said = StatusSummary::of(&view, false);
        assert_eq!(
            (said.status, &*said.text),
            (Status::Failing, "1 target never worked")
        );
        if let Some(row) = view.matrix.last_mut() {
            row.pending = true;
        }
        investigate(
            &mut view,
            Subject::Target("https://new.example.test/".parse().unwrap()),
        );
        let said = StatusSummary::of(&view, false);
        assert_eq!(said.status, Status::Ok);
        assert!(
            said.detail.contains("1 target not in service yet"),
            "{}",
            said.detail
        );
        // A target that has worked is in service, regardless of its annotation.
        if let Some(row) = view.matrix.last_mut() {
            row.never_succeeded = false;
        }
        assert_eq!(status(&view), Status::Failing);
    }

    #[test]
    fn that_a_new_target_fails_is_unknown() {
        let mut view = healthy();
        let mut new = row("https://new.example.test/", None, &[CellState::Failing; 2]);
        new.is_new = true;
        view.matrix.push(new);
        investigate(
            &mut view,
            Subject::Target("https://new.example.test/".parse().unwrap()),
        );
        for never_ok in [true, false] {
            if let Some(row) = view.matrix.last_mut() {
                row.never_succeeded = never_ok;
            }
            let said = StatusSummary::of(&view, false);
            assert_eq!(
                (said.status, &*said.detail),
                (Status::Unknown, "1 new target does not work everywhere yet.")
            );
        }
        if let Some(row) = view.matrix.last_mut() {
            row.is_new = false;
        }
        assert_eq!(status(&view), Status::Failing);
    }

    #[test]
    fn lost_coverage_and_catching_up_are_never_ok() {
        assert_eq!(StatusSummary::of(&healthy(), true).status, Status::Unknown);
        for state in [VantageState::Silent, VantageState::Waiting] {
            let mut view = healthy();
            view.vantages[1] = vantage("n2/pod", state);
            assert_eq!(status(&view), Status::Unknown, "{state:?}");
        }
        let mut view = healthy();
        for cell in &mut view.matrix[0].cells {
            cell.state = CellState::Unknown;
        }
        assert_eq!(status(&view), Status::Unknown);
        view.matrix.clear();
        assert_eq!(status(&view), Status::Unknown);
        view.vantages.clear();
        assert_eq!(status(&view), Status::Unknown);
    }
}
