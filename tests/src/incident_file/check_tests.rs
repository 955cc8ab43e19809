use std::path::Path;

use super::super::parse;

const I1: &str = include_str!("../../incidents/i1.yaml");

fn error_of(text: &str) -> String {
    parse(Path::new("x.yaml"), text).unwrap_err().to_string()
}

fn with(from: &str, to: &str) -> String {
    assert!(I1.contains(from), "{from:?} is not in i1.yaml any more");
    I1.replacen(from, to, 1)
}

#[test]
fn every_shipped_incident_is_sound_and_named_like_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("incidents");
    let ids = super::super::list(&folder).unwrap();
    for id in ids {
        super::super::load(&folder, &id).unwrap();
    }
}

#[test]
fn an_unknown_field_is_refused_with_file_and_line() {
    let text = with(
        "    type: LoadBalancer\n",
        "    type: LoadBalancer\n    externalIPs: []\n",
    );
    let line = text.lines().position(|l| l.contains("externalIPs")).unwrap() + 1;
    let error = error_of(&text);
    assert!(error.starts_with(&format!("x.yaml:{line}: ")), "{error}");
    assert!(error.contains("externalIPs"), "{error}");
}

#[test]
fn a_service_without_an_address_and_one_that_comes_later_are_of_type_cluster_ip() {
    let headless = error_of(&with("    clusterIP: 10.96.0.50\n", "    clusterIP: None\n"));
    assert!(
        headless.contains("topology.services[0].clusterIP: expected an address"),
        "{headless}"
    );
    let no_address = error_of(&with("    clusterIP: 10.96.0.50\n", "    clusterIP: none\n"));
    assert!(
        no_address.contains("expected an IPv4 address or None"),
        "{no_address}"
    );
    let absent = error_of(&with(
        "    type: LoadBalancer\n",
        "    type: LoadBalancer\n    absent: true\n",
    ));
    assert!(absent.contains("topology.services[0].absent"), "{absent}");
    let unbound = "topology:\n  resolvers: [{pod: dns, node: n1, software: unbound, cacheSeconds: 30}]\n";
    let cache = error_of(&with("topology:\n", unbound));
    assert!(cache.contains("topology.resolvers[0].cacheSeconds"), "{cache}");
}

#[test]
fn what_a_lab_of_this_sort_does_not_have_cannot_happen_in_it() {
    let gone = "  - remove-endpoint: {service: ingress/ingress-nginx, pod: ingress-3}";
    let of = |dataplane: &str, op: &str| {
        let text = with("dataplane: ipvs-old", &format!("dataplane: {dataplane}"));
        assert!(text.contains(gone));
        error_of(&text.replacen(gone, &format!("  - {op}"), 1))
    };
    let clock = of("nftables", "step-clock: {seconds: 5}");
    assert!(
        clock.contains("faults[0].ops[0]: step-clock sets the clock of the whole machine"),
        "{clock}"
    );
    let away = of("ipvs-old", "api-server-away: {}");
    assert!(
        away.contains("expected topology.publishedBy: api-server"),
        "{away}"
    );
    let text = with("topology:\n", "topology:\n  publishedBy: api-server\n");
    let back = error_of(&text.replacen(gone, "  - api-server-back: {}", 1));
    assert!(
        back.contains("expected api-server-away first, then api-server-back"),
        "{back}"
    );
}

#[test]
fn a_contradiction_names_file_and_field() {
    for (from, to, expected) in [
        (
            "timeoutMs: 1500",
            "timeoutMs: 9000",
            "x.yaml:11: timeoutMs: expected 1 to intervalMs (2000), got 9000",
        ),
        (
            "pod: ingress-2, node: n2",
            "pod: ingress-2, node: n9",
            "topology.services[0].endpoints[1].node: unknown node n9",
        ),
        (
            "pod: ingress-2, node: n2",
            "pod: ingress-1, node: n2",
            "endpoints[1].pod: the name \"ingress-1\" is already in use",
        ),
        (
            "clusterIP: 10.96.0.50",
            "clusterIP: 10.244.0.50",
            "services[0].clusterIP: expected an address of 10.96.0.0/12",
        ),
        (
            "    loadBalancerIP: 203.0.113.10\n",
            "",
            "loadBalancerIP: expected exactly with type LoadBalancer",
        ),
        (
            "front: 203.0.113.10:80",
            "front: 203.0.113.10:81",
            "verdict.front: 203.0.113.10:81 is not an address",
        ),
        (
            "members: 1",
            "members: 2",
            "verdict.members: expected at most the 1 hosts",
        ),
        (
            "pod: ingress-4}\n\n",
            "pod: ingress-9}\n\n",
            "faults[0].ops[1]: the Service ingress/ingress-nginx has no Pod ingress-9",
        ),
        (
            "from: [n3, n4]",
            "from: [n3, n7]",
            "expected.packets.faulty[1].from: unknown node n7",
        ),
        (
            "{name: n2, zone: z2}",
            "{name: N2, zone: z2}",
            "topology.nodes[1].name: expected at most 63 lower-case",
        ),
    ] {
        let error = error_of(&with(from, to));
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}

#[test]
fn every_prober_needs_a_way_to_the_aggregator_and_every_node_one_to_a_resolver() {
    let text = include_str!("../../incidents/aggregator-link.yaml");
    for (from, to, expected) in [
        (
            "  aggregator: n2",
            "  aggregator: n9",
            "topology: unknown node n9",
        ),
        (
            "  aggregator: n2",
            "  aggregator: n2\n  vantages: [\"internet:home\"]",
            "topology.aggregator: expected no `vantages` with it",
        ),
        (
            "node: n1}\n  - {pod: coredns-2, node: n3}",
            "node: n1, serves: [n1]}\n  - {pod: coredns-2, node: n3, serves: [n2]}",
            "topology.resolvers: expected at least one without `serves`",
        ),
        (
            "  - restore-link: {between: [n2, n4]}",
            "  - restore-link: {between: [n2, n3]}",
            "repair.ops[0]: the link between n2 and n3 is not cut",
        ),
        ("pod: coredns-1", "pod: aggregator", "is already in use"),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed, "{from}");
        let error = error_of(&changed);
        assert!(error.contains(expected), "{from} -> {to}: {error}");
    }
}
