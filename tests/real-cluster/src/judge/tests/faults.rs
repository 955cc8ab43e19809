//! Verdicts on faults.

use super::*;

fn named(at: f64) -> Vec<Incident> {
    match at {
        at if at < 112.0 => Vec::new(),
        at if at < 175.0 => vec![incident("0a", "P7", "open"), incident("0b", "P3", "open")],
        _ => vec![incident("0a", "P7", "closed"), incident("0b", "P3", "closed")],
    }
}

fn called(at: f64) -> Vec<&'static str> {
    if (115.0..178.0).contains(&at) {
        vec!["0a"]
    } else {
        Vec::new()
    }
}

fn says_no(at: f64) -> i32 {
    i32::from((112.0..175.0).contains(&at))
}

#[test]
fn a_fault_that_is_named_called_and_closed_passes_and_what_is_said_beside_it_is_counted() {
    let good = TimelineBuilder {
        open: &named,
        fails: &lasts,
        firing: &called,
        code: &says_no,
    };
    let mut step = fault();
    step.expect.most_extras = 1;
    let verdict = judge(&step, &good.timeline(), MARKS, &destinations());
    assert_eq!(verdict.reasons, Vec::<String>::new());
    assert_eq!(
        (verdict.named_after, verdict.closed_after),
        (Some(12.0), Some(12.0))
    );
    assert_eq!((verdict.named.len(), verdict.other_incidents.len()), (1, 1));
    step.expect.most_extras = 0;
    let verdict = judge(&step, &good.timeline(), MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Failed);
}

#[test]
fn a_fault_that_users_do_not_feel_proves_nothing() {
    let imagined = TimelineBuilder {
        open: &named,
        fails: &never,
        firing: &called,
        code: &says_no,
    };
    let verdict = judge(&fault(), &imagined.timeline(), MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Unsound);
}

#[test]
fn a_fault_fails_by_another_name_a_late_end_a_gap_or_a_green_status() {
    let reasons = |story: TimelineBuilder| {
        let verdict = judge(&fault(), &story.timeline(), MARKS, &destinations());
        assert_eq!(verdict.outcome, Outcome::Failed);
        verdict.reasons.join("\n")
    };
    let good = || TimelineBuilder {
        open: &named,
        fails: &lasts,
        firing: &called,
        code: &says_no,
    };
    let other = |at: f64| {
        if lasts(at) {
            vec![incident("0a", "P1", "open")]
        } else {
            Vec::new()
        }
    };
    assert!(
        reasons(TimelineBuilder {
            open: &other,
            ..good()
        })
        .contains("not named: expected P7")
    );

    let renamed = |at: f64| match at {
        at if (112.0..130.0).contains(&at) => vec![incident("0a", "F22", "open")],
        at => named(at),
    };
    let reason_text = reasons(TimelineBuilder {
        open: &renamed,
        ..good()
    });
    assert!(
        reason_text.contains("12 s after the fault it has another name: 0a F22"),
        "{reason_text}"
    );

    let late = |at: f64| {
        if at > 112.0 {
            vec![incident("0a", "P7", "open")]
        } else {
            Vec::new()
        }
    };
    assert!(
        reasons(TimelineBuilder {
            open: &late,
            ..good()
        })
        .contains("58 s after the repair it is still open: 0a P7")
    );

    let gap = |at: f64| {
        if (130.0..140.0).contains(&at) {
            Vec::new()
        } else {
            named(at)
        }
    };
    let reason_text = reasons(TimelineBuilder { open: &gap, ..good() });
    assert!(
        reason_text.contains("no incident names it any more, while users fail"),
        "{reason_text}"
    );

    let silent = |at: f64| {
        if (130.0..140.0).contains(&at) {
            Vec::new()
        } else {
            called(at)
        }
    };
    let reason_text = reasons(TimelineBuilder {
        firing: &silent,
        ..good()
    });
    assert!(
        reason_text
            .contains("30 s after the fault its alert resolves while the fault lasts, 1 times, for 10 s"),
        "{reason_text}"
    );
    assert!(
        reasons(TimelineBuilder {
            firing: &no_alert,
            ..good()
        })
        .contains("its alert never fires")
    );

    let reason_text = reasons(TimelineBuilder {
        code: &fine,
        ..good()
    });
    assert!(
        reason_text.contains("`parallax status` exits with 0 while users fail"),
        "{reason_text}"
    );
}

#[test]
fn a_fault_that_comes_back_under_another_id_fails_where_it_keeps_its_id() {
    let renamed = |at: f64| match at {
        at if at < 112.0 => Vec::new(),
        at if at < 130.0 => vec![incident("0a", "P7", "open")],
        at if at < 175.0 => vec![incident("0c", "P7", "open")],
        _ => Vec::new(),
    };
    let firing = |at: f64| match at {
        at if at < 115.0 => Vec::new(),
        at if at < 130.0 => vec!["0a"],
        at if at < 178.0 => vec!["0c"],
        _ => Vec::new(),
    };
    let story = TimelineBuilder {
        open: &renamed,
        fails: &lasts,
        firing: &firing,
        code: &says_no,
    };
    let mut step = fault();
    let verdict = judge(&step, &story.timeline(), MARKS, &destinations());
    assert_eq!(
        verdict.reasons,
        ["2 incidents name the fault; at most 1 are allowed"]
    );
    step.expect.most_incidents = 2;
    let verdict = judge(&step, &story.timeline(), MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Passed, "{:?}", verdict.reasons);
    step.expect.keeps_id = true;
    let verdict = judge(&step, &story.timeline(), MARKS, &destinations());
    assert_eq!(verdict.reasons, ["one fault has several ids: 0a, 0c"]);
}
