//! What is said of endpoints that Kubernetes itself takes away.

use super::*;

#[test]
fn nodes_that_are_not_ready_lose_a_service_its_endpoints_and_that_is_said() {
    let mut cluster = Cluster::new(&sound());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        if round == 3 {
            cluster.change(&spec(&[false, false, false], HEALTHY, "NotReady"), round);
        }
        let pods = if broken { 0 } else { 3 };
        cluster.web(round, pods, broken.then_some(("connect", "refused")), |_| None);
    });
    let verdict = only(&view);
    let ids: Vec<&str> = verdict.causes.iter().map(|cause| cause.id.as_str()).collect();
    assert_eq!(ids[0], "P11", "{}", verdict.sentence);
    for outranked in ["F26", "P5", "P6", "F11b"] {
        assert!(!ids.contains(&outranked), "{ids:?}");
    }
    assert!(
        verdict.sentence.contains(
            "nodes n1, n2 and n3 are marked NotReady, so Kubernetes withdrew the endpoints of Service shop/web"
        ),
        "{}",
        verdict.sentence
    );
}

/// All nodes are marked `NotReady` for a few rounds, as when the API server comes back: each Service and each name fails.
#[test]
fn nodes_that_are_not_ready_are_one_incident_whatever_fails_of_it_and_stay_so_while_it_passes() {
    let mut cluster = Cluster::new(&sound());
    let mut seen = false;
    for round in 0..40 {
        if round == 3 {
            cluster.change(&spec(&[false, false, false], &[false, false], "NotReady"), round);
        }
        if round == 7 {
            cluster.change(&sound(), round);
        }
        let broken = (3..7).contains(&round);
        cluster.mesh(round);
        cluster.web(
            round,
            if broken { 0 } else { 3 },
            broken.then_some(("connect", "refused")),
            |_| None,
        );
        cluster.host(round, "http", |_| broken.then_some(("check", "status:503")));
        for node in NODES {
            for name in ["shop.example.test", "other.example.test"] {
                let outcome = broken.then_some(("resolve", "resolver_unreachable"));
                cluster.name(round, node, name, outcome, &Value::Null);
            }
        }
        let view = cluster.close(round);
        let said: Vec<_> = view
            .incidents
            .iter()
            .map(|i| (i.verdict.causes[0].id.as_str(), i.verdict.sentence.as_str()))
            .collect();
        assert!(said.len() <= 1, "round {round}: {said:?}");
        if let [(id, sentence)] = said.as_slice() {
            seen = true;
            assert_eq!(*id, "P11", "round {round}: {sentence}");
            for service in ["shop/web", "kube-system/kube-dns"] {
                assert!(sentence.contains(service), "round {round}: {sentence}");
            }
        }
    }
    assert!(seen);
    let end = cluster.close(40);
    assert!(
        end.incidents
            .iter()
            .all(|i| matches!(i.state, IncidentState::Closed { .. })),
        "{:?}",
        end.incidents
    );
}

/// Seen on a real cluster after three minutes without its API server: the rules of one node followed 20 s after those of
/// the others.
#[test]
fn a_node_whose_service_rules_follow_a_withdrawal_late_has_no_stale_kube_proxy_yet() {
    for (late, then) in [(5, "P11"), (40, "F24")] {
        let mut cluster = Cluster::new(&sound());
        let mut said = Vec::new();
        for round in 0..60 {
            if round == 20 {
                cluster.change(&spec(&[false, false, false], HEALTHY, "NotReady"), round);
            }
            if round == 24 {
                cluster.change(&sound(), round);
            }
            cluster.mesh(round);
            cluster.address(round, |node| {
                let refused = (20..24).contains(&round) || node == "n3" && (24..24 + late).contains(&round);
                refused.then_some(("connect", "refused"))
            });
            for incident in &cluster.close(round).incidents {
                if !matches!(incident.state, IncidentState::Closed { .. }) {
                    said.push((
                        round,
                        incident.verdict.causes[0].id.clone(),
                        incident.verdict.sentence.clone(),
                    ));
                }
            }
        }
        let last = said.last().unwrap();
        assert_eq!(last.1, then, "{said:#?}");
        assert!(
            said.iter().all(|(round, id, _)| id == "P11" || *round > 35),
            "{said:#?}"
        );
        let words = "and the Service rules of node n3 have not followed their return yet";
        assert!(
            said.iter().any(|(.., sentence)| sentence.contains(words)),
            "{said:#?}"
        );
    }
}

#[test]
fn an_api_server_without_its_endpoint_withdrew_it_itself() {
    let mut cluster = Cluster::new(&sound());
    let mut away = sound();
    away["services"][3]["endpoints"] = json!([]);
    let view = rounds(&mut cluster, |cluster, round, broken| {
        if round == 3 {
            cluster.change(&away, round);
        }
        for node in NODES {
            let line = json!({"channel": "vip", "target": "tcp://10.96.0.1:443", "front": "10.96.0.1:443"});
            cluster.probe(round, node, line, broken.then_some(("connect", "refused")));
        }
    });
    let verdict = only(&view);
    assert_eq!(verdict.causes[0].id, "P12", "{}", verdict.sentence);
    assert!(
        verdict
            .sentence
            .contains("the API server withdrew its own endpoint"),
        "{}",
        verdict.sentence
    );
    assert!(verdict.causes.iter().all(|cause| cause.id != "F26"));
}
