//! Recordings of incidents of the lab: real packets, real probers, a real aggregator.

use super::real_cluster::incidents;

/// The node of the aggregator was disconnected. Only its own prober reported, and what it lost on the way to nodes without Pods
/// counted as restarts of their probers for half a minute. "The network between nodes" explained the rest best.
#[test]
fn a_node_that_is_cut_off_with_the_aggregator_is_named_and_not_the_network() {
    let named = incidents(include_bytes!("../fixtures/lab/aggregator-node.ndjson.gz"));
    assert_eq!(named, [["client n2 (n2)"]]);
}

/// The link between two nodes was cut in the middle of a round, after the echoes between them. One round later, an application
/// behind an ingress Pod at the other end had failed for two rounds, the echoes for one, and "endpoint web-1 fails" was named a
/// round before the link. The recording ends there.
#[test]
fn an_application_behind_a_link_that_may_be_cut_is_not_named() {
    let named = incidents(include_bytes!("../fixtures/lab/far-ingress.ndjson.gz"));
    assert!(named.is_empty(), "{named:?}");
}

/// One of two resolver Pods was on the node that lost power, and every lookup of the other nodes failed for seven rounds: a name
/// outside of the cluster takes eight questions, and each needs the remaining Pod. With two questions a lookup, three quarters of
/// the lookups were expected to fail, and the remaining Pod was named when the node was back.
#[test]
fn a_resolver_pod_is_not_named_for_lookups_of_many_questions() {
    let named = incidents(include_bytes!("../fixtures/lab/dns-node.ndjson.gz"));
    assert_eq!(named, [["bnode n3 (n3)", "node-link n3 (n3)"]]);
}

/// The same incident. "A node is unreachable from other nodes" could not be told from "in both directions", and connections that
/// began at the end of the outage took a second, one retransmission, in both directions. A full conntrack table was named beside it.
#[test]
fn connections_that_open_late_at_the_end_of_an_outage_are_part_of_it() {
    let named = incidents(include_bytes!("../fixtures/lab/dns-node-delayed.ndjson.gz"));
    assert_eq!(named, [["bnode n3 (n3)"]]);
}
