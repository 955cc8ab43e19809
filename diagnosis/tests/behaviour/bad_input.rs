//! Invalid, late and duplicate input: counted and visible; never a panic, never a wrong verdict.

use parallax_diagnosis::{ObservationResult, verdict::IncidentState, view::VantageState};
use parallax_model::{EventTime, Micros, Recorded};
use serde_json::json;

use crate::{
    simulated_mesh::{INTERVAL, Probe, SimulatedMesh, cluster, refused_without_local},
    splitmix::SplitMix,
};

type Outcome = Option<(&'static str, &'static str)>;

fn healthy(_: &Probe) -> Outcome {
    None
}

fn three_nodes() -> SimulatedMesh {
    SimulatedMesh::new(cluster(3, &[1, 2, 3], 2, "Local"))
}

/// Returns all probes of a round as they would be reported.
fn reports(mesh: &mut SimulatedMesh, round: i64, fault: &crate::simulated_mesh::Fault<'_>) -> Vec<Recorded> {
    let probes = mesh.probes(round);
    probes.iter().map(|probe| mesh.record(probe, fault)).collect()
}

#[test]
fn a_report_sent_again_and_again_counts_once_and_moves_no_number_of_a_verdict() {
    let run = |times: usize| {
        let mut mesh = SimulatedMesh::new(cluster(3, &[1], 2, "Local"));
        for round in 0..6 {
            let refused = refused_without_local(&["n1"]);
            let fault = |p: &Probe| if round < 3 { None } else { refused(p) };
            let sent = reports(&mut mesh, round, &fault);
            for _ in 0..times {
                for recorded in &sent {
                    mesh.engine.observe(recorded);
                }
            }
            mesh.finish(round);
        }
        mesh.engine.view(EventTime(6 * INTERVAL))
    };
    let (once, thrice) = (run(1), run(3));
    assert_eq!(once.incidents.len(), 1);
    assert_eq!(once.incidents, thrice.incidents);
    assert_eq!(once.counters.accepted, thrice.counters.accepted);
    assert_eq!(once.matrix, thrice.matrix);
}

#[test]
fn a_duplicate_is_told_from_a_new_life_of_the_prober_with_the_same_numbers() {
    let mut mesh = three_nodes();
    let sent = reports(&mut mesh, 0, &healthy);
    for recorded in &sent {
        assert!(matches!(
            mesh.engine.observe(recorded),
            ObservationResult::Accepted { .. }
        ));
        assert_eq!(mesh.engine.observe(recorded), ObservationResult::Late);
        let mut reborn = recorded.clone();
        reborn.incarnation = "a-life-after".parse().unwrap();
        assert!(matches!(
            mesh.engine.observe(&reborn),
            ObservationResult::Accepted { .. }
        ));
    }
}

/// A spool that is delivered late, with failures of a fault that is long over.
#[test]
fn what_comes_after_its_round_was_judged_is_counted_as_late_and_blames_nobody() {
    let mut mesh = three_nodes();
    let old = reports(&mut mesh, 0, &|p| {
        (p.channel == "vip").then_some(("connect", "refused"))
    });
    for round in 0..6 {
        mesh.round(round, &healthy);
    }
    for recorded in &old {
        assert_eq!(mesh.engine.observe(recorded), ObservationResult::Late);
    }
    let view = mesh.round(6, &healthy);
    assert_eq!(view.counters.late, u64::try_from(old.len()).unwrap());
    assert!(view.incidents.is_empty() && view.investigations.is_empty());
}

/// One prober's clock is off by up to two rounds; event time assigns its probes to other rounds.
#[test]
fn a_skewed_clock_never_names_anything_in_a_healthy_mesh_and_the_fault_is_still_named() {
    for skew in [-9_000_000_i64, -2_000_000, 700_000, 2_500_000, 9_000_000] {
        let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2, 3, 4], 2, "Local"));
        let mut named = None;
        for round in 0..14 {
            if round == 4 {
                mesh.change(cluster(4, &[1], 2, "Local"), 4 * INTERVAL);
            }
            let refused = refused_without_local(&["n1"]);
            let fault = |p: &Probe| if round < 4 { None } else { refused(p) };
            for mut recorded in reports(&mut mesh, round, &fault) {
                if recorded.vantage.to_string() == "n4/pod" {
                    recorded.observation.started = recorded.observation.started.shifted(skew);
                }
                mesh.engine.observe(&recorded);
            }
            let view = mesh.finish(round);
            assert!(
                round >= 4 || view.incidents.is_empty(),
                "skew {skew}, round {round}"
            );
            named = named.or(view.incidents.first().cloned());
        }
        let named = named.unwrap_or_else(|| panic!("not named at a skew of {skew} µs"));
        assert_eq!(named.verdict.region.region, "nolocal", "skew {skew}");
    }
}

#[test]
fn a_clock_that_is_hours_ahead_is_implausible_counted_and_holds_up_nobody() {
    let mut mesh = three_nodes();
    mesh.round(0, &healthy);
    for round in 1..6 {
        for mut recorded in reports(&mut mesh, round, &|p| {
            (p.client == "n3").then_some(("connect", "connect_timeout"))
        }) {
            if recorded.vantage.to_string() == "n3/pod" {
                recorded.observation.started = recorded.observation.started.plus(Micros::from_secs(7_200));
                assert_eq!(mesh.engine.observe(&recorded), ObservationResult::Implausible);
            } else {
                mesh.engine.observe(&recorded);
            }
        }
        let vantage = "n3/pod".parse().unwrap();
        mesh.engine.record_progress(
            &vantage,
            EventTime(round * INTERVAL).plus(Micros::from_secs(7_200)),
        );
        let view = mesh.finish(round);
        assert_eq!(view.last_judged_round.unwrap().0, round);
        assert!(view.incidents.is_empty());
    }
    let view = mesh.engine.view(EventTime(40 * INTERVAL));
    assert!(view.counters.implausible > 0);
    assert_eq!(view.vantages[2].state, VantageState::Silent);
}

#[test]
fn times_at_both_ends_of_the_range_are_taken_or_refused_and_never_panic() {
    let mut mesh = three_nodes();
    let sample = reports(&mut mesh, 0, &healthy);
    for (i, at) in [i64::MIN, -1, 0, 1, i64::MAX / 2, i64::MAX - 1, i64::MAX]
        .into_iter()
        .enumerate()
    {
        for (j, recorded) in sample.iter().enumerate() {
            let mut odd = recorded.clone();
            odd.observation.started = EventTime(at);
            odd.observation.seq.0 = u64::MAX - u64::try_from(i * 1_000 + j).unwrap();
            odd.observation.times.total = Some(Micros(u64::MAX));
            odd.observation.times.connect = Some(Micros(u64::MAX));
            mesh.engine.observe(&odd);
        }
        mesh.engine.record_progress(&sample[0].vantage, EventTime(at));
        assert!(mesh.engine.view(EventTime(at)).incidents.is_empty());
    }
    // Valid observations before and after still form rounds.
    mesh.engine.advance(EventTime(0));
    let view = mesh.round(1, &healthy);
    assert!(view.incidents.is_empty());
    mesh.engine.advance(EventTime(i64::MAX));
    assert!(mesh.engine.view(EventTime(i64::MAX)).incidents.is_empty());
}

#[test]
fn negative_broken_and_endless_times_are_refused_where_the_line_is_read() {
    let line = json!({"vantage": "n1/pod", "incarnation": "i", "seq": 1, "t_us": 5,
        "target": "http://h0.example.test/", "channel": "vip", "result": "ok"});
    assert!(serde_json::from_value::<Recorded>(line.clone()).is_ok());
    for bad in [
        "-5",
        "1e400",
        "NaN",
        "null",
        "\"12\"",
        "1.5",
        "18446744073709551616",
    ] {
        let times = format!(r#"{{"connect_us":{bad}}}"#);
        let text = line
            .to_string()
            .replace(r#""channel""#, &format!(r#""times":{times},"channel""#));
        let read = serde_json::from_str::<Recorded>(&text);
        // An absent time is unknown; any value that is not a number of microseconds makes the observation invalid.
        assert_eq!(read.is_ok(), bad == "null", "{bad}");
    }
}

#[test]
fn strangers_are_counted_and_change_neither_view_nor_verdict() {
    let mut mesh = three_nodes();
    for round in 0..6 {
        for mut recorded in reports(&mut mesh, round, &|_| Some(("connect", "refused"))) {
            recorded.vantage = "n99/pod".parse().unwrap();
            assert_eq!(mesh.engine.observe(&recorded), ObservationResult::Unknown);
        }
        for mut recorded in reports(&mut mesh, round, &|_| Some(("connect", "refused"))) {
            if recorded.observation.target.as_str().starts_with("http") {
                recorded.observation.target = "http://nobody.example.test/".parse().unwrap();
                assert_eq!(mesh.engine.observe(&recorded), ObservationResult::Unknown);
            }
        }
        mesh.round(round, &healthy);
    }
    let view = mesh.engine.view(EventTime(6 * INTERVAL));
    assert!(view.counters.unknown > 0);
    assert_eq!(view.vantages.len(), 3);
    assert!(view.incidents.is_empty() && view.investigations.is_empty());
}

/// Mesh probes of an unknown peer, an unknown endpoint, and an unknown front.
#[test]
fn unknown_peers_endpoints_and_fronts_of_known_vantages_blame_nobody_else() {
    let mut mesh = three_nodes();
    for round in 0..10 {
        let t = round * INTERVAL + 1_000;
        for (i, (channel, more)) in [
            ("mesh", json!({"target": "echo://ghost", "dst_node": "ghost"})),
            ("mesh", json!({"target": "echo://", "dst_node": "ghost"})),
            ("mesh", json!({"target": "not-a-peer"})),
            (
                "direct",
                json!({"target": "http://h0.example.test/", "entry": "ghost-pod"}),
            ),
            ("direct", json!({"target": "http://h0.example.test/"})),
            (
                "vip",
                json!({"target": "http://h0.example.test/", "front": "198.51.100.99:1"}),
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let mut line = json!({"vantage": "n1/pod", "incarnation": "odd", "seq": round * 10 + i64::try_from(i).unwrap(),
                "t_us": t, "channel": channel, "result": "failed", "phase": "connect", "kind": "connect_timeout"});
            for (key, value) in more.as_object().unwrap() {
                line[key] = value.clone();
            }
            mesh.engine.observe(&serde_json::from_value(line).unwrap());
        }
        let view = mesh.round(round, &healthy);
        for incident in &view.incidents {
            let members = &incident.verdict.region.members;
            assert!(
                !members
                    .iter()
                    .any(|m| m == "n2" || m == "n3" || m.starts_with("ingress")),
                "{}",
                incident.verdict.sentence
            );
            let subject = incident.verdict.subject.to_string();
            assert_ne!(subject, "203.0.113.10:80", "{}", incident.verdict.sentence);
        }
    }
}

#[test]
fn the_topology_may_change_in_the_middle_of_any_round_without_a_false_word() {
    let mut random = SplitMix::new(7);
    let mut mesh = SimulatedMesh::new(cluster(5, &[1, 2, 3], 2, "Cluster"));
    for round in 0..40 {
        let probes = mesh.probes(round);
        let cut = random.below(probes.len());
        for probe in &probes[..cut] {
            let recorded = mesh.record(probe, &healthy);
            mesh.engine.observe(&recorded);
        }
        let mut on: Vec<usize> = (1..=5).filter(|_| random.happens(0.5)).collect();
        if on.is_empty() {
            on.push(1 + random.below(5));
        }
        let nodes = 4 + random.below(2);
        on.retain(|node| *node <= nodes);
        if on.is_empty() {
            on.push(1);
        }
        let hosts = 1 + random.below(3);
        let at = probes.get(cut).map_or((round + 1) * INTERVAL, |p| p.at_us);
        mesh.change(cluster(nodes, &on, hosts, "Cluster"), at);
        for probe in &probes[cut..] {
            // The prober still follows its old plan: removed endpoints do not respond.
            let gone = probe.channel == "direct"
                && !probe
                    .entry
                    .as_ref()
                    .is_some_and(|pod| on.iter().any(|node| *pod == format!("ingress-{node}")));
            let fault = move |_: &Probe| gone.then_some(("connect", "connect_timeout"));
            let recorded = mesh.record(probe, &fault);
            mesh.engine.observe(&recorded);
        }
        let view = mesh.finish(round);
        assert!(
            view.incidents.is_empty(),
            "round {round}: {:?}",
            view.incidents[0].verdict.sentence
        );
    }
}

#[test]
fn whatever_is_sent_in_whatever_order_the_engine_goes_on() {
    for seed in 0..20 {
        let mut random = SplitMix::new(seed);
        let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 2, "Local"));
        let kinds = [
            "refused",
            "connect_timeout",
            "eof",
            "status",
            "nxdomain",
            "of-tomorrow",
        ];
        let phases = [
            "resolve",
            "connect",
            "tls",
            "request",
            "first-byte",
            "body",
            "check",
        ];
        for round in 0..12 {
            let mut sent = Vec::new();
            for probe in mesh.probes(round) {
                let failing = random.happens(0.3);
                let words = (
                    phases[random.below(phases.len())],
                    kinds[random.below(kinds.len())],
                );
                let mut recorded = mesh.record(&probe, &|_| failing.then_some(words));
                if random.happens(0.05) {
                    recorded.observation.started = recorded
                        .observation
                        .started
                        .shifted(i64::try_from(random.below(60_000_000)).unwrap() - 30_000_000);
                }
                if random.happens(0.05) {
                    recorded.observation.front = None;
                }
                if random.happens(0.05) {
                    recorded.observation.entry = Some("ghost".parse().unwrap());
                }
                if random.happens(0.05) {
                    recorded.observation.channel = *parallax_model::Channel::ALL
                        .get(random.below(parallax_model::Channel::ALL.len()))
                        .unwrap();
                }
                sent.push(recorded.clone());
                if random.happens(0.1) {
                    sent.push(recorded);
                }
            }
            random.shuffle(&mut sent);
            for recorded in &sent {
                mesh.engine.observe(recorded);
            }
            let view = mesh.finish(round);
            for incident in &view.incidents {
                let p = incident.verdict.probability.get();
                assert!((0.0..=1.0).contains(&p));
                assert!(!incident.verdict.sentence.is_empty());
                assert!(matches!(
                    incident.state,
                    IncidentState::Open | IncidentState::Recovering | IncidentState::Closed { .. }
                ));
            }
        }
    }
}
