//! Hazards that a node reports of itself.

use super::*;

#[test]
fn a_node_that_says_itself_that_something_is_wrong_is_a_hazard_before_anybody_fails() {
    let mut spec = ingress(3, &[1], "Cluster");
    spec["proxyMode"] = json!("ipvs");
    spec["nodes"][1]["facts"] = json!({"conntrackPercent": 90, "localEndpoints": {"ingress/nginx": 1}});
    spec["nodes"][2]["facts"] =
        json!({"conntrackPercent": 50, "dropsOwnSources": true, "proxyHealthy": false});
    let conntrack = only(&spec, "conntrack");
    assert_eq!(conntrack.affected.nodes, vec!["n2".parse().unwrap()]);
    assert_eq!(conntrack.evidence, ["the conntrack table of n2 is 90 % full"]);
    let proxy = only(&spec, "stale-proxy");
    assert_eq!(
        proxy.evidence,
        [
            "kube-proxy on n2 has 1 endpoint of Service ingress/nginx on that node, the EndpointSlices have 0",
            "kube-proxy on n3 reports that it is not healthy"
        ]
    );
    let own = only(&spec, "own-sources");
    assert!(own.evidence[0].contains("increases on n3"), "{own:?}");
    for hazard in [conntrack, proxy, own] {
        assert!(
            hazard
                .remedies
                .iter()
                .all(|r| !r.trade_off.is_empty() && r.ineffective_when.is_some())
        );
    }
}

#[test]
fn a_node_whose_facts_are_as_they_should_be_is_none() {
    let mut spec = ingress(3, &[1], "Cluster");
    let well = |n: u32| {
        json!({"conntrackPercent": 50, "proxyHealthy": true, "dropsOwnSources": false,
            "localEndpoints": {"ingress/nginx": n, "shop/gone": 7}})
    };
    spec["nodes"][0]["facts"] = well(1);
    spec["nodes"][1]["facts"] = well(0);
    let found = of(&spec);
    for kind in ["conntrack", "stale-proxy", "own-sources"] {
        assert!(!labels(&found).contains(&kind), "{kind}");
    }
}

#[test]
fn while_endpoints_drain_a_count_that_differs_is_no_sign_of_a_stale_kube_proxy() {
    let mut spec = ingress(2, &[1], "Cluster");
    spec["services"][0]["endpoints"][0]["ready"] = json!(false);
    spec["services"][0]["endpoints"][0]["serving"] = json!(true);
    spec["services"][0]["endpoints"][0]["terminating"] = json!(true);
    spec["nodes"][0]["facts"] = json!({"localEndpoints": {"ingress/nginx": 1}});
    assert!(!labels(&of(&spec)).contains(&"stale-proxy"));
}
