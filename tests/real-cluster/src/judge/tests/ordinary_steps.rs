//! Verdicts on ordinary steps.

use super::*;

#[test]
fn an_ordinary_step_in_which_nothing_is_said_passes() {
    let quiet = TimelineBuilder::quiet(&fine);
    let verdict = judge(&ordinary(), &quiet.timeline(), MARKS, &destinations());
    assert_eq!((verdict.outcome, verdict.reasons), (Outcome::Passed, Vec::new()));
}

#[test]
fn an_incident_an_alert_and_an_exit_code_each_fail_an_ordinary_step() {
    let open = |at: f64| {
        if at > 120.0 {
            vec![incident("0a", "F14", "open")]
        } else {
            Vec::new()
        }
    };
    let firing = |at: f64| if at > 125.0 { vec!["0a"] } else { Vec::new() };
    let code = |at: f64| i32::from(at > 121.0);
    let noisy = TimelineBuilder {
        open: &open,
        fails: &never,
        firing: &firing,
        code: &code,
    };
    let verdict = judge(&ordinary(), &noisy.timeline(), MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Failed);
    let all = verdict.reasons.join("\n");
    for words in [
        "21 s after the event an incident opens, and is still open: 0a F14",
        "26 s after the event an alert fires: ParallaxIncident (incident 0a)",
        "22 s after the event `parallax status` exits with 1",
    ] {
        assert!(all.contains(words), "{words}: {all}");
    }
}

#[test]
fn what_an_ordinary_step_may_say_passes_with_its_alert_and_its_exit_code() {
    let open = |at: f64| {
        if lasts(at) {
            vec![incident("0a", "F26", "open")]
        } else {
            Vec::new()
        }
    };
    let firing = |at: f64| if lasts(at) { vec!["0a"] } else { Vec::new() };
    let code = |at: f64| i32::from(lasts(at));
    let builder = TimelineBuilder {
        open: &open,
        fails: &never,
        firing: &firing,
        code: &code,
    };
    let step = step("title: t\nkind: ordinary\ndo: []\nwatch: 1\nexpect: {may: [{cause: [F26]}]}\n");
    let verdict = judge(&step, &builder.timeline(), MARKS, &destinations());
    assert_eq!(verdict.reasons, Vec::<String>::new());
    assert_eq!(verdict.named.len(), 1);
}

#[test]
fn users_that_are_not_served_make_an_ordinary_step_prove_nothing() {
    let unserved = TimelineBuilder {
        open: &nothing,
        fails: &lasts,
        firing: &no_alert,
        code: &fine,
    };
    let verdict = judge(&ordinary(), &unserved.timeline(), MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Unsound);
    assert!(verdict.reasons[0].contains("service"), "{:?}", verdict.reasons);
    let step = step("title: t\nkind: ordinary\ndo: []\nwatch: 1\nexpect: {mayFeel: [service]}\n");
    let verdict = judge(&step, &unserved.timeline(), MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Passed);
}

#[test]
fn a_red_cell_fails_unless_users_of_its_node_felt_the_same() {
    let quiet = TimelineBuilder::quiet(&fine);
    let mut timeline = quiet.timeline();
    for look in timeline
        .samples
        .iter_mut()
        .filter(|look| (130.0..140.0).contains(&look.at))
    {
        let state = look.state.as_mut().unwrap();
        state.cells = vec![red("http://10.96.7.7:80/")];
    }
    let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    assert_eq!(
        (verdict.outcome, verdict.unnoticed_failures.len()),
        (Outcome::Failed, 1)
    );
    let allowed = step("title: t\nkind: ordinary\ndo: []\nwatch: 1\nexpect: {may: [{about: [10.96.7.7]}]}\n");
    let verdict = judge(&allowed, &timeline, MARKS, &destinations());
    assert_eq!(
        (verdict.outcome, verdict.unnoticed_failures.len()),
        (Outcome::Passed, 0)
    );
    timeline.requests.push(request(131.0, "service", true));
    let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    assert_eq!(
        (verdict.outcome, verdict.unnoticed_failures.len()),
        (Outcome::Passed, 0)
    );
}

#[test]
fn a_new_warning_among_findings_fails_and_a_notice_or_a_hazard_does_not() {
    let hint = |severity: Severity, hazard: bool| FindingOrHazard {
        kind: "flapping-answer".to_owned(),
        severity,
        subject: "shop".to_owned(),
        sentence: "it alternates".to_owned(),
        hazard,
    };
    let quiet = TimelineBuilder::quiet(&fine);
    let outcome = |hint: FindingOrHazard, from: f64| {
        let mut timeline = quiet.timeline();
        for look in timeline.samples.iter_mut().filter(|look| look.at > from) {
            look.state.as_mut().unwrap().hints = vec![hint.clone()];
        }
        let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
        (verdict.outcome, verdict.hints.len())
    };
    assert_eq!(
        outcome(hint(Severity::Warning, false), 110.0),
        (Outcome::Failed, 1)
    );
    assert_eq!(
        outcome(hint(Severity::Notice, false), 110.0),
        (Outcome::Passed, 1)
    );
    assert_eq!(
        outcome(hint(Severity::Warning, true), 110.0),
        (Outcome::Passed, 1)
    );
    assert_eq!(
        outcome(hint(Severity::Warning, false), 80.0),
        (Outcome::Passed, 0)
    );
}

/// The prober on n1, which makes a probe each second except between two times.
fn probes_except(between: Range<u32>) -> Vec<VantageSample> {
    let mut made = 0;
    let sample = |second: u32| {
        made += u64::from(!between.contains(&second));
        VantageSample {
            at: f64::from(second),
            vantage: "n1/pod".to_owned(),
            pods: Some(vec![ProberCounts {
                pod: "p".to_owned(),
                made,
                not_made: 0,
                dropped: 0,
                unacknowledged: 0,
            }]),
        }
    };
    (60..225).map(sample).collect()
}

#[test]
fn missed_rounds_fail_a_step_that_permits_none_and_are_only_reported_otherwise() {
    let strict = step("title: t\nkind: ordinary\ndo: []\nwatch: 1\nexpect: {mostMissedRounds: 0}\n");
    let mut timeline = TimelineBuilder::quiet(&fine).timeline();
    // Without data the step proves nothing.
    let verdict = judge(&strict, &timeline, MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Unsound);
    assert!(
        verdict.reasons[0].contains("no prober was observed"),
        "{:?}",
        verdict.reasons
    );
    timeline.vantages = probes_except(0..0);
    let verdict = judge(&strict, &timeline, MARKS, &destinations());
    assert_eq!((verdict.outcome, verdict.reasons), (Outcome::Passed, Vec::new()));
    timeline.vantages = probes_except(140..147);
    let verdict = judge(&strict, &timeline, MARKS, &destinations());
    assert_eq!(verdict.outcome, Outcome::Failed);
    assert!(
        verdict.reasons[0].contains("n1/pod: 1 missed round,"),
        "{:?}",
        verdict.reasons
    );
    let verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    assert_eq!(
        (verdict.outcome, verdict.coverage[0].missed_rounds),
        (Outcome::Passed, 1)
    );
}

#[test]
fn an_action_that_takes_too_long_fails_a_step_that_passes_otherwise() {
    let timeline = TimelineBuilder::quiet(&fine).timeline();
    let measured = |seconds: f64| Measurement {
        name: "from `helm install` until all vantages report".to_owned(),
        seconds,
        within: Some(60),
    };
    let mut verdict = judge(&ordinary(), &timeline, MARKS, &destinations());
    verdict.limit_times(&[measured(59.0)]);
    assert_eq!((verdict.outcome, verdict.reasons.len()), (Outcome::Passed, 0));
    verdict.limit_times(&[measured(61.0)]);
    assert_eq!(verdict.outcome, Outcome::Failed);
    let words = "too long: from `helm install` until all vantages report: 61.0 s, at most 60 s";
    assert_eq!(verdict.reasons, [words]);
}
