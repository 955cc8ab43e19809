mod direct_probes;

use parallax_model::TargetSpec;
use proptest::prelude::*;

use super::*;
use crate::topology::{
    TopologySpec,
    sampling::{MAX_DIRECT_HOSTS, MAX_HOSTS},
};

fn config() -> PlanConfig {
    PlanConfig {
        interval: Micros::from_secs(5),
        timeout: Micros::from_secs(3),
        echo_nonce: "nonce".to_owned(),
    }
}

/// A cluster of `nodes` nodes with a prober each, an ingress Pod on the first `entries` of them, and `hosts`
/// hosts.
fn cluster(nodes: usize, entries: usize, hosts: usize) -> Topology {
    let node = |i: usize| {
        serde_json::json!({"name": format!("n{i}"),
            "prober": {"pod": format!("p{i}"), "address": format!("10.{}.{}.5:9095", i / 200, i % 200)}})
    };
    let endpoint = |i: usize| {
        serde_json::json!({"pod": format!("ingress-{i}"), "node": format!("n{i}"),
            "address": format!("10.{}.{}.10", i / 200, i % 200)})
    };
    let spec = serde_json::json!({
        "nodes": (0..nodes).map(node).collect::<Vec<_>>(),
        "services": [{"namespace": "ingress", "name": "nginx", "clusterIPs": ["10.96.0.50"],
            "loadBalancer": [{"ip": "203.0.113.10"}],
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": (0..entries).map(endpoint).collect::<Vec<_>>()}],
        "ingresses": [{"namespace": "shop", "name": "shop", "service": "ingress/nginx",
            "hosts": (0..hosts).map(|i| format!("h{i}.example.test")).collect::<Vec<_>>()}],
    });
    serde_json::from_value::<TopologySpec>(spec)
        .unwrap()
        .try_into()
        .unwrap()
}

fn plan_of(topology: &Topology, node: usize) -> Vec<Assignment> {
    assignments(
        topology,
        &config(),
        &Vantage::pod(format!("n{node}").parse().unwrap()),
    )
}

fn ids(plan: &[Assignment]) -> Vec<&str> {
    plan.iter().map(|a| a.id.as_str()).collect()
}

/// Returns the number of direct probes per entry, and the maximum per vantage.
fn direct_probe_counts(topology: &Topology, nodes: usize) -> (BTreeMap<String, usize>, usize) {
    let mut by_entry = BTreeMap::new();
    let mut most = 0;
    for node in 0..nodes {
        let plan = plan_of(topology, node);
        let direct: Vec<_> = plan.iter().filter(|a| a.channel == Channel::Direct).collect();
        most = most.max(direct.len());
        for assignment in direct {
            let pod = assignment.entry.as_ref().unwrap().pod.to_string();
            *by_entry.entry(pod).or_insert(0) += 1;
        }
    }
    (by_entry, most)
}

/// A request as the engine creates it, given as JSON so that its wire format is tested too.
fn request(
    vantage: &str,
    id: &str,
    channel: &str,
    target: &str,
    to: &serde_json::Value,
) -> crate::requests::ProbeRequest {
    serde_json::from_value(serde_json::json!({
        "id": id, "subject": {"type": "front", "name": "203.0.113.10:80"}, "vantage": vantage, "channel": channel,
        "target": target, "to": to, "separates": [], "reason": "a test", "bits": 0.5, "since": 0,
    }))
    .unwrap()
}

/// A request to look up the name of the first host.
fn lookup_request(id: &str) -> crate::requests::ProbeRequest {
    let name = serde_json::json!({"name": "h0.example.test"});
    request("n2/pod", id, "dns", "http://h0.example.test/", &name)
}

/// The probes that the requests add to the plan of a vantage.
fn requested_probes(asks: &[crate::requests::ProbeRequest]) -> Vec<ProbeSpec> {
    let vantage = Vantage::pod("n2".parse().unwrap());
    let plan = with_requests(&cluster(3, 1, 1), &config(), &vantage, asks);
    let requested = plan.into_iter().filter(|assignment| assignment.id.is_requested());
    requested.map(|assignment| assignment.probe).collect()
}

#[track_caller]
fn dns_probe(probe: &ProbeSpec) -> &parallax_model::DnsProbe {
    match probe {
        ProbeSpec::Dns(question) => question,
        other => panic!("expected a DNS probe, got {other:?}"),
    }
}

#[test]
fn of_an_entry_on_every_node_each_vantage_dials_a_share_and_each_entry_has_two_clients() {
    let nodes = 1_000;
    let (by_entry, most) = direct_probe_counts(&cluster(nodes, nodes, 1), nodes);
    assert_eq!(by_entry.len(), nodes, "every entry is dialled");
    assert!(by_entry.values().all(|clients| *clients >= 2));
    assert!(most <= 64, "{most} by one vantage");
}

#[test]
fn in_a_small_cluster_every_node_asks_for_everything_and_dials_every_entry_and_peer() {
    let topology = cluster(3, 1, 1);
    assert_eq!(
        ids(&plan_of(&topology, 2)),
        [
            "direct|http://h0.example.test/|ingress-0",
            "mesh|n0",
            "mesh|n1",
            "vip|http://10.96.0.50:80/",
            "vip|http://h0.example.test/",
        ]
    );
}

#[test]
fn names_are_asked_over_tcp_and_echoes_for_many_bytes() {
    let mut tcp = lookup_request("ask|dns|h|name|!tcp");
    tcp.variant = crate::requests::ProbeVariant::DnsOverTcp;
    let mut large = request(
        "n2/pod",
        "ask|mesh|n1|!size=8192",
        "mesh",
        "echo://n1",
        &serde_json::json!({"peer": "n1"}),
    );
    large.variant = crate::requests::ProbeVariant::Size(8_192);
    let probes = requested_probes(&[tcp, large]);
    let question = dns_probe(&probes[0]);
    assert_eq!(question.name.as_str(), "h0.example.test");
    assert_eq!(question.transport, parallax_model::DnsTransport::Tcp);
    let size = Some(8_192);
    let nonce = "nonce".to_owned();
    assert_eq!(probes[1], ProbeSpec::Echo { nonce, size });
}

/// Found on a real cluster: `ledger.shop.svc` exists with a domain of the search list only, and the requested lookups of it as it is
/// were named as a broken name.
#[test]
fn requested_lookups_use_the_search_list_like_the_probe_of_the_target() {
    let probes = requested_probes(&[lookup_request("ask|dns|h|name")]);
    assert_eq!(
        dns_probe(&probes[0]).search,
        Some(parallax_model::SearchManner::Glibc)
    );
}

#[test]
fn a_moved_endpoint_changes_only_the_direct_probes_of_that_endpoint() {
    let (before, after) = (cluster(4, 2, 1), cluster(4, 1, 1));
    let revision = PlanRevision { epoch: 1, number: 2 };
    let change = diff(&plan_of(&before, 3), &plan_of(&after, 3), revision);
    let id = "direct|http://h0.example.test/|ingress-1".parse().unwrap();
    assert_eq!(change, [PlanLine::Remove { revision, id }]);
}

#[test]
fn a_large_cluster_asks_from_the_hosts_of_entries_and_a_sample_that_one_node_more_hardly_changes() {
    let asking = |topology: &Topology, nodes: usize, host: usize| -> BTreeSet<usize> {
        let id = format!("vip|http://h{host}.example.test/");
        (0..nodes)
            .filter(|n| ids(&plan_of(topology, *n)).contains(&id.as_str()))
            .collect()
    };
    let (before, after) = (cluster(110, 2, 8), cluster(111, 2, 8));
    let mut samples = BTreeSet::new();
    for host in 0..8 {
        let (old, new) = (asking(&before, 110, host), asking(&after, 111, host));
        // Both nodes with an entry, and ⌈√110⌉ = ⌈√111⌉ = 11 others.
        assert_eq!((old.len(), new.len()), (13, 13));
        assert!(old.symmetric_difference(&new).count() <= 2, "{old:?} {new:?}");
        samples.insert(old);
    }
    assert!(
        samples.len() > 4,
        "targets must not share one sample: {samples:?}"
    );
}

#[test]
fn a_vantage_outside_asks_as_a_user_would_and_nothing_else() {
    let topology = cluster(3, 1, 1);
    let plan = assignments(&topology, &config(), &"internet:laptop".parse().unwrap());
    assert_eq!(ids(&plan), ["vip|http://h0.example.test/"]);
}

#[test]
fn who_must_get_no_answer_asks_for_silence_and_an_address_that_must_be_silent_is_asked_by_all_who_reach_it() {
    let mut spec = cluster(2, 1, 0).spec().clone();
    spec.targets = serde_json::from_value(serde_json::json!([{"url": "http://wiki.example.test/",
        "mustNotAnswerAt": ["10.0.0.8", "203.0.113.10"], "mustNotAnswerFrom": ["internet"]}]))
    .unwrap();
    let topology = Topology::try_from(spec).unwrap();
    let planned = |vantage: &str| {
        let plan = assignments(&topology, &config(), &vantage.parse().unwrap());
        let own = plan.iter().filter(|a| a.id.as_str().contains("wiki"));
        own.map(|a| a.id.as_str().replace("http://wiki.example.test/", ""))
            .collect::<Vec<_>>()
    };
    let silent_checks = [
        "forbidden|#silent-at=10.0.0.8:80",
        "forbidden|#silent-at=203.0.113.10:80",
    ];
    assert_eq!(planned("n0/pod"), [&silent_checks[..], &["vip|"]].concat());
    assert_eq!(planned("vpc:bastion"), [&silent_checks[..], &["vip|"]].concat());
    assert_eq!(
        planned("internet:laptop"),
        [
            "forbidden|#silent-at=203.0.113.10:80",
            "forbidden|#silent-from=internet"
        ],
        "the private address is unreachable from the internet, and internet users must get no response"
    );
}

#[test]
fn a_dns_target_is_asked_on_its_own_channel() {
    let spec = TopologySpec {
        targets: vec![TargetSpec::new("dns://a.example.test")],
        ..Default::default()
    };
    let topology = Topology::try_from(spec)
        .unwrap()
        .with_vantage("n1/pod".parse().unwrap());
    let plan = assignments(&topology, &config(), &"n1/pod".parse().unwrap());
    assert_eq!(ids(&plan), ["dns|dns://a.example.test"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_entry_is_dialled_by_two_clients_and_every_placement_has_three(
        nodes in 3usize..120, entries in 1usize..6, hosts in 1usize..4,
    ) {
        let entries = entries.min(nodes);
        let topology = cluster(nodes, entries, hosts);
        let plans: Vec<_> = (0..nodes).map(|n| plan_of(&topology, n)).collect();
        for entry in 0..entries {
            let id = format!("direct|http://h0.example.test/|ingress-{entry}");
            let dialling = plans.iter().filter(|p| ids(p).contains(&id.as_str())).count();
            prop_assert!(dialling >= 2, "{id} by {dialling}");
        }
        let asking = |range: std::ops::Range<usize>| {
            range.filter(|n| ids(&plans[*n]).contains(&"vip|http://h0.example.test/")).count()
        };
        prop_assert_eq!(asking(0..entries), entries);
        prop_assert!(asking(entries..nodes) >= (nodes - entries).min(3));
    }

    #[test]
    fn the_mesh_is_mutual_and_bounded(nodes in 2usize..60) {
        let topology = cluster(nodes, 1, 1);
        let peers: Vec<BTreeSet<_>> =
            (0..nodes).map(|n| mesh_peers(&topology, &format!("n{n}").parse().unwrap())).collect();
        for (n, of_n) in peers.iter().enumerate() {
            prop_assert!(!of_n.is_empty() && of_n.len() <= 8);
            for peer in of_n {
                let peer: usize = peer.as_str()[1..].parse().unwrap();
                let mutual = peers[peer].iter().any(|p| p.as_str() == format!("n{n}"));
                prop_assert!(mutual, "n{} has a peer that does not know it", n);
            }
        }
    }

    #[test]
    fn applying_a_difference_gives_the_new_plan(a in 1usize..4, b in 1usize..4, hosts in 1usize..4) {
        let (old, new) = (plan_of(&cluster(4, a, hosts), 0), plan_of(&cluster(4, b, hosts.max(2)), 0));
        let mut plan: BTreeMap<_, _> = old.iter().map(|a| (a.id.clone(), a.clone())).collect();
        for line in diff(&old, &new, PlanRevision::default()) {
            match line {
                PlanLine::Upsert { assignment, .. } => { plan.insert(assignment.id.clone(), assignment); }
                PlanLine::Remove { id, .. } => { plan.remove(&id); }
                other => prop_assert!(false, "unexpected {other:?}"),
            }
        }
        prop_assert_eq!(plan.into_values().collect::<Vec<_>>(), new);
    }
}
