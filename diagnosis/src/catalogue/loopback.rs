//! Traffic within a node or from a Pod to itself: the mirror image of traffic policy `Local`.

use super::{Cause, CauseContext, Clause, Wording, remedy};
use crate::{inference::kind_profiles, regions::RegionKind, topology::ProxyMode, verdict::Remedy};

/// A balancer that selects by the client's address returns all connections of one node to it, and those of no other.
const SAME_VIP: &[RegionKind] = &[RegionKind::SameVip, RegionKind::LbOwnNode, RegionKind::ClientVip];

/// Factor for the clients of a single node: there, other causes are as likely.
fn of_region(s: &CauseContext<'_>) -> f64 {
    match s.region {
        RegionKind::ClientVip if s.is_forwarded_to_balancer() => 0.3,
        RegionKind::ClientVip => 0.0,
        _ => 1.0,
    }
}

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F5",
        title: "load balancer loopback: client IP preservation breaks same-node connections (AWS NLB)",
        regions: SAME_VIP,
        profile: |_| kind_profiles::LOOPBACK,
        weight: |s| of_region(s) * if s.leaves_the_node() { 1.0 } else { 0.05 },
        mechanism,
        remedies: |s| {
            let mut all = vec![remedy(
                "disable client IP preservation on the target group (preserve_client_ip.enabled=false)",
                None,
                "endpoints see the load balancer's address; PROXY protocol v2 can still carry the client's",
            )
.with_ineffective_when("the target group always preserves the client IP (UDP, for example)")];
            all.extend(loopback_remedies(s));
            all
        },
    },
    Cause {
        id: "F6",
        title: "load balancer loopback: same-node connections fail (Tencent CLB, Alibaba SLB)",
        regions: SAME_VIP,
        profile: |_| kind_profiles::LOOPBACK,
        weight: |s| {
            let fits = s.leaves_the_node() || s.proxy_mode() == ProxyMode::Ipvs;
            of_region(s) * if fits { 1.0 } else { 0.05 }
        },
        mechanism,
        remedies: loopback_remedies,
    },
    Cause {
        id: "F7",
        title: "load balancer loopback: same-node connections fail (Azure and GCP internal load balancers)",
        regions: SAME_VIP,
        profile: |_| kind_profiles::LOOPBACK,
        weight: |s| of_region(s) * if s.leaves_the_node() { 0.7 } else { 0.05 },
        mechanism,
        remedies: loopback_remedies,
    },
    Cause {
        id: "F23",
        title: "reverse path filter or asymmetric routing drops traffic on the node",
        regions: &[RegionKind::SameVip, RegionKind::Same],
        profile: |_| kind_profiles::LOOPBACK,
        weight: |s| match s.filters_strictly() {
            Some(true) => 1.0,
            Some(false) => 0.02,
            None => 0.2,
        },
        mechanism: |s| {
            Wording::new(s)
                .add(
                    "packets within a node return on a different path than they were sent on and are dropped",
                )
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "set rp_filter to loose mode on the nodes",
                    Some("sysctl -w net.ipv4.conf.all.rp_filter=2".to_owned()),
                    "less strict filtering of spoofed source addresses",
                )
                .with_ineffective_when("the nodes' IPReversePathFilter counter does not increase"),
            ]
        },
    },
    Cause {
        id: "F11",
        title: "hairpin mode is off: Pods cannot reach themselves through their Service",
        regions: &[RegionKind::SelfPod, RegionKind::SelfVip],
        profile: |_| kind_profiles::LOOPBACK,
        weight: |_| 1.0,
        mechanism: |s| {
            Wording::new(s)
                .add("hairpin mode is off on the bridge port, so a Pod that its Service routes back to itself gets no \
                      response")
                .clauses()
        },
        remedies: hairpin_remedies,
    },
    Cause {
        id: "F11b",
        title: "hairpin mode off, bridge-nf-call-iptables=0: same-node Pods cannot reach each other through the \
                ClusterIP",
        regions: &[RegionKind::SameVip, RegionKind::Same],
        profile: |_| kind_profiles::LOOPBACK,
        weight: |s| if s.is_cluster_ip() { 1.0 } else { 0.05 },
        mechanism: |s| {
            Wording::new(s)
                .add("the bridge forwards the response within the node without reversing the Service's address \
                      translation")
                .clauses()
        },
        remedies: hairpin_remedies,
    },
];

fn mechanism(s: &CauseContext<'_>) -> Vec<Clause> {
    let policy = match (s.service, s.has_local_policy()) {
        (None, _) => "",
        (Some(_), true) => " (externalTrafficPolicy: Local)",
        (Some(_), false) => " (externalTrafficPolicy: Cluster)",
    };
    Wording::new(s)
        .add(format!(
            "the load balancer sends the connection back to the node it came from, without source NAT{policy}"
        ))
        .clauses()
}

fn loopback_remedies(s: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "inside the cluster, call the Service by its cluster name, or rewrite the public name to it in CoreDNS",
            s.service_command(|namespace, name| format!("kubectl -n {namespace} get service {name} -o wide")),
            "clients inside and outside take different paths; TLS and PROXY protocol must work on both",
        )
.with_ineffective_when("clients use the load balancer's IP address, or query another resolver"),
        remedy(
            "keep clients and endpoints on different nodes (podAntiAffinity)",
            None,
            "fragile with policy Cluster, where the load balancer may choose any node; needs nodes without endpoints",
        )
.with_ineffective_when("the policy is Cluster: the load balancer may choose the client's node even if it has no endpoint"),
        remedy(
            "let the load balancer target the Pods directly instead of the nodes' ports",
            None,
            "needs a cloud network that gives Pods routable addresses; each endpoint is registered individually",
        )
.with_ineffective_when("the load balancer chooses the client itself as the endpoint"),
    ]
}

fn hairpin_remedies(_: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "set hairpinMode: true in the CNI configuration",
            None,
            "takes effect only for Pods that start afterwards: restart the workload on each node",
        )
        .with_ineffective_when("the CNI does not use a bridge, or a NetworkPolicy drops the hairpin packet"),
        remedy(
            "use a headless Service where Pods call their own Service",
            None,
            "clients choose among the addresses themselves and notice a removed endpoint later",
        )
        .with_ineffective_when("clients keep using the load balancer address or the ClusterIP"),
    ]
}
