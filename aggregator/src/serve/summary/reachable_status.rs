//! The status of a view without incidents and failing targets.

use std::fmt::Write as _;

use parallax_diagnosis::{
    findings::Severity,
    view::{CellState, View},
};

use super::{Status, StatusSummary, SummaryTone, covers_only, is_failing, is_pending};
use crate::serve::page::wording::format_count;

impl StatusSummary {
    /// Summarises a view without incidents and failing targets: ok only if coverage is complete.
    pub(super) fn quiet_summary(view: &View, waiting: usize, silent: usize) -> Self {
        let unseen = view
            .matrix
            .iter()
            .filter(|row| row.cells.iter().all(|cell| cell.state == CellState::Unknown))
            .count();
        let discarding = view.vantages.iter().enumerate().filter(|(column, vantage)| {
            vantage.is_discarding
                && view
                    .matrix
                    .iter()
                    .flat_map(|row| &row.cells)
                    .any(|cell| cell.vantage == *column && cell.state == CellState::Unknown)
        });
        let discarding = discarding.count();
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
                discarding,
                "vantage's observations are discarded|vantages' observations are discarded",
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
pub(super) fn count_investigations(view: &View) -> usize {
    let open = view.investigations.iter().filter(|open| !open.transient);
    open.filter(|open| !covers_only(view, &open.subject, |row| is_pending(row) || row.is_new))
        .count()
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
