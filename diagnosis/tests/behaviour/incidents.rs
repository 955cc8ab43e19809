//! From verdicts to incidents: grouping, suppression, recovery and recurrence.

use crate::{
    scripted_mesh::{ScriptedMesh, open_sentences, with_outcome},
    simulated_mesh::{INTERVAL, Probe, SimulatedMesh, cluster, refused_without_local},
};
use parallax_diagnosis::{ObservationResult, verdict::IncidentState, view::VantageState};
use parallax_model::{EventTime, Micros};
use serde_json::json;

type Outcome = Option<(&'static str, &'static str)>;

fn healthy(_: &Probe) -> Outcome {
    None
}

#[test]
fn fifty_hosts_on_one_front_are_one_incident_with_fifty_members() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 50, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..6 {
        view = Some(mesh.round(round, &refused_without_local(&["n1"])));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1);
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.region.region, "nolocal");
    assert_eq!(verdict.targets.len(), 50);
    let row = verdict.evidence.iter().find(|row| row.predicted).unwrap();
    // Two clients in three rounds: a front counts once per client and round, however many hosts share it.
    assert_eq!((row.probes, row.failures), (6, 6));
}

/// Found in the lab: a prober dials the former address of a moved Pod until its plan is updated.
#[test]
fn direct_probes_of_an_endpoint_that_is_gone_are_no_evidence_about_the_others() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 1, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let stale: Vec<Probe> = mesh
        .probes(3)
        .into_iter()
        .filter(|p| p.channel == "direct" && p.node.as_deref() == Some("n2"))
        .collect();
    assert!(!stale.is_empty());
    mesh.change(cluster(3, &[1], 1, "Local"), 3 * INTERVAL);
    for probe in &stale {
        let recorded = mesh.record(probe, &|_| Some(("connect", "connect_timeout")));
        mesh.engine.observe(&recorded);
    }
    let mut view = None;
    for round in 3..6 {
        view = Some(mesh.round(round, &refused_without_local(&["n1"])));
    }
    let view = view.unwrap();
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.region.region, "nolocal");
    let direct = verdict
        .evidence
        .iter()
        .find(|row| row.clients.starts_with("direct connections"))
        .unwrap();
    assert!(direct.probes > 0 && direct.kinds.is_empty(), "{direct:?}");
}

/// The client's node sends only some of its refusals: the kernel rate-limits ICMP errors per destination.
#[test]
fn one_refusal_says_what_the_silence_of_the_other_hosts_on_the_front_is() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 50, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let refused = refused_without_local(&["n1"]);
    let mut view = None;
    for round in 3..6 {
        view = Some(mesh.round(round, &|p| {
            let (phase, kind) = refused(p)?;
            let aloud = p.target == "http://h7.example.test/";
            Some((phase, if aloud { kind } else { "connect_timeout" }))
        }));
    }
    let view = view.unwrap();
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.causes[0].id, "F1");
    assert!(verdict.sentence.contains("are refused"), "{}", verdict.sentence);
    let row = verdict.evidence.iter().find(|row| row.predicted).unwrap();
    assert_eq!(row.kinds, [("refused".to_owned(), 6)]);
}

#[test]
fn an_incident_recovers_closes_and_comes_back_with_a_count() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 2, "Local"));
    let refused = refused_without_local(&["n1"]);
    let mut states = Vec::new();
    for round in 0..60 {
        let broken = (3..9).contains(&round) || round >= 45;
        let view = mesh.round(round, &|p| if broken { refused(p) } else { None });
        states.push(
            view.incidents
                .first()
                .map(|i| (i.id.clone(), i.state, i.occurrences)),
        );
    }
    let at = |round: usize| states[round].clone().unwrap();
    assert_eq!(states[2], None);
    assert_eq!(at(8).1, IncidentState::Open);
    assert_eq!(at(11).1, IncidentState::Recovering);
    assert!(matches!(at(40).1, IncidentState::Closed { .. }), "{:?}", at(40));
    assert_eq!((at(50).1, at(50).2), (IncidentState::Open, 2));
    assert_eq!(at(8).0, at(50).0);
}

#[test]
fn what_never_worked_is_investigated_and_opens_no_incident() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 2, "Cluster"));
    let mut view = None;
    for round in 0..6 {
        view = Some(mesh.round(round, &|p| {
            (p.channel == "vip" && p.front.as_deref() == Some("203.0.113.10:80") || p.channel == "direct")
                .then_some(("connect", "connect_timeout"))
        }));
    }
    let view = view.unwrap();
    let broken: Vec<_> = view
        .matrix
        .iter()
        .filter(|row| row.never_succeeded)
        .map(|r| r.target.as_str())
        .collect();
    assert_eq!(broken, ["http://h0.example.test/", "http://h1.example.test/"]);
    assert_eq!(view.incidents, []);
    assert!(
        view.investigations
            .iter()
            .any(|i| i.sentence.contains("never worked")),
        "{:?}",
        view.investigations
    );
}

/// One vantage probes two addresses; the first never worked, the second stops.
#[test]
fn what_never_worked_supports_no_cause_of_another_target() {
    let targets = ["http://127.0.0.1:8001/", "http://127.0.0.1:8002/"];
    let mut day = ScriptedMesh::new(json!({
        "nodes": [{"name": "n0", "prober": {"pod": "prober-n0", "address": "10.244.0.5:9095"}}],
        "targets": targets.map(|url| json!({"url": url})),
    }));
    let mut named = Vec::new();
    for round in 0..30 {
        for (n, target) in targets.iter().enumerate() {
            let line =
                json!({"channel": "vip", "target": target, "front": format!("127.0.0.1:800{}", n + 1)});
            let refused = n == 0 || round >= 12;
            let offset = 500_000 + i64::try_from(n).unwrap() * 1_000;
            day.probe(
                round,
                0,
                offset,
                with_outcome(line, refused.then_some(("connect", "refused"))),
            );
        }
        named.extend(open_sentences(&day.close(round, &[0])));
    }
    named.dedup();
    assert!(!named.is_empty());
    for sentence in &named {
        assert!(sentence.contains("127.0.0.1:8002"), "{named:?}");
        assert!(!sentence.contains("node n0"), "{named:?}");
    }
}

#[test]
fn endpoints_that_forbid_direct_probes_are_left_out_not_blamed() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 2, "Cluster"));
    for round in 0..8 {
        let view = mesh.round(round, &|p| {
            (p.channel == "direct").then_some(("connect", "connect_timeout"))
        });
        assert_eq!(view.incidents, []);
    }
}

/// Found in the lab: an ingress that requires the balancer's PROXY header closes connections without one.
#[test]
fn endpoints_that_close_every_direct_connection_are_not_blamed_while_the_front_works() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 2, "Cluster"));
    for round in 0..8 {
        let view = mesh.round(round, &|p| {
            (p.channel == "direct").then_some(("first-byte", "eof"))
        });
        assert_eq!(view.incidents, []);
    }
    let mut view = None;
    for round in 8..14 {
        let closed = |p: &Probe| (matches!(p.channel, "direct" | "vip")).then_some(("first-byte", "eof"));
        view = Some(mesh.round(round, &closed));
    }
    let view = view.unwrap();
    let named: Vec<_> = view
        .incidents
        .iter()
        .map(|incident| {
            (
                incident.verdict.region.region.as_str(),
                incident.verdict.causes[0].id.as_str(),
            )
        })
        .collect();
    assert_eq!(named, [("proto-vip", "F9")]);
}

/// The usual remedy changes the placement of the failed clients, so no path of the region is left to prove
/// recovery.
#[test]
fn an_incident_ends_when_an_endpoint_on_every_node_is_the_remedy_and_not_while_its_clients_still_fail() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let refused = refused_without_local(&["n1"]);
    for round in 3..9 {
        mesh.round(round, &refused);
    }
    mesh.change(cluster(3, &[1, 2, 3], 1, "Local"), 9 * INTERVAL);
    let still = |p: &Probe| {
        let hit = p.front.as_deref() == Some("203.0.113.10:80") && p.client == "n3";
        hit.then_some(("connect", "refused"))
    };
    let mut view = None;
    for round in 9..16 {
        view = Some(mesh.round(round, &still));
    }
    let open = |view: &parallax_diagnosis::view::View| {
        let open = view
            .incidents
            .iter()
            .filter(|i| !matches!(i.state, IncidentState::Closed { .. }));
        open.count()
    };
    assert_ne!(open(&view.unwrap()), 0, "n3 still fails");
    let mut view = None;
    for round in 16..46 {
        view = Some(mesh.round(round, &healthy));
    }
    let view = view.unwrap();
    assert_eq!(open(&view), 0, "{:?}", view.incidents);
}

/// Found in the lab: a prober does not respond to echo requests before its first plan.
#[test]
fn a_node_that_joins_and_does_not_answer_yet_is_not_broken_and_one_that_answered_before_is() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    mesh.change(cluster(4, &[1, 2], 1, "Cluster"), 3 * INTERVAL);
    let no_echo = |node: &'static str| {
        move |p: &Probe| {
            (p.channel == "mesh" && p.node.as_deref() == Some(node)).then_some(("check", "status"))
        }
    };
    for round in 3..8 {
        let view = mesh.round(round, &no_echo("n4"));
        assert_eq!(view.incidents, []);
    }
    let out_of_reach = |p: &Probe| {
        (p.channel == "mesh" && p.node.as_deref() == Some("n3")).then_some(("connect", "connect_timeout"))
    };
    let mut view = None;
    for round in 8..16 {
        view = Some(mesh.round(round, &out_of_reach));
    }
    let named = view.unwrap().incidents;
    assert!(
        named.iter().any(|i| i.verdict.region.members == ["n3"]),
        "{named:?}"
    );
}

/// Found in the lab: a node joins while the API server is away; its prober is denied a plan, and its first
/// responses arrive after the node is known.
#[test]
fn a_node_whose_prober_refuses_the_echo_is_reached() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let refuses =
        |p: &Probe| (p.channel == "mesh" && p.node.as_deref() == Some("n4")).then_some(("check", "status"));
    for round in 3..12 {
        let view = mesh.round(round, &refuses);
        assert_eq!((view.incidents, view.investigations), (Vec::new(), Vec::new()));
    }
}

/// Found in the lab: a suspended prober does not respond to echo requests either.
#[test]
fn a_prober_that_answers_nobody_is_no_broken_node_while_another_pod_there_answers() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let no_echo = |p: &Probe| {
        (p.channel == "mesh" && p.node.as_deref() == Some("n2")).then_some(("body", "first_byte_timeout"))
    };
    for round in 3..9 {
        let view = mesh.round(round, &no_echo);
        assert_eq!(view.incidents, []);
    }
    let view = mesh.round(9, &no_echo);
    let said: Vec<_> = view.investigations.iter().map(|i| i.sentence.as_str()).collect();
    assert_eq!(
        said,
        [
            "the prober on node n2 does not respond, but the other Pods on the node do: check the prober, not the node"
        ]
    );

    // From here on the endpoint on that node is unreachable too.
    let mut view = None;
    for round in 10..16 {
        view = Some(mesh.round(round, &|p| {
            (p.client != "n2" && p.channel != "dns" && p.node.as_deref() == Some("n2"))
                .then_some(("connect", "connect_timeout"))
        }));
    }
    let named = view.unwrap().incidents;
    assert!(
        named.iter().any(|i| i.verdict.region.members == ["n2"]),
        "{named:?}"
    );
}

#[test]
fn a_broken_node_is_one_incident_about_the_node_over_all_fronts() {
    let mut mesh = SimulatedMesh::new(cluster(5, &[1, 2], 3, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..10 {
        view = Some(mesh.round(round, &|p| {
            (p.client == "n4").then_some(("connect", "connect_timeout"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| i.verdict.region.to_string())
        .collect();
    assert_eq!(found, ["client n4"]);
    assert_eq!(view.incidents[0].verdict.subject.to_string(), "node n4");
}

#[test]
fn a_stale_node_is_told_from_a_broken_one() {
    let mut mesh = SimulatedMesh::new(cluster(5, &[1, 2], 1, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..9 {
        view = Some(mesh.round(round, &|p| {
            (p.client == "n4" && p.front.as_deref() == Some("203.0.113.10:80"))
                .then_some(("connect", "connect_timeout"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| i.verdict.region.to_string())
        .collect();
    assert_eq!(found, ["client-vip n4"]);
    assert_eq!(view.incidents[0].verdict.causes[0].id, "F24");
}

#[test]
fn an_error_of_one_host_never_blames_the_front() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 5, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..8 {
        view = Some(mesh.round(round, &|p| {
            (p.target == "http://h3.example.test/").then_some(("check", "status"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| {
            (
                i.verdict.subject.to_string(),
                i.verdict
                    .class
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [(
            "http://h3.example.test/".to_owned(),
            // Its own probes cannot separate it from the address; other hosts on the address can.
            vec!["target".to_owned()]
        )]
    );
}

#[test]
fn a_front_that_closes_before_the_first_byte_for_all_hosts_is_the_fronts_fault() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2], 5, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..8 {
        view = Some(mesh.round(round, &|p| {
            (p.front.as_deref() == Some("203.0.113.10:80")).then_some(("first-byte", "eof"))
        }));
    }
    let view = view.unwrap();
    assert_eq!(view.incidents.len(), 1);
    let verdict = &view.incidents[0].verdict;
    assert_eq!(verdict.subject.to_string(), "203.0.113.10:80");
    assert_eq!(verdict.region.region, "proto-vip");
    assert!(verdict.class.iter().any(|region| region.region == "vip"));
    assert_eq!(verdict.causes[0].id, "F9");
    assert_eq!(verdict.targets.len(), 5);
}

#[test]
fn an_endpoint_that_fails_everywhere_is_named_by_its_pod() {
    let mut mesh = SimulatedMesh::new(cluster(4, &[1, 2, 3], 2, "Cluster"));
    for round in 0..3 {
        mesh.round(round, &healthy);
    }
    let mut view = None;
    for round in 3..8 {
        view = Some(mesh.round(round, &|p| {
            (p.entry.as_deref() == Some("ingress-2")).then_some(("connect", "refused"))
        }));
    }
    let view = view.unwrap();
    let found: Vec<_> = view
        .incidents
        .iter()
        .map(|i| i.verdict.region.to_string())
        .collect();
    assert_eq!(found, ["backend ingress-2"]);
}

#[test]
fn an_open_incident_whose_witnesses_fall_silent_stays_open_and_says_so() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    for round in 0..8 {
        let refused = refused_without_local(&["n1"]);
        mesh.round(round, &|p| if round < 3 { None } else { refused(p) });
    }
    let later = mesh.engine.view(EventTime(8 * INTERVAL + 120_000_000));
    assert_eq!(later.incidents[0].state, IncidentState::Open);
    assert!(later.incidents[0].verdict.sentence.contains("no fresh evidence"));
    assert!(later.vantages.iter().all(|v| v.state == VantageState::Silent));
}

#[test]
fn every_observation_counts_once_or_is_accounted_for() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    mesh.round(0, &healthy);
    let first = mesh.observed[0].clone();
    assert_eq!(mesh.engine.observe(&first), ObservationResult::Late);
    let mut stranger = first.clone();
    stranger.vantage = "n9/pod".parse().unwrap();
    assert_eq!(mesh.engine.observe(&stranger), ObservationResult::Unknown);
    let mut ahead = first.clone();
    ahead.observation.seq = parallax_model::ReportSeq(900);
    ahead.observation.started = EventTime(2 * 3_600_000_000);
    assert_eq!(mesh.engine.observe(&ahead), ObservationResult::Implausible);
    ahead.observation.started = EventTime(-1);
    assert_eq!(mesh.engine.observe(&ahead), ObservationResult::Implausible);
    let mut late = first;
    late.observation.seq = parallax_model::ReportSeq(901);
    assert_eq!(mesh.engine.observe(&late), ObservationResult::Late);
    let counters = mesh.engine.view(EventTime(6_000_000)).counters;
    assert_eq!((counters.late, counters.unknown, counters.implausible), (1, 1, 2));
    assert_eq!(counters.accepted, u64::try_from(mesh.observed.len()).unwrap());
}

#[test]
fn a_round_closes_early_only_when_every_speaking_vantage_is_past_it() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    for probe in mesh.probes(0) {
        let recorded = mesh.record(&probe, &healthy);
        mesh.engine.observe(&recorded);
    }
    let end = EventTime(INTERVAL);
    for node in ["n1", "n2"] {
        mesh.engine
            .record_progress(&format!("{node}/pod").parse().unwrap(), end);
    }
    assert!(!mesh.engine.advance(end.shifted(500_000)));
    mesh.engine.record_progress(&"n3/pod".parse().unwrap(), end);
    assert!(mesh.engine.advance(end.shifted(500_000)));
}

#[test]
fn a_round_closes_by_time_when_a_vantage_never_says_that_it_is_complete() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 1, "Local"));
    for probe in mesh.probes(0) {
        let recorded = mesh.record(&probe, &healthy);
        mesh.engine.observe(&recorded);
    }
    assert!(!mesh.engine.advance(EventTime(INTERVAL + 3_999_999)));
    assert!(mesh.engine.advance(EventTime(INTERVAL + 4_000_000)));
}

#[test]
fn a_target_with_a_longer_timeout_that_is_added_later_keeps_rounds_open_for_its_probes() {
    let mut spec = cluster(3, &[1], 1, "Local");
    let mut mesh = SimulatedMesh::new(spec.clone());
    spec["targets"] = serde_json::json!([{"url": "http://slow.example.test/", "timeoutMs": 10_000}]);
    mesh.change(spec, 0);
    for probe in mesh.probes(0) {
        let recorded = mesh.record(&probe, &healthy);
        mesh.engine.observe(&recorded);
    }
    assert!(!mesh.engine.advance(EventTime(INTERVAL + 10_999_999)));
    assert!(mesh.engine.advance(EventTime(INTERVAL + 11_000_000)));
}

/// `parallax up` on a laptop: endpoints are unknown, and there is no second client for comparison.
#[test]
fn what_one_vantage_alone_sees_fail_is_said_of_the_address_and_the_vantage_is_listed_beside() {
    let spec = serde_json::json!({"targets": [{"url": "tcp://192.0.2.7:5432"}]});
    let spec: parallax_diagnosis::topology::TopologySpec = serde_json::from_value(spec).unwrap();
    let topology = parallax_diagnosis::topology::Topology::try_from(spec).unwrap();
    let topology = std::sync::Arc::new(topology.with_vantage("laptop/host".parse().unwrap()));
    let settings = parallax_diagnosis::Settings {
        interval: Micros(INTERVAL.unsigned_abs()),
        timeout: Micros::from_secs(3),
    };
    let mut engine = parallax_diagnosis::Engine::new(settings, topology);
    for round in 0..12 {
        let ok = round < 4;
        let mut line = serde_json::json!({
            "vantage": "laptop/host", "incarnation": "a-1", "seq": round + 1, "t_us": round * INTERVAL + 1_000,
            "target": "tcp://192.0.2.7:5432", "channel": "vip", "front": "192.0.2.7:5432",
            "result": if ok { "ok" } else { "failed" }, "times": {"connect_us": 400},
        });
        if !ok {
            line["phase"] = serde_json::json!("connect");
            line["kind"] = serde_json::json!("refused");
        }
        engine.observe(&serde_json::from_value(line).unwrap());
        engine.advance(EventTime((round + 1) * INTERVAL + 4_000_001));
    }
    let view = engine.view(EventTime(12 * INTERVAL));
    let verdict = &view.incidents[0].verdict;
    let told: Vec<&str> = verdict
        .class
        .iter()
        .map(|region| region.region.as_str())
        .collect();
    assert!(!told[0].starts_with("client"), "{told:?}");
    assert!(told.contains(&"client"), "{told:?}");
    assert!(!verdict.sentence.contains("direct"), "{}", verdict.sentence);
}
