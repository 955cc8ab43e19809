use std::path::Path;

use super::*;

const BALANCER: &str = "203.0.113.10 . tcp . 80";
const EXTERNAL: &str = "external-ingress/ingress-nginx/tcp/http";

/// Endpoints on n1 to n4; the Service's policy is Local.
fn healthy(dataplane: Dataplane) -> Cluster {
    let text = include_str!("../../incidents/quiet-nftables.yaml");
    let incident = crate::incident_file::parse(Path::new("quiet-nftables.yaml"), text).unwrap();
    let mut cluster = Cluster::derive(&incident).unwrap();
    cluster.dataplane = dataplane;
    cluster
}

/// The same with endpoints on n1 and n2 only.
fn after_the_fault(dataplane: Dataplane) -> Cluster {
    let mut cluster = healthy(dataplane);
    for pod in ["ingress-3", "ingress-4"] {
        let op = format!("remove-endpoint: {{service: ingress/ingress-nginx, pod: {pod}}}");
        cluster.apply(&serde_saphyr::from_str(&op).unwrap()).unwrap();
    }
    cluster
}

fn shown(commands: &[GuestCommand]) -> String {
    let lines = commands
        .iter()
        .map(|command| format!("{command}\n{}", command.stdin));
    lines.collect()
}

fn verdict<'a>(table: &'a NodeTable, map: &'static str, key: &str) -> Option<&'a str> {
    table.elements.get(&(map, key.to_owned()))?.as_deref()
}

#[test]
fn the_whole_table_of_a_node_while_healthy() {
    let cluster = healthy(Dataplane::Nftables);
    let node = &cluster.nodes[2];
    let mut commands = prepare(&cluster, node);
    commands.extend(NodeTable::of(&cluster, node).commands_from(&NodeTable::default(), &cluster, node));
    insta::assert_snapshot!(shown(&commands));
}

#[test]
fn the_transaction_after_the_pods_of_a_node_have_gone() {
    let (old, new) = (healthy(Dataplane::Nftables), after_the_fault(Dataplane::Nftables));
    let node = &new.nodes[2];
    let commands = NodeTable::of(&new, node).commands_from(&NodeTable::of(&old, node), &new, node);
    insta::assert_snapshot!(shown(&commands));
}

#[test]
fn where_nothing_changes_there_is_no_transaction() {
    let cluster = healthy(Dataplane::Nftables);
    let table = NodeTable::of(&cluster, &cluster.nodes[0]);
    assert!(
        table
            .commands_from(&table.clone(), &cluster, &cluster.nodes[0])
            .is_empty()
    );
}

#[test]
fn without_a_local_endpoint_pods_are_served_by_the_others_and_the_rest_is_dropped() {
    let cluster = after_the_fault(Dataplane::Nftables);
    let table = NodeTable::of(&cluster, &cluster.nodes[2]);
    assert_eq!(
        verdict(&table, SERVICES, BALANCER),
        Some(&*format!("goto {EXTERNAL}"))
    );
    assert_eq!(verdict(&table, NO_ENDPOINTS, BALANCER), Some("drop"));
    assert_eq!(
        verdict(&table, NO_ENDPOINT_NODE_PORTS, "tcp . 30080"),
        Some("drop")
    );
    let rules = &table.chains[EXTERNAL];
    assert_eq!(
        rules[0],
        "ip saddr 10.244.0.0/16 goto service-ingress/ingress-nginx/tcp/http"
    );
    assert!(
        !rules.iter().any(|rule| rule.contains("goto local-")),
        "{rules:?}"
    );
    let with_one = NodeTable::of(&cluster, &cluster.nodes[0]);
    assert_eq!(verdict(&with_one, NO_ENDPOINTS, BALANCER), None);
    assert!(with_one.chains[EXTERNAL].contains(&"goto local-ingress/ingress-nginx/tcp/http".to_owned()));
}

#[test]
fn without_the_pods_addresses_nothing_leads_a_pod_past_the_policy() {
    let cluster = after_the_fault(Dataplane::NftablesNoClusterCidr);
    let table = NodeTable::of(&cluster, &cluster.nodes[2]);
    let rules = &table.chains[EXTERNAL];
    assert!(
        rules.iter().all(|rule| rule.starts_with("fib saddr type local")),
        "{rules:?}"
    );
    let all = table.chains.values().flatten();
    assert_eq!(all.filter(|rule| rule.contains("ip saddr !=")).count(), 0);
}

#[test]
fn before_its_fix_the_filter_of_what_a_node_sends_comes_before_its_translation() {
    let cluster = healthy(Dataplane::Nftables);
    let priority = |dataplane, hook: &str| {
        let lines = base(dataplane, &cluster.nodes[0]);
        let chain = format!("add chain ip kube-proxy {hook} ");
        let line = lines.iter().find(|line| line.starts_with(&chain)).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|word| *word == "priority").unwrap();
        words[at + 1].parse::<i32>().unwrap()
    };
    for dataplane in [
        Dataplane::Nftables,
        Dataplane::NftablesNoClusterCidr,
        Dataplane::NftablesOld,
    ] {
        let before = priority(dataplane, "filter-output") < priority(dataplane, "nat-output");
        assert_eq!(before, dataplane == Dataplane::NftablesOld, "{dataplane:?}");
    }
}

#[test]
fn a_service_without_any_endpoint_is_refused() {
    let mut cluster = after_the_fault(Dataplane::Nftables);
    cluster.services[0].endpoints.clear();
    let table = NodeTable::of(&cluster, &cluster.nodes[0]);
    for key in [BALANCER, "10.96.0.50 . tcp . 80"] {
        assert_eq!(
            verdict(&table, NO_ENDPOINTS, key),
            Some("goto reject-chain"),
            "{key}"
        );
        assert_eq!(verdict(&table, SERVICES, key), None, "{key}");
    }
}

#[test]
fn a_dual_stack_node_has_the_same_table_for_the_counterparts() {
    let mut cluster = healthy(Dataplane::Nftables);
    cluster.families = crate::incident::AddressFamilies::DualStack;
    let commands = prepare(&cluster, &cluster.nodes[0]);
    let [four, six] = commands.as_slice() else {
        panic!("one transaction for each family: {commands:?}")
    };
    assert_eq!(four.stdin.lines().count(), six.stdin.lines().count());
    for line in [
        "add table ip6 kube-proxy",
        "add set ip6 kube-proxy cluster-ips { type ipv6_addr ; }",
        "add element ip6 kube-proxy nodeport-ips { fd00::c0a8:1 }",
        "add rule ip6 kube-proxy cluster-ips-check ip6 daddr fd00::a60:0/108 drop",
    ] {
        assert!(
            six.stdin.lines().any(|known| known == line),
            "{line}: {}",
            six.stdin
        );
    }
}
