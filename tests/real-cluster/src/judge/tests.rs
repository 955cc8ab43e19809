//! Verdicts on synthetic timelines.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{
    Outcome, StepTimes,
    incidents::tests::{incident, look},
    judge,
    users::tests::request,
};
use crate::{
    cluster::Hosts,
    install::Destinations,
    observe::{
        Alert, AlertSample, Cell, ExitCode, FindingOrHazard, Incident, Severity, StatusResult, Timeline,
    },
    step::{Step, parse},
};

/// An event at 100 s, its repair at 160 s, and the end of the observation at 220 s.
const MARKS: StepTimes = StepTimes {
    fault: 100.0,
    acted: 101.0,
    repaired: Some(160.0),
    healed: Some(162.0),
    ended: 220.0,
};

fn step(text: &str) -> Step {
    let mut steps = parse(std::path::Path::new("steps/made-up.yaml"), text).unwrap();
    steps.remove(0)
}

fn ordinary() -> Step {
    step("title: t\nkind: ordinary\ndo: []\nwatch: 1\n")
}

fn fault() -> Step {
    step(
        "title: t\nkind: fault\ndo: []\ncure: [{install: {}}]\nwatch: 1\nexpect: {named: [{cause: [P7]}], felt: [service]}\n",
    )
}

/// A timeline of one aggregator and one client: `open` returns the incidents open at a second, `fails` whether
/// requests fail, `firing` the incidents whose alert fires, `code` the exit code of `parallax status`.
struct TimelineBuilder<'a> {
    open: &'a dyn Fn(f64) -> Vec<Incident>,
    fails: &'a dyn Fn(f64) -> bool,
    firing: &'a dyn Fn(f64) -> Vec<&'static str>,
    code: &'a dyn Fn(f64) -> i32,
}

impl<'a> TimelineBuilder<'a> {
    /// Builds a timeline without events in which `parallax status` exits with these codes.
    fn quiet(code: &'a dyn Fn(f64) -> i32) -> Self {
        Self {
            open: &nothing,
            fails: &never,
            firing: &no_alert,
            code,
        }
    }

    fn timeline(&self) -> Timeline {
        let mut timeline = Timeline::default();
        for second in 60..225 {
            let at = f64::from(second);
            timeline.samples.push(look(at, "a", &(self.open)(at)));
            timeline.requests.push(request(at, "service", (self.fails)(at)));
            timeline.api_server.push((at, true));
            let alerts = (self.firing)(at).into_iter().map(|id| Alert {
                name: "ParallaxIncident".to_owned(),
                firing: true,
                labels: BTreeMap::from([("incident".to_owned(), id.to_owned())]),
            });
            timeline.alerts.push(AlertSample {
                at,
                alerts: alerts.collect::<BTreeSet<_>>(),
            });
            timeline.statuses.push(StatusResult {
                at,
                until: at + 0.3,
                code: ExitCode(Some((self.code)(at))),
                line: "3 of 3 vantages report".to_owned(),
            });
        }
        timeline
    }
}

fn never(_: f64) -> bool {
    false
}

fn nothing(_: f64) -> Vec<Incident> {
    Vec::new()
}

fn no_alert(_: f64) -> Vec<&'static str> {
    Vec::new()
}

fn fine(_: f64) -> i32 {
    0
}

/// Builds a failing cell of a target that has worked.
fn red(target: &str) -> Cell {
    Cell {
        target: target.to_owned(),
        vantage: "n1/pod".to_owned(),
        state: "failing".to_owned(),
        failure: "refused in connect".to_owned(),
        never_ok: false,
        new: false,
    }
}

/// `parallax status` exits with 3 between two times, otherwise with 0.
fn cannot_tell(between: Range<f64>) -> impl Fn(f64) -> i32 {
    move |at| if between.contains(&at) { 3 } else { 0 }
}

fn lasts(at: f64) -> bool {
    (100.0..160.0).contains(&at)
}

fn destinations() -> Destinations {
    Destinations::new(&Hosts::default(), "10.96.7.7")
}

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
    let said = TimelineBuilder {
        open: &open,
        fails: &never,
        firing: &firing,
        code: &code,
    };
    let step = step("title: t\nkind: ordinary\ndo: []\nwatch: 1\nexpect: {may: [{cause: [F26]}]}\n");
    let verdict = judge(&step, &said.timeline(), MARKS, &destinations());
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
    let verdict = judge(&fault(), &good.timeline(), MARKS, &destinations());
    assert_eq!(verdict.reasons, Vec::<String>::new());
    assert_eq!(
        (verdict.named_after, verdict.closed_after),
        (Some(12.0), Some(12.0))
    );
    assert_eq!((verdict.named.len(), verdict.other_incidents.len()), (1, 1));
    let mut alone = fault();
    alone.expect.most_extras = Some(0);
    let verdict = judge(&alone, &good.timeline(), MARKS, &destinations());
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
    let said = reasons(TimelineBuilder { open: &gap, ..good() });
    assert!(
        said.contains("no incident names it any more, while users fail"),
        "{said}"
    );

    let silent = |at: f64| {
        if (130.0..140.0).contains(&at) {
            Vec::new()
        } else {
            called(at)
        }
    };
    let said = reasons(TimelineBuilder {
        firing: &silent,
        ..good()
    });
    assert!(
        said.contains("30 s after the fault its alert resolves while the fault lasts, 1 times, for 10 s"),
        "{said}"
    );
    assert!(
        reasons(TimelineBuilder {
            firing: &no_alert,
            ..good()
        })
        .contains("its alert never fires")
    );

    let said = reasons(TimelineBuilder {
        code: &fine,
        ..good()
    });
    assert!(
        said.contains("`parallax status` exits with 0 while users fail"),
        "{said}"
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
    assert_eq!(verdict.outcome, Outcome::Passed, "{:?}", verdict.reasons);
    step.expect.keeps_id = true;
    let verdict = judge(&step, &story.timeline(), MARKS, &destinations());
    assert_eq!(verdict.reasons, ["one fault has several ids: 0a, 0c"]);
}
