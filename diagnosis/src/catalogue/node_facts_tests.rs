//! Each fact moves its region and is logged with its multiplier, but is not a verdict.

use parallax_model::KindClass;
use serde_json::{Value, json};

use super::*;
use crate::{
    catalogue::{facts, rank},
    ids::{NodeIx, class_index},
    regions::Region,
    topology::TopologySpec,
};

/// Three nodes, an ingress on n1, policy Local, IPVS; with `facts` of n1 and n2.
fn topology(mode: &str, n1: &Value, n2: &Value) -> Topology {
    let spec: TopologySpec = serde_json::from_value(json!({
        "proxyMode": mode,
        "nodes": [{"name": "n1", "facts": n1}, {"name": "n2", "facts": n2}, {"name": "n3"}],
        "services": [{
            "namespace": "ingress", "name": "nginx", "type": "LoadBalancer", "healthCheckNodePort": 30123,
            "loadBalancer": [{"ip": "203.0.113.10"}], "externalTrafficPolicy": "Local",
            "ports": [{"port": 80, "targetPort": 8080}],
            "endpoints": [{"pod": "ingress-1", "address": "10.244.1.10", "node": "n1"}],
        }],
    }))
    .unwrap();
    Topology::try_from(spec).unwrap()
}

/// Returns the facts that move a region of n2 (or of a kind) at the balancer's front: multiplier and text.
fn moved(topology: &Topology, region: impl Fn(NodeIx) -> Region) -> Vec<(f64, String)> {
    let mut world = NameRegistry::default();
    for node in topology.nodes().keys() {
        world.nodes.intern(node);
    }
    let n2 = world.nodes.get(&"n2".parse().unwrap()).unwrap();
    let front = topology.fronts().keys().next().copied();
    facts(topology, (front.as_ref(), None), &world, false)
        .into_iter()
        .filter(|fact| fact.applies(region(n2)))
        .map(|fact| (fact.fact.multiplier, fact.fact.text))
        .collect()
}

fn factors(moved: &[(f64, String)]) -> Vec<f64> {
    moved.iter().map(|(factor, _)| *factor).collect()
}

fn ranked(topology: &Topology, region: RegionKind, members: &[&str]) -> Vec<(&'static str, f64)> {
    let (_, info) = topology.fronts().iter().next().unwrap();
    let situation = CauseContext {
        info: Some(info),
        service: topology.service(&info.service),
        members: members.iter().map(|m| (*m).to_owned()).collect(),
        ..CauseContext::new(topology)
    };
    rank(region, &situation)
        .into_iter()
        .map(|(cause, p)| (cause.id, p))
        .collect()
}

fn share(ranked: &[(&str, f64)], id: &str) -> f64 {
    ranked
        .iter()
        .find(|(other, _)| *other == id)
        .map_or(0.0, |(_, p)| *p)
}

const NONE: fn() -> Value = || json!({});

#[test]
fn a_full_conntrack_table_makes_its_node_suspect_and_tells_the_cause_from_others() {
    let full = topology("ipvs", &NONE(), &json!({"conntrackPercent": 97}));
    let effects = moved(&full, Region::Client);
    assert_eq!(
        effects,
        [(5.0, "the conntrack table of n2 is 97 % full".to_owned())]
    );
    assert_eq!(moved(&full, Region::Bnode).len(), 1);
    assert!(moved(&full, |_| Region::Vip).is_empty(), "no other region");
    let half = topology("ipvs", &NONE(), &json!({"conntrackPercent": 50}));
    assert!(moved(&half, Region::Client).is_empty());
    let f27 = |topology| share(&ranked(topology, RegionKind::Client, &["n2"]), "F27");
    let unknown = topology("ipvs", &NONE(), &NONE());
    assert!(
        f27(&full) > 0.7 && f27(&half) < 0.05,
        "{} {}",
        f27(&full),
        f27(&half)
    );
    assert!((0.1..0.5).contains(&f27(&unknown)), "{}", f27(&unknown));
}

/// On a real cluster, a node without power was named as one with a full table: its neighbours no longer resolved its address.
#[test]
fn what_is_reported_as_unreachable_was_not_dropped_by_a_conntrack_table() {
    let unknown = topology("ipvs", &NONE(), &NONE());
    let f27 = |class: KindClass| {
        let mut situation = CauseContext {
            region: RegionKind::Bnode,
            members: vec!["n2".to_owned()],
            ..CauseContext::new(&unknown)
        };
        situation.failures_by_class[class_index(class)] = 20.0;
        let ranked = rank(RegionKind::Bnode, &situation);
        let ranked: Vec<_> = ranked.into_iter().map(|(cause, p)| (cause.id, p)).collect();
        share(&ranked, "F27")
    };
    let (unreachable, dropped) = (f27(KindClass::Unreachable), f27(KindClass::Timeout));
    assert!(unreachable < 0.05 && dropped > 0.1, "{unreachable} {dropped}");
}

#[test]
fn a_kube_proxy_that_counts_other_endpoints_than_the_slices_or_is_ill_makes_its_node_suspect() {
    let stale = topology("ipvs", &NONE(), &json!({"localEndpoints": {"ingress/nginx": 2}}));
    let effects = moved(&stale, Region::ClientVip);
    assert_eq!(
        effects,
        [(
            10.0,
            "kube-proxy on n2 has 2 local endpoints of Service ingress/nginx, the EndpointSlices have 0"
                .to_owned()
        )]
    );
    let right = topology(
        "ipvs",
        &json!({"localEndpoints": {"ingress/nginx": 1}}),
        &json!({"localEndpoints": {"ingress/nginx": 0}}),
    );
    assert!(moved(&right, Region::ClientVip).is_empty());
    let ill = topology("ipvs", &NONE(), &json!({"proxyHealthy": false}));
    assert_eq!(factors(&moved(&ill, Region::ClientVip)), [5.0]);
}

#[test]
fn a_balancer_address_on_kube_ipvs0_makes_nolocal_likelier_and_its_absence_less_so() {
    let with = |addresses: Value| topology("ipvs", &NONE(), &json!({"ipvsAddresses": addresses}));
    let multipliers = |topology: &Topology| -> Vec<f64> {
        moved(topology, |_| Region::NoLocal)
            .into_iter()
            .map(|(multiplier, _)| multiplier)
            .collect()
    };
    assert_eq!(multipliers(&with(json!(["203.0.113.10"]))), [2.0, 5.0]);
    assert_eq!(multipliers(&with(json!(["10.96.0.1"]))), [0.2, 5.0]);
    assert_eq!(multipliers(&topology("ipvs", &NONE(), &NONE())), [5.0]);
    let f1 = |topology: &Topology| share(&ranked(topology, RegionKind::NoLocal, &[]), "F1");
    assert!(f1(&with(json!(["203.0.113.10"]))) > f1(&with(json!(["10.96.0.1"]))) + 0.05);
    let unassigned = topology("iptables", &NONE(), &json!({"ipvsAddresses": []}));
    assert_eq!(
        multipliers(&unassigned),
        [0.2],
        "without IPVS an empty interface says nothing"
    );
}

#[test]
fn packets_dropped_for_their_source_tell_i7_from_a_flaky_front() {
    let drops = |reported: bool| topology("ipvs", &NONE(), &json!({"dropsOwnSources": reported}));
    for region in [Region::OutsideAll, Region::OutsideFrontNode] {
        let effects = moved(&drops(true), |_| region);
        assert_eq!(effects.len(), 1);
        assert!(effects[0].1.contains("in_martian_src increases"), "{effects:?}");
        assert!(moved(&drops(false), |_| region).is_empty());
    }
    assert!(
        moved(&drops(true), |_| Region::Vip).is_empty(),
        "a flaky front gains nothing from it"
    );
    let iptables = topology("iptables", &NONE(), &json!({"dropsOwnSources": true}));
    assert!(
        moved(&iptables, |_| Region::OutsideAll).is_empty(),
        "no address is bound there"
    );
}

#[test]
fn a_strict_reverse_path_filter_and_hairpin_mode_move_what_they_break() {
    let strict = |reported: bool| topology("ipvs", &json!({"strictRpFilter": reported}), &NONE());
    assert_eq!(factors(&moved(&strict(true), |_| Region::SameVip)), [2.0]);
    assert!(moved(&strict(false), |_| Region::SameVip).is_empty());
    let f23 = |topology| share(&ranked(topology, RegionKind::Same, &[]), "F23");
    assert!(f23(&strict(true)) > f23(&strict(false)));
    let hairpin = |reported: bool| {
        moved(&topology("ipvs", &json!({"hairpin": reported}), &NONE()), |_| {
            Region::SelfVip
        })
    };
    assert_eq!((hairpin(false)[0].0, hairpin(true)[0].0), (3.0, 0.2));
    let without_hairpin = topology("ipvs", &NONE(), &json!({"hairpin": false}));
    assert!(
        moved(&without_hairpin, |_| Region::SelfVip).is_empty(),
        "n2 has no endpoint of it"
    );
}

#[test]
fn without_facts_of_nodes_nothing_moves() {
    let silent = topology("ipvs", &NONE(), &NONE());
    for region in [Region::Client, Region::ClientVip, Region::Bnode] {
        assert!(moved(&silent, region).is_empty());
    }
    for region in [Region::OutsideAll, Region::SameVip, Region::SelfVip, Region::Same] {
        assert!(moved(&silent, |_| region).is_empty());
    }
}
