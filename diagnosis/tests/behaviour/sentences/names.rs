//! Verdicts about names that do not resolve.

use parallax_model::hash;

use super::*;

/// Queries two names from every node; `lost` returns the findings about a query that gets no response.
fn query_names(spec: &Value, broken_spec: &Value, lost: impl Fn(i64, &str, &str) -> Option<Value>) -> View {
    let mut cluster = Cluster::new(spec);
    rounds(&mut cluster, |cluster, round, broken| {
        if round == 3 {
            cluster.change(broken_spec, round);
        }
        query_names_once(cluster, round, |node, name| {
            lost(round, node, name).filter(|_| broken)
        });
    })
}

fn query_names_once(cluster: &mut Cluster, round: i64, lost: impl Fn(&str, &str) -> Option<Value>) {
    for node in NODES {
        for name in ["shop.example.test", "other.example.test"] {
            let unanswered = lost(node, name);
            let outcome = unanswered.is_some().then_some(("resolve", "resolve_timeout"));
            cluster.name(round, node, name, outcome, &unanswered.unwrap_or_default());
        }
    }
}

/// Every other lookup loses one of its two queries.
fn raced(round: i64, node: &str, name: &str) -> Option<Value> {
    let turn = usize::try_from(round).unwrap() + name.len() + usize::from(node == "n2");
    turn.is_multiple_of(2)
        .then(|| json!({"a": true, "other_answered": true, "again_answered": true, "tcp_answered": true}))
}

fn assert_race(verdict: &Verdict) {
    assert_eq!(verdict.causes[0].id, "F16", "{}", verdict.sentence);
    assert!(
        verdict.sentence.contains("a retry from another port succeeds"),
        "{}",
        verdict.sentence
    );
}

fn assert_no_race(verdict: &Verdict) {
    assert!(
        verdict.causes.iter().all(|cause| cause.id != "F16"),
        "{:?}",
        verdict.causes
    );
    assert!(!verdict.sentence.contains("AAAA"), "{}", verdict.sentence);
}

#[test]
fn a_resolver_scaled_to_nothing_is_named_by_its_service() {
    let gone = spec(&[true, true, true], &[], "Ready");
    let lost = json!({"a": true, "aaaa": true, "other_answered": false, "again_answered": false,
        "tcp_answered": false});
    let view = query_names(&healthy_spec(), &gone, |_, _, _| Some(lost.clone()));
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "P10", "{}", verdict.sentence);
    assert_no_race(verdict);
    assert!(
        verdict.sentence.contains(
            "Service kube-system/kube-dns of the resolver 10.96.0.10:53 has no usable endpoint; no name resolves on any node"
        ),
        "{}",
        verdict.sentence
    );
}

#[test]
fn port_53_filtered_for_one_nodes_pods_is_that_nodes_way() {
    let lost = json!({"a": true, "aaaa": true, "other_answered": false, "again_answered": false,
        "tcp_answered": false});
    let view = query_names(&healthy_spec(), &healthy_spec(), |_, node, _| {
        (node == "n2").then(|| lost.clone())
    });
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "P9", "{}", verdict.sentence);
    assert_no_race(verdict);
    assert!(
        verdict.sentence.contains(
            "the path from node n2 to its resolver 10.96.0.10:53 is broken, over both UDP and TCP; names resolve on other nodes"
        ),
        "{}",
        verdict.sentence
    );
}

/// One of two replicas receives queries and never responds; a retry reaches the other one half of the time.
#[test]
fn a_hung_resolver_pod_is_the_resolvers_and_no_race() {
    let view = query_names(&healthy_spec(), &healthy_spec(), |round, node, name| {
        let turn = usize::try_from(round).unwrap() + node.len() + name.len();
        let turn = turn + usize::from(node == "n2");
        (turn % 2 == 0).then(|| {
            json!({"a": true, "other_answered": turn % 4 == 0, "again_answered": turn % 4 == 0,
                "tcp_answered": turn % 4 != 0, "aaaa": turn % 4 != 0})
        })
    });
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "P10", "{}", verdict.sentence);
    assert_no_race(verdict);
    // Nothing tells which of the two hangs, or whether both lose half of the queries.
    assert!(
        verdict.sentence.contains(
            "perhaps only those that reach endpoint coredns-1 or coredns-2, time out: one or all of the resolver's Pods"
        ),
        "{}",
        verdict.sentence
    );
    assert_eq!(
        verdict.headline(),
        "the cluster DNS resolver fails: Service kube-system/kube-dns"
    );
}

/// All Pods of the resolver lose a few questions, or one loses twice as many.
#[test]
fn a_resolver_that_loses_few_questions_is_not_said_to_be_one_pod() {
    let mut cluster = Cluster::new(&healthy_spec());
    let mut view = None;
    for round in 0..24 {
        cluster.mesh(round);
        for node in NODES {
            for name in ["shop.example.test", "other.example.test"] {
                let is_lost = round >= 3 && hash::fnv1a(&[&format!("{round} {node} {name}")]) % 100 < 15;
                let outcome = is_lost.then_some(("resolve", "resolve_timeout"));
                cluster.name(round, node, name, outcome, &Value::Null);
            }
        }
        view = Some(cluster.close(round));
    }
    let view = view.unwrap();
    let verdict = only_verdict(&view);
    assert_eq!(
        verdict.sentence,
        "clients of Service kube-system/kube-dns, perhaps only those that reach endpoint coredns-1 or coredns-2, time out: one or \
         all of the resolver's Pods do not answer"
    );
}

#[test]
fn of_two_questions_one_lost_while_all_else_passes_is_the_race() {
    let view = query_names(&healthy_spec(), &healthy_spec(), raced);
    let verdict = only_verdict(&view);
    assert_race(verdict);
    assert!(
        verdict.sentence.contains("intermittently"),
        "{}",
        verdict.sentence
    );
}

/// The queries of a prober that runs late say nothing about how the others are lost.
#[test]
fn queries_of_a_late_prober_are_no_symptom() {
    let lost = json!({"a": true, "aaaa": true, "other_answered": false, "again_answered": false,
        "tcp_answered": false});
    let mut cluster = Cluster::new(&healthy_spec());
    let view = rounds(&mut cluster, |cluster, round, broken| {
        query_names_once(cluster, round, |node, name| {
            raced(round, node, name).filter(|_| broken)
        });
        cluster.late_name(round, "n3", "shop.example.test", &lost);
    });
    assert_race(only_verdict(&view));
}

/// A missing response alone is no sign of a race; older probers report nothing more.
#[test]
fn lost_questions_without_any_sign_are_no_race() {
    let view = query_names(&healthy_spec(), &healthy_spec(), |_, _, _| Some(Value::Null));
    let verdict = only_verdict(&view);
    assert_eq!(verdict.causes[0].id, "P10", "{}", verdict.sentence);
    assert_no_race(verdict);
}
