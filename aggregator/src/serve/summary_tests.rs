//! The status of views with and without failures, and with incomplete coverage.

use parallax_diagnosis::view::{CellState, Investigation};
use parallax_model::Micros;

use super::*;
use parallax_fixtures::{healthy, outage, row, vantage};

fn status(view: &View) -> Status {
    StatusSummary::of(view, view.at, false).status
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
            StatusSummary::of(&view, view.at, true).status,
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
    let summary = StatusSummary::of(&view, view.at, false);
    assert_eq!((summary.status, summary.tone), (Status::Ok, SummaryTone::Ok));
    assert!(summary.detail.contains("; 1 probe lost"), "{}", summary.detail);
    // A second failure from another vantage is not tolerated.
    lose(&mut view, 1);
    assert_eq!(status(&view), Status::Failing);
}

/// Measured after an upgrade: the first probe of the first vantage went to the address of a Pod that had just left, which its
/// resolver still had.
#[test]
fn a_single_failed_probe_is_not_a_failing_target_while_catching_up() {
    let mut view = healthy();
    for cell in &mut view.matrix[0].cells {
        (cell.state, cell.probes, cell.failures) = (CellState::Unknown, 0, 0);
    }
    let first = &mut view.matrix[0].cells[0];
    (first.state, first.probes, first.failures) = (CellState::Failing, 1, 1);
    for never_succeeded in [false, true] {
        view.matrix[0].never_succeeded = never_succeeded;
        let summary = StatusSummary::of(&view, view.at, true);
        assert_eq!(summary.status, Status::Unknown, "{}", summary.text);
        assert_eq!(status(&view), Status::Failing);
    }
    let first = &mut view.matrix[0].cells[0];
    (first.probes, first.failures) = (2, 2);
    assert_eq!(StatusSummary::of(&view, view.at, true).status, Status::Failing);
}

#[test]
fn an_excused_failure_keeps_the_status_ok() {
    let mut view = healthy();
    investigate(&mut view, Subject::Network);
    view.investigations[0].transient = true;
    let summary = StatusSummary::of(&view, view.at, false);
    assert_eq!(summary.status, Status::Ok);
    assert!(
        summary
            .detail
            .contains("; 1 failure expected to resolve by itself"),
        "{}",
        summary.detail
    );
}

#[test]
fn a_failure_of_no_target_is_neither_ok_nor_a_failing_target_while_its_cause_is_looked_for() {
    let mut view = healthy();
    investigate(&mut view, Subject::Network);
    let summary = StatusSummary::of(&view, view.at, false);
    assert_eq!(
        (summary.status, &*summary.detail),
        (
            Status::Unknown,
            "1 failure that affects no target is under investigation."
        )
    );
    view.matrix[0].cells[0].state = CellState::Flaky;
    view.matrix[0].cells[0].failures = 2;
    let summary = StatusSummary::of(&view, view.at, false);
    assert_eq!(
        (summary.status, &*summary.text, &*summary.detail),
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
    let summary = StatusSummary::of(&view, view.at, false);
    assert_eq!(
        (summary.status, &*summary.text),
        (Status::Failing, "1 target never worked")
    );
    if let Some(row) = view.matrix.last_mut() {
        row.pending = true;
    }
    investigate(
        &mut view,
        Subject::Target("https://new.example.test/".parse().unwrap()),
    );
    let summary = StatusSummary::of(&view, view.at, false);
    assert_eq!(summary.status, Status::Ok);
    assert!(
        summary.detail.contains("1 target not in service yet"),
        "{}",
        summary.detail
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
        let summary = StatusSummary::of(&view, view.at, false);
        assert_eq!(
            (summary.status, &*summary.detail),
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
    let view = healthy();
    assert_eq!(StatusSummary::of(&view, view.at, true).status, Status::Unknown);
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

#[test]
fn a_view_that_is_no_longer_current_is_never_ok() {
    let later = |view: &View, seconds| {
        let now = view.at.plus(Micros::from_secs(seconds));
        StatusSummary::of(view, now, false)
    };
    let view = healthy();
    assert_eq!(later(&view, 5).status, Status::Ok);
    let summary = later(&view, 40);
    assert_eq!(
        (summary.status, &*summary.detail),
        (Status::Unknown, "The diagnosis has not advanced for 40 s.")
    );
    // What failed last is not hidden.
    assert_eq!(later(&outage(), 40).status, Status::Failing);
}

/// Another vantage still answers for the target, which alone would be ok.
#[test]
fn a_target_without_evidence_from_a_vantage_whose_observations_are_discarded_is_unknown() {
    let mut view = healthy();
    view.vantages[1].is_discarding = true;
    assert_eq!(status(&view), Status::Ok, "its cells are fresh");
    for row in &mut view.matrix {
        for cell in row.cells.iter_mut().filter(|cell| cell.vantage == 1) {
            cell.state = CellState::Unknown;
        }
    }
    assert_eq!(status(&view), Status::Unknown);
    view.vantages[1].is_discarding = false;
    assert_eq!(status(&view), Status::Ok);
}
