//! Exit codes of `parallax status` that are right during an ordinary step.

use super::*;

#[test]
fn status_3_is_right_only_while_nobody_could_tell() {
    let code = cannot_tell(110.0..115.0);
    let quiet = TimelineBuilder::quiet(&code);
    let mut timeline = quiet.timeline();
    let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Failed);
    for look in timeline
        .samples
        .iter_mut()
        .filter(|look| (109.0..112.0).contains(&look.at))
    {
        look.state = Err("connection refused".to_owned());
    }
    let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Passed);
}

#[test]
fn status_1_is_right_while_users_are_not_served() {
    let code = |at: f64| i32::from((110.0..115.0).contains(&at));
    let quiet = TimelineBuilder::quiet(&code);
    let mut timeline = quiet.timeline();
    let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Failed);
    timeline.requests.push(request(108.0, "service", true));
    let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Passed, "{:?}", verdict.reasons);
}

#[test]
fn status_3_is_right_while_a_new_target_fails() {
    let code = cannot_tell(110.0..115.0);
    let quiet = TimelineBuilder::quiet(&code);
    for (new, outcome) in [(true, Outcome::Passed), (false, Outcome::Failed)] {
        let mut timeline = quiet.timeline();
        let looks = timeline.samples.iter_mut();
        for look in looks.filter(|look| (108.0..116.0).contains(&look.at)) {
            look.state.as_mut().unwrap().cells = vec![Cell {
                new,
                ..red("http://10.96.8.8:80/")
            }];
        }
        let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
        assert_eq!(verdict.outcome, outcome, "{:?}", verdict.reasons);
    }
}

#[test]
fn status_1_is_right_while_only_targets_fail_that_have_never_worked() {
    let code = |at: f64| i32::from((110.0..115.0).contains(&at));
    let quiet = TimelineBuilder::quiet(&code);
    for (others, outcome) in [(0, Outcome::Passed), (1, Outcome::Failed)] {
        let mut timeline = quiet.timeline();
        let looks = timeline.samples.iter_mut();
        for look in looks.filter(|look| (104.0..121.0).contains(&look.at)) {
            look.state.as_mut().unwrap().cells = (0..=others)
                .map(|n| Cell {
                    never_ok: n == 0,
                    ..red(&format!("http://10.96.8.{n}:80/"))
                })
                .collect();
        }
        let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
        assert_eq!(verdict.outcome, outcome, "{:?}", verdict.reasons);
    }
}

#[test]
fn status_3_is_right_for_half_a_minute_while_a_failure_of_no_target_is_under_investigation() {
    for (seconds, outcome) in [(20.0, Outcome::Passed), (40.0, Outcome::Failed)] {
        let open = 110.0..110.0 + seconds;
        let code = cannot_tell(open.clone());
        let mut timeline = TimelineBuilder::quiet(&code).timeline();
        for look in timeline.samples.iter_mut().filter(|look| open.contains(&look.at)) {
            let state = look.state.as_mut().unwrap();
            state.investigating.push("network: failing".to_owned());
        }
        let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
        assert_eq!(verdict.outcome, outcome, "{seconds}: {:?}", verdict.reasons);
    }
}

#[test]
fn status_3_is_right_for_half_a_minute_while_a_vantage_is_silent() {
    for (seconds, outcome) in [(20.0, Outcome::Passed), (40.0, Outcome::Failed)] {
        let code = cannot_tell(110.0..110.0 + seconds);
        let mut timeline = TimelineBuilder::quiet(&code).timeline();
        for look in timeline.statuses.iter_mut().filter(|look| look.code.0 == Some(3)) {
            "2 of 3 vantages report  ✓ 24 ok  · 12 unknown".clone_into(&mut look.line);
        }
        let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
        assert_eq!(verdict.outcome, outcome, "{seconds}: {:?}", verdict.reasons);
    }
}

#[test]
fn status_3_is_right_while_an_aggregator_catches_up() {
    for (warming, outcome) in [(true, Outcome::Passed), (false, Outcome::Failed)] {
        let starts = 110.0..150.0;
        let code = cannot_tell(starts.clone());
        let mut timeline = TimelineBuilder::quiet(&code).timeline();
        for look in timeline
            .samples
            .iter_mut()
            .filter(|look| starts.contains(&look.at))
        {
            look.state.as_mut().unwrap().warming = warming;
        }
        let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
        assert_eq!(verdict.outcome, outcome, "{warming}: {:?}", verdict.reasons);
    }
}

#[test]
fn status_3_is_right_until_every_vantage_reports_to_a_new_aggregator() {
    let code = cannot_tell(110.0..170.0);
    let quiet = TimelineBuilder::quiet(&code);
    let judged = |line: &str, new: bool| {
        let mut timeline = quiet.timeline();
        for look in timeline.statuses.iter_mut().filter(|look| look.code.0 == Some(3)) {
            line.clone_into(&mut look.line);
        }
        for look in timeline
            .samples
            .iter_mut()
            .filter(|look| new && (108.0..111.0).contains(&look.at))
        {
            look.state.as_mut().unwrap().reporting.clear();
        }
        judge(&ordinary(), &timeline, MARKS, &destinations()).outcome
    };
    let partial = "2 of 3 vantages report  ✓ 24 ok  · 12 unknown";
    assert_eq!(judged(partial, true), Outcome::Passed);
    assert_eq!(judged(partial, false), Outcome::Failed);
    assert_eq!(
        judged("3 of 3 vantages report  · 1 unknown", true),
        Outcome::Failed
    );
}
