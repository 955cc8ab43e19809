//! Verdicts on synthetic timelines.

mod exit_codes;
mod faults;
mod ordinary_steps;
mod preparations;

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
        Alert, AlertSample, Cell, ExitCode, FindingOrHazard, Incident, Measurement, ProberCounts, Severity,
        StatusResult, Timeline, VantageSample,
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
