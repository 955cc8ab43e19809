//! From Challenges to the list of waiting ones: which, in what order, and with what explanation.

mod leadership;

use std::{collections::BTreeMap, sync::Arc};

use parallax_api::{
    challenges::{ChallengeCause, ChallengeExplanation, SelfCheckReplay, WaitingChallenge},
    preflight::CheckState,
};
use parallax_diagnosis::{
    plan::PlanConfig,
    topology::{Topology, TopologySpec},
};
use parallax_fixtures as fixtures;
use parallax_history::store::StoreHandle;
use parallax_kubernetes::{
    replicas::{ReplicaRole, ReplicaState},
    topology_state::TopologyState,
    watch::{ApiServerAccess, Key, KubernetesSettings},
};
use parallax_model::{EventTime, Micros};
use parallax_preflight::{Challenge, from_object};
use parallax_runs::{RunManager, RunMetrics};
use parallax_runtime::Clock;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    registry::{ChallengeRegistry, ExplanationState},
    *,
};
use crate::cert_manager::{CertManagerState, ObjectStore, UnavailableReason};

const SAID: &str = "Waiting for HTTP-01 challenge propagation: failed to perform self check GET request 'http://shop.example.test/.well-known/acme-challenge/tok': Get \"http://shop.example.test/.well-known/acme-challenge/tok\": ";

fn key(name: &str) -> Key {
    Key {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "reads as an object")]
fn challenge(name: &str, status: Value) -> Arc<Challenge> {
    let object = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "1970-01-01T00:00:10Z"},
        "spec": {"dnsName": "shop.example.test", "token": "tok", "key": "tok.secretive", "type": "HTTP-01", "solver": {}},
        "status": status,
    });
    Arc::new(from_object(object).unwrap())
}

fn failing(tail: &str) -> Value {
    json!({"processing": true, "presented": true, "state": "pending", "reason": format!("{SAID}{tail}")})
}

fn all(challenges: &[(&str, Value)]) -> BTreeMap<Key, Arc<Challenge>> {
    let made = challenges
        .iter()
        .map(|(name, status)| (key(name), challenge(name, status.clone())));
    made.collect()
}

const fn at(seconds: i64) -> EventTime {
    EventTime(seconds * 1_000_000)
}

fn names(next: &[(Key, Arc<Challenge>)]) -> Vec<&str> {
    next.iter().map(|(key, _)| key.name.as_str()).collect()
}

fn check(state: CheckState) -> SelfCheckReplay {
    SelfCheckReplay {
        state,
        sentence: "it fails".to_owned(),
        passing: Vec::new(),
        failing: Vec::new(),
        silent: Vec::new(),
        caveats: Vec::new(),
    }
}

fn told(cause: &str) -> ExplanationState {
    let explanation = ChallengeExplanation {
        replayed_at: at(0),
        runs: Vec::new(),
        self_check: check(CheckState::Failed),
        ca: check(CheckState::Unknown),
        placement: Vec::new(),
        remedies: Vec::new(),
        wait_instead_of_self_check: None,
        incident: None,
    };
    let cause = ChallengeCause {
        id: cause.to_owned(),
        title: "as seen".to_owned(),
        diagnosed: true,
    };
    ExplanationState::Replayed(Box::new(explanation), vec![cause])
}

/// The list entry of one Challenge that has waited for a long time.
fn shown(status: Value) -> Option<WaitingChallenge> {
    let mut registry = ChallengeRegistry::default();
    registry.sync(&all(&[("web", status)]), at(1_000));
    registry.list(&ChallengeOptions::default(), at(1_000)).pop()
}

#[test]
fn each_reason_that_cert_manager_gives_has_its_meaning_and_its_usual_cause() {
    for (tail, meaning, cause) in [
        (
            "dial tcp 203.0.113.10:80: connect: connection refused",
            "connection refused at 203.0.113.10:80",
            "F1",
        ),
        (
            "dial tcp 203.0.113.10:80: i/o timeout",
            "at 203.0.113.10:80",
            "F2",
        ),
        (
            "dial tcp 203.0.113.10:80: connect: no route to host",
            "at 203.0.113.10:80",
            "F24",
        ),
        (
            "dial tcp [2001:db8::1]:80: connect: network is unreachable",
            "at [2001:db8::1]:80",
            "F17",
        ),
        (
            "dial tcp: lookup shop.example.test on 10.96.0.10:53: no such host",
            "according to 10.96.0.10:53",
            "F15",
        ),
        (
            "dial tcp: lookup shop.example.test on 10.96.0.10:53: read udp 10.244.0.7:4711->10.96.0.10:53: i/o timeout",
            "according to 10.96.0.10:53",
            "P10",
        ),
        (
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            "self check",
            "F5",
        ),
        ("EOF", "self check", "F9"),
        (
            "http: server gave HTTP response to HTTPS client",
            "self check",
            "F10",
        ),
    ] {
        let found = shown(failing(tail)).unwrap_or_else(|| panic!("{tail} is not shown"));
        assert!(found.meaning.contains(meaning), "{tail}: {}", found.meaning);
        assert_eq!(found.cause(), cause, "{tail}");
        assert!(!found.causes[0].diagnosed, "a reason alone proves nothing");
    }
    for (code, cause) in [("404", "F19"), ("502", "F20"), ("504", "F13"), ("401", "F18")] {
        let reason =
            format!("Waiting for HTTP-01 challenge propagation: wrong status code '{code}', expected '200'");
        let found = shown(json!({"presented": true, "state": "pending", "reason": reason})).unwrap();
        assert_eq!(found.cause(), cause, "{code}");
        assert!(found.meaning.contains(&format!("({code})")), "{}", found.meaning);
    }
}

#[test]
fn what_no_fetch_would_tell_more_about_is_shown_with_its_reason_and_never_asked_for() {
    for (status, meaning, reason) in [
        (
            json!({"state": "pending", "presented": true, "reason": "Waiting 60s before accepting HTTP-01 challenge without self-check"}),
            "cert-manager waits 60s",
            "its self check is skipped",
        ),
        (
            json!({"state": "pending", "reason": "Error presenting challenge: admission webhook \"validate.example.test\" denied the request"}),
            "its solver could not be created",
            "its solver does not exist",
        ),
        (
            json!({"state": "pending", "presented": true, "reason": "Error accepting authorization: acme: authorization error for shop.example.test: 403"}),
            "the CA has rejected it",
            "the CA has already decided",
        ),
    ] {
        let mut registry = ChallengeRegistry::default();
        registry.sync(&all(&[("web", status)]), at(1_000));
        assert!(
            registry
                .start_due(&ChallengeOptions::default(), at(1_000))
                .is_empty(),
            "{meaning}"
        );
        let found = registry
            .list(&ChallengeOptions::default(), at(1_000))
            .pop()
            .unwrap();
        assert!(found.meaning.contains(meaning), "{}", found.meaning);
        assert_eq!(found.not_replayed.as_deref(), Some(reason));
    }
}

#[test]
fn what_is_queued_or_over_does_not_wait() {
    for status in [
        json!({}),
        json!({"state": "pending"}),
        json!({"state": "valid", "presented": true}),
        json!({"state": "invalid", "presented": true, "reason": "Error accepting authorization: no"}),
        json!({"state": "expired", "presented": true, "reason": "too late"}),
    ] {
        assert_eq!(shown(status.clone()), None, "{status}");
    }
}

#[test]
fn one_that_begins_to_wait_has_its_time_and_one_that_waited_before_is_looked_at_at_once() {
    let options = ChallengeOptions::default();
    let mut registry = ChallengeRegistry::default();
    let refused = failing("dial tcp 203.0.113.10:80: connect: connection refused");
    registry.sync(&all(&[("old", refused.clone())]), at(1_000));
    assert_eq!(names(&registry.start_due(&options, at(1_000))), ["old"]);
    registry.sync(&all(&[("old", refused.clone()), ("new", refused)]), at(1_001));
    assert!(registry.start_due(&options, at(1_030)).is_empty());
    assert_eq!(
        registry.list(&options, at(1_030)).len(),
        1,
        "a Challenge that has just begun to wait is not listed"
    );
    assert_eq!(names(&registry.start_due(&options, at(1_031))), ["new"]);
    assert_eq!(registry.list(&options, at(1_031)).len(), 2);
}

#[test]
fn so_many_at_a_time_those_that_wait_longest_first_and_again_only_after_a_while() {
    let options = ChallengeOptions::default();
    let refused = || failing("dial tcp 203.0.113.10:80: connect: connection refused");
    let mut registry = ChallengeRegistry::default();
    registry.sync(&all(&[]), at(0));
    let mut challenges = Vec::new();
    for (n, name) in ["c", "a", "b"].into_iter().enumerate() {
        challenges.push((name, refused()));
        registry.sync(&all(&challenges), at(i64::try_from(n).unwrap()));
    }
    assert_eq!(
        names(&registry.start_due(&options, at(100))),
        ["c", "a"],
        "two at a time, oldest first"
    );
    assert!(registry.start_due(&options, at(101)).is_empty());
    registry.set_state(&key("c"), "uid-c", told("F1"));
    assert_eq!(names(&registry.start_due(&options, at(102))), ["b"]);
    registry.set_state(&key("a"), "uid-a", told("F1"));
    registry.set_state(&key("b"), "uid-b", told("F1"));
    assert!(
        registry.start_due(&options, at(699)).is_empty(),
        "an explanation is kept for its lifetime"
    );
    assert_eq!(names(&registry.start_due(&options, at(702))), ["c", "a"]);
}

#[test]
fn a_reason_that_says_something_else_is_looked_at_again_and_one_of_other_ports_is_not() {
    let options = ChallengeOptions::default();
    let lookup = |port: u32| {
        failing(&format!(
            "dial tcp: lookup shop.example.test on 10.96.0.10:53: read udp 10.244.0.7:{port}->10.96.0.10:53: i/o timeout"
        ))
    };
    let mut registry = ChallengeRegistry::default();
    registry.sync(&all(&[("web", lookup(4_711))]), at(1_000));
    assert_eq!(registry.start_due(&options, at(1_000)).len(), 1);
    registry.set_state(&key("web"), "uid-web", told("F16"));
    registry.sync(&all(&[("web", lookup(4_712))]), at(1_100));
    assert!(
        registry.start_due(&options, at(1_100)).is_empty(),
        "only the client's port differs"
    );
    registry.sync(&all(&[("web", failing("EOF"))]), at(1_010));
    assert!(
        registry.start_due(&options, at(1_010)).is_empty(),
        "not before the minimum time"
    );
    assert_eq!(registry.start_due(&options, at(1_031)).len(), 1);
}

#[test]
fn an_explanation_ends_with_its_challenge_also_where_another_of_its_name_comes() {
    let options = ChallengeOptions::default();
    let mut registry = ChallengeRegistry::default();
    registry.sync(&all(&[("web", failing("EOF"))]), at(1_000));
    assert_eq!(registry.start_due(&options, at(1_000)).len(), 1);
    registry.set_state(&key("web"), "uid-web", told("F9"));
    let found = registry.list(&options, at(1_000)).pop().unwrap();
    assert_eq!((found.cause(), found.explanation.is_some()), ("F9", true));
    registry.sync(
        &all(&[("web", json!({"state": "valid", "presented": true}))]),
        at(1_001),
    );
    assert!(registry.list(&options, at(2_000)).is_empty());
    registry.set_state(&key("web"), "uid-web", told("F9"));
    assert!(
        registry.list(&options, at(2_000)).is_empty(),
        "a late result is dropped"
    );
    registry.sync(&all(&[("web", failing("EOF"))]), at(2_000));
    assert_eq!(
        registry.list(&options, at(2_030)).pop().unwrap().explanation,
        None
    );
}

#[test]
fn neither_token_nor_key_is_in_what_is_said_but_where_cert_manager_says_it() {
    let found = shown(json!({"presented": true, "state": "pending"})).unwrap();
    let words = serde_json::to_string(&found).unwrap();
    assert!(!words.contains("secretive") && !words.contains("tok"), "{words}");
}
