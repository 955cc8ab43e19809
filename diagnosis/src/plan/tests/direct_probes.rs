//! Direct probes of endpoints, and requested probes.

use super::*;

#[test]
fn fifty_hosts_on_one_front_do_not_multiply_the_direct_probes() {
    let topology = cluster(4, 2, 50);
    let plan = plan_of(&topology, 0);
    let count = |channel| plan.iter().filter(|a| a.channel == channel).count();
    assert_eq!(
        (count(Channel::Vip), count(Channel::Direct), count(Channel::Mesh)),
        (51, MAX_DIRECT_HOSTS * 2, 3)
    );
}

#[test]
fn an_entry_on_every_node_does_not_have_every_node_ask() {
    for nodes in [100, 400] {
        let topology = cluster(nodes, nodes, 1);
        let asking = (0..nodes)
            .filter(|node| {
                let plan = plan_of(&topology, *node);
                ids(&plan).contains(&"vip|http://h0.example.test/")
            })
            .count();
        assert_eq!(asking, MAX_HOSTS, "of {nodes} nodes");
    }
}

#[test]
fn what_is_asked_of_a_vantage_stands_beside_its_base_plan_and_goes_again() {
    let topology = cluster(3, 1, 1);
    let host = "http://h0.example.test/";
    let asks = [
        request(
            "n2/pod",
            "ask|direct|h|ingress-0",
            "direct",
            host,
            &serde_json::json!({"entry": "ingress-0"}),
        ),
        request(
            "n2/pod",
            "ask|proxied|h|front",
            "proxied",
            host,
            &serde_json::json!({"front": "203.0.113.10:80"}),
        ),
        request(
            "n1/pod",
            "ask|mesh|n2",
            "mesh",
            "echo://n2",
            &serde_json::json!({"peer": "n2"}),
        ),
    ];
    let vantage = Vantage::pod("n2".parse().unwrap());
    let base = assignments(&topology, &config(), &vantage);
    let plan = with_requests(&topology, &config(), &vantage, &asks);
    let requested: Vec<&Assignment> = plan.iter().filter(|a| a.id.is_requested()).collect();
    assert_eq!(requested.len(), 2);
    assert_eq!(
        requested[0].dial,
        DialAddress::Address("10.0.0.10:8080".parse().unwrap())
    );
    assert_eq!(requested[0].entry.as_ref().unwrap().pod.as_str(), "ingress-0");
    assert_eq!(
        requested[1].dial,
        DialAddress::Address("203.0.113.10:80".parse().unwrap())
    );
    assert_eq!(requested[1].channel, Channel::Proxied);
    let revision = PlanRevision { epoch: 1, number: 1 };
    assert_eq!(diff(&base, &plan, revision).len(), 2);
    let after = with_requests(&topology, &config(), &vantage, &[]);
    let gone = diff(&plan, &after, revision);
    assert!(
        gone.iter()
            .all(|line| matches!(line, PlanLine::Remove { id, .. } if id.is_requested())),
        "{gone:?}"
    );
}

/// Ports 80 and 443 of a balancer with a host served on both; they map to these ports of the endpoints.
fn with_tls(http: u16, https: u16) -> Topology {
    let spec = serde_json::json!({
        "nodes": [{"name": "n0", "prober": {"pod": "p0", "address": "10.0.0.5:9095"}}],
        "services": [{"namespace": "ingress", "name": "nginx", "clusterIPs": ["10.96.0.50"],
            "loadBalancer": [{"ip": "203.0.113.10"}],
            "ports": [{"name": "web", "port": 80, "targetPort": http}, {"name": "web-tls", "port": 443, "targetPort": https}],
            "endpoints": [{"pod": "ingress-0", "node": "n0", "address": "10.0.0.10"}]}],
        "ingresses": [{"namespace": "shop", "name": "shop", "service": "ingress/nginx", "tls": true,
            "hosts": ["h.example.test"]}],
    });
    let spec = serde_json::from_value::<TopologySpec>(spec).unwrap();
    spec.try_into().unwrap()
}

#[test]
fn endpoints_are_not_asked_for_the_tls_that_their_balancer_ends() {
    let http = "direct|http://h.example.test/|ingress-0";
    let https = "direct|https://h.example.test/|ingress-0";
    let ended = plan_of(&with_tls(8080, 8080), 0);
    assert!(
        ids(&ended).contains(&http) && !ids(&ended).contains(&https),
        "{:?}",
        ids(&ended)
    );
    assert!(
        ids(&ended).contains(&"vip|https://h.example.test/"),
        "users still connect over TLS"
    );
    let passed_on = plan_of(&with_tls(8080, 8443), 0);
    assert!(ids(&passed_on).contains(&http) && ids(&passed_on).contains(&https));

    let vantage = Vantage::pod("n0".parse().unwrap());
    let question = request(
        "n0/pod",
        "ask|direct|h|ingress-0",
        "direct",
        "https://h.example.test/",
        &serde_json::json!({"entry": "ingress-0"}),
    );
    let requested = |topology: &Topology| {
        let plan = with_requests(topology, &config(), &vantage, std::slice::from_ref(&question));
        plan.iter().filter(|a| a.id.is_requested()).count()
    };
    assert_eq!(
        (requested(&with_tls(8080, 8080)), requested(&with_tls(8080, 8443))),
        (0, 1)
    );
    let run = run_assignments(
        &with_tls(8080, 8080),
        &config(),
        &vantage,
        &"https://h.example.test/".parse().unwrap(),
        true,
    );
    assert!(
        !run.iter().any(|a| a.channel == Channel::Direct),
        "{:?}",
        ids(&run)
    );
}

#[test]
fn an_ask_about_an_endpoint_that_is_gone_is_left_out() {
    let topology = cluster(3, 1, 1);
    let asks = [request(
        "n2/pod",
        "ask|direct|h|ingress-1",
        "direct",
        "http://h0.example.test/",
        &serde_json::json!({"entry": "ingress-1"}),
    )];
    let vantage = Vantage::pod("n2".parse().unwrap());
    assert_eq!(
        with_requests(&topology, &config(), &vantage, &asks),
        assignments(&topology, &config(), &vantage)
    );
}
