//! Restarts of the aggregator: with and without a checkpoint, with and without the observations that probers
//! remember.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

mod first_reports;

use parallax_diagnosis::{
    Checkpoint,
    verdict::{Incident, IncidentState},
    view::View,
};
use parallax_model::{EventTime, Recorded};
use serde_json::{Value, json};

use crate::{
    baselines::{probe_shop, shop_spec},
    scripted_mesh::{
        ALL, INTERVAL, NODES, ScriptedMesh, cluster, nodes, open_sentences, succeeds, with_outcome,
    },
};

const REFUSED: Option<(&str, &str)> = Some(("connect", "connect_refused"));

fn spec() -> Value {
    cluster(&nodes(NODES), &[(0, 0)])
}

/// Observes rounds in which the Pods of the ClusterIP refuse connections while `down` returns true.
fn observe_rounds(
    day: &mut ScriptedMesh,
    rounds: std::ops::Range<i64>,
    down: impl Fn(i64) -> bool,
) -> Vec<View> {
    rounds
        .map(|round| {
            day.mesh(round, &ALL, succeeds);
            let refused = down(round);
            day.web(round, &ALL, |_, _| REFUSED.filter(|_| refused));
            day.close(round, &ALL)
        })
        .collect()
}

fn round_start(of: i64) -> EventTime {
    EventTime(of * INTERVAL)
}

/// Creates the process that takes over from `before`, which ended `away` rounds earlier. The probers resend their
/// observations since then, and of `remembered` rounds before.
fn restarted(before: &ScriptedMesh, round: i64, (away, remembered): (i64, i64)) -> ScriptedMesh {
    let mut next = ScriptedMesh::without_topology();
    let ended = round_start(round - away);
    let text = serde_json::to_string(&before.engine.checkpoint(ended)).unwrap();
    let checkpoint: Checkpoint = serde_json::from_str(&text).unwrap();
    next.engine.restore(&checkpoint, round_start(round));
    next.change(spec(), round_start(round).0);
    next.resend_from(before, round_start(round - away - remembered));
    next
}

fn only_open(view: &View) -> &Incident {
    let mut open = view
        .incidents
        .iter()
        .filter(|i| !matches!(i.state, IncidentState::Closed { .. }));
    let incident = open.next().expect("an open incident");
    assert!(open.next().is_none(), "{:?}", open_sentences(view));
    incident
}

#[test]
fn an_outage_goes_on_under_its_id_whatever_the_probers_remember() {
    let mut before = ScriptedMesh::new(spec());
    let views = observe_rounds(&mut before, 0..30, |round| round >= 20);
    let first = only_open(&views[29]).clone();
    for remembered in [0, 5, 30] {
        let mut after = restarted(&before, 30, (0, remembered));
        let at_once = after.engine.view(round_start(30));
        assert_eq!(
            (&only_open(&at_once).id, only_open(&at_once).opened),
            (&first.id, first.opened),
            "at once"
        );
        let views = observe_rounds(&mut after, 30..60, |_| true);
        for view in &views {
            let incident = only_open(view);
            assert_eq!((&incident.id, incident.since), (&first.id, first.since));
            assert!(view.investigations.is_empty(), "{:?}", view.investigations);
        }
        let views = observe_rounds(&mut after, 60..75, |_| false);
        assert_eq!(open_sentences(&views[14]), [""; 0], "fixed");
    }
}

#[test]
fn without_what_the_former_one_left_an_outage_that_the_probers_remember_is_named_again() {
    let mut before = ScriptedMesh::new(spec());
    observe_rounds(&mut before, 0..30, |round| round >= 20);
    let mut after = ScriptedMesh::without_topology();
    after.engine.restore(&Checkpoint::default(), round_start(30));
    after.change(spec(), round_start(30).0);
    after.resend_from(&before, round_start(0));
    let views = observe_rounds(&mut after, 30..32, |_| true);
    assert_eq!(only_open(&views[1]).since, round_start(20), "since it began");
}

/// Of an outage before the restart only the probers' spools are left, and they do not suffice for a verdict.
#[test]
fn failures_that_ended_before_a_restart_are_investigated_for_as_long_as_they_may_only_pause() {
    type Fails<'a> = &'a dyn Fn(i64, usize, usize) -> bool;
    let present = [0, 1, 2];
    let one_way = |round: i64, from: usize, to: usize| round < 3 && (from, to) == (0, 1);
    let with_pauses = |round: i64, from: usize, to: usize| {
        [0, 4].contains(&round) && [(0, 1), (1, 0)].contains(&(from, to))
    };
    // The last round in which it is investigated.
    let faults: [(Fails<'_>, i64); 2] = [(&one_way, 2 + 5), (&with_pauses, 4 + 2 * 3)];
    for (fails, last) in faults {
        let investigations = |restart: i64| {
            let mut before = ScriptedMesh::new(spec());
            for round in 0..restart {
                before.mesh(round, &present, |from, to| {
                    fails(round, from, to).then_some(("connect", "connect_timeout"))
                });
                before.close(round, &present);
            }
            let mut after = ScriptedMesh::without_topology();
            after.engine.restore(&Checkpoint::default(), round_start(restart));
            after.change(spec(), round_start(restart).0);
            after.resend_from(&before, round_start(0));
            after.mesh(restart, &present, succeeds);
            after.close(restart, &present).investigations
        };
        assert_eq!(investigations(last).len(), 1);
        let left = investigations(last + 1);
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn what_was_cured_meanwhile_closes_and_what_came_and_went_is_not_told() {
    let mut before = ScriptedMesh::new(spec());
    let views = observe_rounds(&mut before, 0..30, |round| round >= 20);
    let id = only_open(&views[29]).id.clone();
    // The mesh continues without an aggregator.
    let text = serde_json::to_string(&before.engine.checkpoint(round_start(30))).unwrap();
    observe_rounds(&mut before, 30..60, |round| (44..50).contains(&round));
    let mut after = ScriptedMesh::without_topology();
    after
        .engine
        .restore(&serde_json::from_str(&text).unwrap(), round_start(60));
    after.change(spec(), round_start(60).0);
    after.resend_from(&before, round_start(0));
    for view in observe_rounds(&mut after, 60..80, |_| false) {
        assert_eq!(open_sentences(&view), [""; 0]);
        assert!(
            view.incidents.iter().any(|incident| incident.id == id),
            "the closed incident is still listed"
        );
    }
}

#[test]
fn rounds_that_were_judged_are_not_judged_again() {
    let mut before = ScriptedMesh::new(spec());
    // Fixed and closed long before the restart.
    let views = observe_rounds(&mut before, 0..60, |round| (20..30).contains(&round));
    assert_eq!(open_sentences(&views[59]), [""; 0]);
    let mut after = restarted(&before, 60, (0, 60));
    let views = observe_rounds(&mut after, 60..80, |_| false);
    for view in views {
        assert_eq!(view.incidents.len(), 1, "only the closed incident");
        assert_eq!(open_sentences(&view), [""; 0]);
    }
}

#[test]
fn what_left_the_cluster_meanwhile_closes_with_that_reason() {
    let mut before = ScriptedMesh::new(spec());
    observe_rounds(&mut before, 0..30, |round| round >= 20);
    let mut after = ScriptedMesh::without_topology();
    after
        .engine
        .restore(&before.engine.checkpoint(round_start(30)), round_start(40));
    let mut spec = spec();
    spec["services"].as_array_mut().unwrap().pop();
    after.change(spec, round_start(40).0);
    let mut view = None;
    for round in 40..43 {
        after.mesh(round, &ALL, succeeds);
        view = Some(after.close(round, &ALL));
    }
    let view = view.unwrap();
    assert_eq!(open_sentences(&view), [""; 0]);
    assert_eq!(
        view.incidents[0].departure_reason.as_deref(),
        Some("Service apps/web is gone")
    );
}

#[test]
fn what_worked_before_does_not_wait_to_have_worked() {
    let mut before = ScriptedMesh::new(spec());
    observe_rounds(&mut before, 0..30, |_| false);
    let mut after = restarted(&before, 40, (0, 0));
    let views = observe_rounds(&mut after, 40..46, |_| true);
    assert!(!views[5].incidents.is_empty(), "{:?}", views[5].investigations);
    let mut without_topology = ScriptedMesh::without_topology();
    without_topology.change(spec(), round_start(40).0);
    let views = observe_rounds(&mut without_topology, 40..46, |_| true);
    assert!(views[5].incidents.is_empty(), "never worked");
}

#[test]
fn a_baseline_outlives_the_process() {
    let spec = shop_spec(&[("shop-1", 0), ("shop-2", 3)]);
    let mut before = ScriptedMesh::new(spec.clone());
    let ask = |day: &mut ScriptedMesh, round, status| {
        day.mesh(round, &ALL, succeeds);
        probe_shop(day, round, status, None);
        day.close(round, &ALL)
    };
    for round in 0..12 {
        ask(&mut before, round, 200);
    }
    let mut after = ScriptedMesh::without_topology();
    after
        .engine
        .restore(&before.engine.checkpoint(round_start(12)), round_start(12));
    after.change(spec, round_start(12).0);
    let mut last = None;
    for round in 12..20 {
        last = Some(ask(&mut after, round, 404));
    }
    assert_eq!(
        open_sentences(&last.unwrap()).len(),
        1,
        "a worse answer than before the restart"
    );
}

#[test]
fn a_checkpoint_changes_with_what_matters_only() {
    let mut day = ScriptedMesh::new(spec());
    observe_rounds(&mut day, 0..12, |_| false);
    let first = day.engine.checkpoint(round_start(12));
    observe_rounds(&mut day, 12..20, |_| false);
    let second = day.engine.checkpoint(round_start(20));
    assert!(first.is_equivalent_to(&second) && first != second);
    observe_rounds(&mut day, 20..26, |_| true);
    assert!(
        !second.is_equivalent_to(&day.engine.checkpoint(round_start(26))),
        "an incident opened"
    );
    let third = day.engine.checkpoint(round_start(26));
    observe_rounds(&mut day, 26..40, |_| false);
    let fourth = day.engine.checkpoint(round_start(40));
    assert!(!third.is_equivalent_to(&fourth), "the incident closed");
    assert_eq!(third.incidents.len(), fourth.incidents.len());
}

#[test]
fn a_checkpoint_taken_up_and_taken_out_again_says_the_same() {
    let mut day = ScriptedMesh::new(spec());
    observe_rounds(&mut day, 0..30, |round| round >= 20);
    let left = day.engine.checkpoint(round_start(30));
    let after = restarted(&day, 30, (0, 0));
    assert!(after.engine.checkpoint(round_start(30)).is_equivalent_to(&left));
    // Even if no topology was ever read.
    let mut unread = ScriptedMesh::without_topology();
    unread.engine.restore(&left, round_start(30));
    assert!(unread.engine.checkpoint(round_start(31)).is_equivalent_to(&left));
}

impl ScriptedMesh {
    /// An aggregator that has not read a topology yet.
    fn without_topology() -> Self {
        Self::new(serde_json::json!({"proxyMode": "iptables"}))
    }

    /// Resends the observations of another day since a time.
    fn resend_from(&mut self, before: &Self, since: EventTime) {
        for line in &before.sent {
            let recorded: Recorded = serde_json::from_value(line.clone()).unwrap();
            if recorded.observation.started >= since {
                self.engine.observe(&recorded);
            }
        }
        self.seq = before.seq;
    }
}
