//! Recovery and recurrence of incidents, and targets that have never worked.

use super::*;

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

/// Every node that lacks an endpoint is refused, and later the same nodes wait in vain: another cause of the same region.
#[test]
fn another_fault_of_the_same_region_is_an_incident_of_its_own() {
    let mut mesh = SimulatedMesh::new(cluster(3, &[1], 2, "Local"));
    let refused = refused_without_local(&["n1"]);
    let mut named = Vec::new();
    for round in 0..60 {
        let view = mesh.round(round, &|p| match round {
            3..9 => refused(p),
            45.. => refused(p).map(|_| ("connect", "connect_timeout")),
            _ => None,
        });
        let open = view.incidents.iter().filter(|i| i.state == IncidentState::Open);
        named.extend(open.map(|i| (i.id.clone(), i.occurrences, i.verdict.causes[0].id.clone())));
    }
    named.dedup();
    let [(first, 1, one), (second, 1, other)] = named.as_slice() else {
        panic!("{named:?}");
    };
    assert!(first != second && one != other, "{named:?}");
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
