//! Incident I4: an internal name served to the internet.

use parallax_model::{DialAddress, Vantage};
use serde_json::json;

use super::*;
use crate::{
    findings::{ExposureState, Severity},
    plan::{PlanConfig, assignments},
    verdict::IncidentState,
};

const OWN: &str = "http://wiki.example.test/#at=10.0.0.8:80";
const STRANGER: &str = "http://wiki.example.test/#at=203.0.113.10:80";

/// An internal and a public ingress controller, each with its class and balancer.
fn two_classes() -> Value {
    let mut spec = cluster();
    spec["ingresses"] = json!([
        {"namespace": "shop", "name": "shop", "service": "ingress/nginx", "hosts": ["shop.example.test"], "class": "public"},
        {"namespace": "wiki", "name": "wiki", "service": "ingress/inner", "hosts": ["wiki.example.test"], "class": "inner",
         "tls": true},
    ]);
    spec["services"][1] = json!({"namespace": "ingress", "name": "inner", "type": "LoadBalancer",
        "clusterIPs": ["10.96.0.60"], "loadBalancer": [{"ip": "10.0.0.8"}],
        "ports": [{"port": 80, "targetPort": 8080}, {"port": 443, "targetPort": 8443}],
        "endpoints": [{"pod": "inner-1", "address": "10.244.3.10", "node": "n3"}]});
    spec["services"][0]["ports"] =
        json!([{"port": 80, "targetPort": 8080}, {"port": 443, "targetPort": 8443}]);
    spec["targets"] = json!([]);
    spec
}

fn answer(target: &str, status: u16, certificate: Option<u8>, body: Option<u8>) -> Value {
    let digest = |byte: u8| format!("{byte:02x}").repeat(16);
    let mut print = json!({"status": status});
    if let Some(byte) = certificate {
        print["certificate"] = json!(digest(byte));
    }
    if let Some(byte) = body {
        print["body"] = json!(digest(byte));
    }
    json!({"target": target, "channel": "vip", "result": "ok", "status": status, "print": print})
}

/// Probes twice, a minute apart, and returns the view.
fn asked(lines: &[(&str, Value)]) -> View {
    let mut stage = FindingsFixture::new(&two_classes());
    let mut view = None;
    for round in [0, 12] {
        for (vantage, line) in lines {
            stage.observe(round, vantage, line.clone());
        }
        view = Some(stage.close(round));
    }
    view.unwrap()
}

fn state(view: &View, host: &str) -> ExposureState {
    let of_host =
        |e: &&crate::findings::ExposureView| e.host.as_str() == host && e.front.address.port() == 80;
    view.exposures.iter().find(of_host).unwrap().state
}

#[test]
fn a_host_with_its_own_body_at_the_other_controllers_front_is_a_security_finding() {
    let view = asked(&[
        ("n1/pod", answer(OWN, 200, None, Some(1))),
        ("n1/pod", answer(STRANGER, 200, None, Some(1))),
    ]);
    assert_eq!(kinds(&view), ["exposed"]);
    let finding = &view.findings[0];
    assert_eq!(finding.severity, Severity::Critical);
    assert!(
        finding.sentence.starts_with(
            "wiki.example.test of ingress class inner is exposed on 203.0.113.10:80 of class public"
        ),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.targets, ["http://wiki.example.test/".parse().unwrap()]);
    assert_eq!(state(&view, "wiki.example.test"), ExposureState::Served);
}

#[test]
fn a_default_backends_404_another_page_a_refusal_and_another_certificate_are_no_finding() {
    let own = ("n1/pod", answer(OWN, 200, Some(7), Some(1)));
    let refused = json!({"target": STRANGER, "channel": "vip", "result": "failed", "phase": "connect", "kind": "refused"});
    for other_answer in [
        answer(STRANGER, 404, Some(7), Some(1)),
        answer(STRANGER, 200, None, Some(2)),
        answer(STRANGER, 200, Some(8), Some(2)),
        refused,
    ] {
        let view = asked(&[own.clone(), ("n1/pod", other_answer.clone())]);
        assert_eq!(view.findings, [], "{other_answer}");
        assert_eq!(
            state(&view, "wiki.example.test"),
            ExposureState::NotServed,
            "{other_answer}"
        );
    }
}

#[test]
fn the_same_certificate_and_status_is_enough_where_the_page_differs_each_time() {
    let view = asked(&[
        ("n1/pod", answer(OWN, 302, Some(7), Some(1))),
        ("n1/pod", answer(STRANGER, 302, Some(7), Some(2))),
    ]);
    assert_eq!(kinds(&view), ["exposed"]);
    assert!(view.findings[0].evidence[0].contains("same certificate"));
}

#[test]
fn what_the_front_shows_for_its_own_hosts_too_proves_nothing() {
    let wildcard = |target: &str, body| answer(target, 200, Some(7), Some(body));
    let view = asked(&[
        ("n1/pod", wildcard(OWN, 1)),
        ("n1/pod", wildcard(STRANGER, 2)),
        // The public controller's own host has the same wildcard certificate.
        (
            "n2/pod",
            wildcard("http://shop.example.test/#at=203.0.113.10:80", 3),
        ),
    ]);
    assert_eq!(view.findings, []);
}

#[test]
fn without_the_hosts_own_answer_the_state_is_unknown_and_never_fine() {
    let view = asked(&[("n1/pod", answer(STRANGER, 200, None, Some(1)))]);
    assert_eq!(view.findings, []);
    assert_eq!(state(&view, "wiki.example.test"), ExposureState::Unknown);
}

#[test]
fn once_is_not_enough() {
    let mut stage = FindingsFixture::new(&two_classes());
    stage.observe(0, "n1/pod", answer(OWN, 200, None, Some(1)));
    stage.observe(0, "n1/pod", answer(STRANGER, 200, None, Some(1)));
    assert_eq!(stage.close(0).findings, []);
}

#[test]
fn what_is_asked_at_a_strangers_front_counts_neither_for_nor_against_front_and_host() {
    let timeout = json!({"target": STRANGER, "channel": "vip", "front": "203.0.113.10:80", "result": "failed",
        "phase": "connect", "kind": "connect_timeout"});
    let mut stage = FindingsFixture::new(&two_classes());
    let mut view = None;
    for round in 0..20 {
        for vantage in ["n1/pod", "n2/pod", "n3/pod"] {
            stage.observe(round, vantage, timeout.clone());
        }
        view = Some(stage.close(round));
    }
    let view = view.unwrap();
    assert!(view.incidents.iter().all(|i| i.state != IncidentState::Open));
    assert_eq!((view.incidents.len(), view.investigations.len()), (0, 0));
}

#[test]
fn pairs_are_asked_for_seldom_by_two_nodes_and_by_everybody_outside_who_can() {
    let topology = topology(&two_classes());
    let config = PlanConfig {
        interval: Micros::from_secs(5),
        timeout: Micros::from_secs(3),
        echo_nonce: "nonce".to_owned(),
    };
    let plan = |vantage: &str| -> Vec<_> {
        let vantage: Vantage = vantage.parse().unwrap();
        assignments(&topology, &config, &vantage)
            .into_iter()
            .filter(|a| a.id.as_str().starts_with("exposure|"))
            .collect()
    };
    let asking = ["n1/pod", "n2/pod", "n3/pod"]
        .iter()
        .filter(|v| plan(v).iter().any(|a| a.target.as_str() == STRANGER))
        .count();
    assert_eq!(asking, 2);
    let internet = plan("internet:laptop");
    let ids: Vec<_> = internet.iter().map(|a| a.target.as_str()).collect();
    assert_eq!(
        ids,
        [
            "http://shop.example.test/#at=203.0.113.10:80",
            "http://wiki.example.test/#at=203.0.113.10:80",
            "https://wiki.example.test/#at=203.0.113.10:443",
        ],
        "private fronts are out of its reach"
    );
    assert!(
        internet
            .iter()
            .all(|a| a.interval == Micros::from_secs(60) && a.dial != DialAddress::Resolve)
    );
}

#[test]
fn without_classes_nothing_is_asked() {
    assert!(topology(&cluster()).exposures().is_empty());
}
