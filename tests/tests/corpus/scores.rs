//! Scores of verdicts against the truth of a trial.

use super::*;

fn region(name: &str, members: &[&str]) -> NamedRegion {
    (name.to_owned(), members.iter().map(ToString::to_string).collect())
}

fn injected(cause: &str, members: &[&str], equivalent: &[NamedRegion]) -> FaultTruth {
    FaultTruth {
        cause: cause.to_owned(),
        members: region(cause, members).1,
        theta1: 1.0,
        start_s: 10.0,
        end_s: None,
        kinds: vec!["timeout".to_owned()],
        probes: 30,
        failures: 30,
        evidence_nats: 99.0,
        observable: true,
        unobservable_because: None,
        equivalent: equivalent.to_vec(),
        subject: None,
    }
}

fn trial(faults: Vec<FaultTruth>) -> TrialTruth {
    TrialTruth {
        healthy: faults.is_empty(),
        faults,
        interval_s: 5.0,
        ..TrialTruth::default()
    }
}

fn judged(truth: &TrialTruth, lines: &[&str]) -> TrialScore {
    let verdicts = score::parse_output(lines.iter().copied()).unwrap();
    score::score(truth, &verdicts.get(&0).cloned().unwrap_or_default())
}

fn verdict(t: f64, name: &str, members: &[&str], class: &[NamedRegion]) -> String {
    serde_json::json!({"type": "verdict", "trial": 0, "t": t, "region": name, "members": members,
        "probability": 0.95, "class": class, "causes": ["F5"], "closed_t": null})
    .to_string()
}

#[test]
fn a_tie_that_holds_the_cause_is_right_by_class_and_not_exact() {
    let tie = [region("target", &[]), region("vip", &[])];
    let truth = trial(vec![injected("vip", &[], &tie)]);
    let score = judged(&truth, &[&verdict(20.0, "target", &[], &tie)]);
    let naming = score.faults[0].naming.clone().unwrap();
    assert!(naming.class_right && !naming.exact);
    assert_eq!(naming.separable_regions, 0);
    assert_eq!(score.faults[0].after_rounds, Some(2.0));
    assert!(score.unmatched.is_empty());
    assert_eq!(score.confidence, [(0.95, true)]);
}

#[test]
fn a_class_with_something_that_could_be_told_apart_is_too_wide() {
    let truth = trial(vec![injected("vip", &[], &[region("vip", &[])])]);
    let wide = [region("target", &[]), region("vip", &[])];
    let score = judged(&truth, &[&verdict(20.0, "vip", &[], &wide)]);
    assert_eq!(score.faults[0].naming.clone().unwrap().separable_regions, 1);
}

#[test]
fn what_counts_is_the_last_word_but_the_time_is_that_of_the_first_right_one() {
    let truth = trial(vec![injected("vip", &[], &[region("vip", &[])])]);
    let wide = [region("target", &[]), region("vip", &[])];
    let lines = [
        verdict(15.0, "target", &[], &wide),
        verdict(30.0, "vip", &[], &[region("vip", &[])]),
    ];
    let score = judged(&truth, &[&lines[0], &lines[1]]);
    assert!(score.faults[0].naming.clone().unwrap().exact);
    assert_eq!(score.faults[0].after_s, Some(5.0));
    assert!(
        score.unmatched.is_empty(),
        "two lines whose classes overlap are one finding"
    );
}

#[test]
fn a_finding_renamed_beyond_its_class_is_still_one_where_it_says_so() {
    let truth = trial(vec![injected("vip", &[], &[region("vip", &[])])]);
    let with_id = |line: String| line.replacen('{', r#"{"id":"abc","#, 1);
    let lines = [
        verdict(15.0, "cross", &[], &[region("cross", &[])]),
        verdict(30.0, "vip", &[], &[region("vip", &[])]),
    ];
    assert_eq!(judged(&truth, &[&lines[0], &lines[1]]).unmatched.len(), 1);
    let lines = lines.map(with_id);
    assert_eq!(judged(&truth, &[&lines[0], &lines[1]]).unmatched.len(), 0);
}

#[test]
fn a_second_finding_beside_the_right_one_is_counted_as_wrong() {
    let truth = trial(vec![injected("client", &["n1"], &[region("client", &["n1"])])]);
    let lines = [
        verdict(20.0, "client", &["n1"], &[region("client", &["n1"])]),
        verdict(25.0, "cross", &[], &[region("cross", &[])]),
    ];
    let score = judged(&truth, &[&lines[0], &lines[1]]);
    assert!(score.all_named());
    assert_eq!(score.unmatched, ["cross [] 0.9500 at 25 s"]);
}

#[test]
fn any_verdict_on_a_healthy_trial_is_a_false_alarm() {
    let mut tally = SetTally::default();
    tally.add(&judged(&trial(vec![]), &[&verdict(20.0, "vip", &[], &[])]));
    tally.add(&judged(
        &trial(vec![]),
        &[r#"{"type":"trial","trial":0,"verdicts":0}"#],
    ));
    assert_eq!((tally.false_alarms.hits, tally.false_alarms.of), (1, 2));
}

#[test]
fn what_the_engine_leans_to_without_a_verdict_counts_as_its_first_guess_only() {
    let truth = trial(vec![injected(
        "pair",
        &["n1", "n2"],
        &[region("pair", &["n1", "n2"])],
    )]);
    let end = r#"{"type":"trial","trial":0,"verdicts":0,"likeliest":[{"region":"client","members":["n1"],
        "probability":0.8,"class":[["client",["n1"]],["pair",["n1","n2"]]]}]}"#;
    let mut tally = SetTally::default();
    tally.add(&judged(&truth, &[&end.replace('\n', "")]));
    let (top, found) = (tally.all.top, tally.all.recalled);
    assert_eq!((top.hits, top.of, found.hits), (1, 1, 0));
    let other_region = end.replace("pair", "bnode").replace('\n', "");
    tally.add(&judged(&truth, &[&other_region]));
    assert_eq!((tally.all.top.hits, tally.all.top.of), (1, 2));
}

#[test]
fn of_two_faults_each_is_held_against_its_own_finding() {
    let truth = trial(vec![
        injected("nolocal", &[], &[region("nolocal", &[])]),
        injected("backend", &["shop-1"], &[region("backend", &["shop-1"])]),
    ]);
    let one = verdict(20.0, "backend", &["shop-1"], &[region("backend", &["shop-1"])]);
    let two = verdict(25.0, "nolocal", &[], &[region("nolocal", &[])]);
    assert!(judged(&truth, &[&one, &two]).all_named());
    let half = judged(&truth, &[&one]);
    assert!(half.any_named() && !half.all_named());
}

#[test]
fn a_finding_closes_after_its_fault_or_too_early() {
    let mut fault = injected("vip", &[], &[region("vip", &[])]);
    fault.end_s = Some(60.0);
    let truth = trial(vec![fault]);
    let open = verdict(20.0, "vip", &[], &[region("vip", &[])]);
    let closed = |t: f64| {
        open.replace(r#""closed_t":null"#, &format!(r#""closed_t":{t}"#))
            .replace(":20.0", &format!(":{t}"))
    };
    let closing = |lines: &[&str]| judged(&truth, lines).faults[0].closing;
    assert_eq!(closing(&[&open]), Some(FindingClosure::Never));
    assert_eq!(
        closing(&[&open, &closed(95.0)]),
        Some(FindingClosure::After(35.0))
    );
    assert_eq!(closing(&[&open, &closed(40.0)]), Some(FindingClosure::TooEarly));
}

#[test]
fn what_nobody_could_see_is_counted_apart() {
    let mut fault = injected("pair", &["n1", "n2"], &[]);
    fault.observable = false;
    let mut tally = SetTally::default();
    tally.add(&judged(&trial(vec![fault]), &[]));
    assert_eq!((tally.all.observable, tally.all.unobservable.of), (0, 1));
    assert_eq!(tally.all.recalled.of, 0);
}

#[test]
fn calibration_error_is_the_weighted_gap_of_the_bins() {
    let findings = [
        (0.95, true),
        (0.95, true),
        (0.95, true),
        (0.95, false),
        (0.55, true),
    ];
    let error = tally::calibration_error(&tally::bins(&findings, 0.0, 10)).unwrap();
    assert!((error - (4.0 * 0.2 + 0.45) / 5.0).abs() < 1e-12, "{error}");
    assert_eq!(tally::quantile(&[3.0, 1.0, 2.0, 4.0], 0.5), Some(2.0));
    assert_eq!(tally::quantile(&[3.0, 1.0, 2.0, 4.0], 0.9), Some(4.0));
}
