//! Verdicts about endpoints that Kubernetes withdraws.

use super::*;

#[test]
fn nodes_that_are_not_ready_lose_a_service_its_endpoints_and_that_is_said() {
    let mut cluster = Cluster::new(&healthy_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        if round == 3 {
            cluster.change(&spec(&[false, false, false], HEALTHY, "NotReady"), round);
        }
        let pods = if broken { 0 } else { 3 };
        cluster.web(round, pods, broken.then_some(("connect", "refused")), |_| None);
    });
    let verdict = only_verdict(&view);
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

/// All nodes are `NotReady` for a few rounds, as after an outage of the API server: every Service and every name
/// fails.
#[test]
fn nodes_that_are_not_ready_are_one_incident_whatever_fails_of_it_and_stay_so_while_it_passes() {
    let mut cluster = Cluster::new(&healthy_spec());
    let mut seen = false;
    for round in 0..40 {
        if round == 3 {
            cluster.change(&spec(&[false, false, false], &[false, false], "NotReady"), round);
        }
        if round == 7 {
            cluster.change(&healthy_spec(), round);
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
        cluster.names(round, |_| broken);
        let view = cluster.close(round);
        let incidents: Vec<_> = view
            .incidents
            .iter()
            .map(|i| (i.verdict.causes[0].id.as_str(), i.verdict.sentence.as_str()))
            .collect();
        assert!(incidents.len() <= 1, "round {round}: {incidents:?}");
        if let [(id, sentence)] = incidents.as_slice() {
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

/// Marks the nodes `NotReady` in rounds 20 to 23. All clients fail for `all` rounds, those of `nodes` until `late`
/// rounds after the withdrawal. Returns round, cause and sentence of each open incident.
fn withdrawal_with_late_rules(
    withdrawn: &Value,
    (nodes, all, late): (&[&str], i64, i64),
    probe: impl Fn(&mut Cluster, i64, &dyn Fn(&str) -> bool),
) -> Vec<(i64, String, String)> {
    let mut cluster = Cluster::new(&healthy_spec());
    let mut verdicts = Vec::new();
    for round in 0..60 {
        if round == 20 {
            cluster.change(withdrawn, round);
        }
        if round == 24 {
            cluster.change(&healthy_spec(), round);
        }
        cluster.mesh(round);
        probe(&mut cluster, round, &|node| {
            (20..20 + all).contains(&round) || nodes.contains(&node) && (20..24 + late).contains(&round)
        });
        for incident in &cluster.close(round).incidents {
            if !matches!(incident.state, IncidentState::Closed { .. }) {
                let verdict = &incident.verdict;
                verdicts.push((round, verdict.causes[0].id.clone(), verdict.sentence.clone()));
            }
        }
    }
    verdicts
}

fn assert_withdrawal_for_a_minute(verdicts: &[(i64, String, String)], then: &str) {
    assert_eq!(verdicts.last().unwrap().1, then, "{verdicts:#?}");
    let first = verdicts.iter().find(|(_, id, _)| id != "P11");
    assert!(first.is_none_or(|(round, ..)| *round > 35), "{verdicts:#?}");
}

fn mentions_outdated_rules(verdicts: &[(i64, String, String)]) -> bool {
    let words = "and the Service rules of node n3 do not include the returned endpoints yet";
    verdicts.iter().any(|(.., sentence)| sentence.contains(words))
}

/// Seen on a real cluster after three minutes without its API server: one node's rules were updated 20 s after
/// those of the others.
#[test]
fn a_node_whose_service_rules_follow_a_withdrawal_late_has_no_stale_kube_proxy_yet() {
    let gone = spec(&[false, false, false], HEALTHY, "NotReady");
    for (late, then) in [(5, "P11"), (40, "F24")] {
        let verdicts = withdrawal_with_late_rules(&gone, (&["n3"], 4, late), |cluster, round, fails| {
            cluster.address(round, |node| fails(node).then_some(("connect", "refused")));
        });
        assert_withdrawal_for_a_minute(&verdicts, then);
        assert!(mentions_outdated_rules(&verdicts), "{verdicts:#?}");
    }
}

/// Seen there too: an API server that had not loaded its roles yet denied kube-proxy's watch, and kube-proxy
/// backed off.
#[test]
fn nodes_whose_service_rules_of_the_resolver_follow_late_have_no_broken_way_to_it_yet() {
    let gone = spec(&[true, true, true], &[false, false], "NotReady");
    for (nodes, all, late, then) in [
        (&["n3"][..], 4, 5, "P11"),
        (&["n1", "n3"][..], 4, 5, "P11"),
        (&["n3"][..], 0, 5, "P11"),
        (&["n3"][..], 0, 40, "P9"),
    ] {
        let verdicts = withdrawal_with_late_rules(&gone, (nodes, all, late), |cluster, round, fails| {
            cluster.names(round, fails);
        });
        assert_withdrawal_for_a_minute(&verdicts, then);
        let rounds: Vec<i64> = verdicts.iter().map(|(round, ..)| *round).collect();
        // Where all nodes were late before, only what follows tells.
        assert!(all > 0 || mentions_outdated_rules(&verdicts), "{verdicts:#?}");
        let once = rounds.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(once || then != "P11", "one incident: {verdicts:#?}");
    }
}

/// Seen there too: the EndpointSlice controller withdrew the resolver's endpoints after the nodes were ready
/// again, and only one node's Service rules were updated.
#[test]
fn endpoints_that_are_withdrawn_when_the_nodes_are_ready_again_are_withdrawn_because_of_them() {
    let mut cluster = Cluster::new(&healthy_spec());
    let mut verdicts = Vec::new();
    for round in 0..40 {
        match round {
            20 => cluster.change(&spec(&[true, true, true], HEALTHY, "NotReady"), round),
            24 | 33 => cluster.change(&healthy_spec(), round),
            30 => cluster.change(&spec(&[true, true, true], &[false, false], "Ready"), round),
            _ => {}
        }
        cluster.mesh(round);
        cluster.names(round, |node| node == "n3" && (30..34).contains(&round));
        for incident in &cluster.close(round).incidents {
            let verdict = &incident.verdict;
            verdicts.push((round, verdict.causes[0].id.clone(), verdict.sentence.clone()));
        }
    }
    assert!(!verdicts.is_empty());
    for (round, id, sentence) in &verdicts {
        assert_eq!(id, "P11", "{verdicts:#?}");
        assert!(
            sentence.contains("nodes n1 and n2 were marked NotReady"),
            "{sentence}"
        );
        let followed = sentence.contains("do not include the returned endpoints yet");
        assert_eq!(followed, *round >= 33, "{round}: {sentence}");
    }
}

#[test]
fn an_api_server_without_its_endpoint_withdrew_it_itself() {
    let mut cluster = Cluster::new(&healthy_spec());
    let mut away = healthy_spec();
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
    let verdict = only_verdict(&view);
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
