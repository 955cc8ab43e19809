//! Within a node, or to oneself: the mirror image of policy `Local`.

use super::{Cause, CauseContext, Clause, Wording, remedy};
use crate::{inference::profiles, regions::RegionKind, topology::ProxyMode, verdict::Remedy};

const SAME_VIP: &[RegionKind] = &[RegionKind::SameVip, RegionKind::LbOwnNode];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F5",
        title: "balancer loopback with client address preservation (AWS NLB)",
        regions: SAME_VIP,
        profile: |_| profiles::LOOPBACK,
        likelier: |s| if s.leaves_the_node() { 1.0 } else { 0.05 },
        mechanism,
        remedies: |s| {
            let mut all = vec![remedy(
                "turn client address preservation off at the target group (preserve_client_ip.enabled=false)",
                None,
                "endpoints see the balancer's address; with PROXY protocol v2 they can still learn the client's",
            )
.not_when("the target group is of a sort that always keeps the client's address (UDP, for one)")];
            all.extend(avoid(s));
            all
        },
    },
    Cause {
        id: "F6",
        title: "balancer loopback (Tencent CLB, Alibaba SLB)",
        regions: SAME_VIP,
        profile: |_| profiles::LOOPBACK,
        likelier: |s| {
            if s.leaves_the_node() || s.mode() == ProxyMode::Ipvs {
                1.0
            } else {
                0.05
            }
        },
        mechanism,
        remedies: avoid,
    },
    Cause {
        id: "F7",
        title: "balancer loopback (Azure and GCP internal balancers)",
        regions: SAME_VIP,
        profile: |_| profiles::LOOPBACK,
        likelier: |s| if s.leaves_the_node() { 0.7 } else { 0.05 },
        mechanism,
        remedies: avoid,
    },
    Cause {
        id: "F23",
        title: "reverse path filter or asymmetric route on the node",
        regions: &[RegionKind::SameVip, RegionKind::Same],
        profile: |_| profiles::LOOPBACK,
        likelier: |s| match s.filters_strictly() {
            Some(true) => 1.0,
            Some(false) => 0.02,
            None => 0.2,
        },
        mechanism: |s| {
            Wording::of(s)
                .say("packets that stay within a node come back on another way than they went, and are dropped")
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "set rp_filter to loose mode on the nodes",
                    Some("sysctl -w net.ipv4.conf.all.rp_filter=2".to_owned()),
                    "spoofed sources are filtered less strictly",
                )
                .not_when("the counter IPReversePathFilter of the nodes does not rise"),
            ]
        },
    },
    Cause {
        id: "F11",
        title: "hairpin mode off",
        regions: &[RegionKind::SelfPod, RegionKind::SelfVip],
        profile: |_| profiles::LOOPBACK,
        likelier: |_| 1.0,
        mechanism: |s| {
            Wording::of(s)
                .say("the bridge port does not reflect, so a pod that its Service sends back to itself gets no answer")
                .clauses()
        },
        remedies: hairpin,
    },
    Cause {
        id: "F11b",
        title: "hairpin mode off and bridge-nf-call-iptables=0: pods of one node through the cluster address",
        regions: &[RegionKind::SameVip, RegionKind::Same],
        profile: |_| profiles::LOOPBACK,
        likelier: |s| if s.is_cluster_ip() { 1.0 } else { 0.05 },
        mechanism: |s| {
            Wording::of(s)
                .say("the bridge answers within the node without the Service's address translation")
                .clauses()
        },
        remedies: hairpin,
    },
];

fn mechanism(s: &CauseContext<'_>) -> Vec<Clause> {
    let policy = match (s.service, s.is_local()) {
        (None, _) => "",
        (Some(_), true) => " (externalTrafficPolicy: Local)",
        (Some(_), false) => " (externalTrafficPolicy: Cluster)",
    };
    Wording::of(s)
        .say(format!(
            "the balancer hands the connection back to the node it came from without translating its source{policy}"
        ))
        .clauses()
}

fn avoid(s: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "call the Service by its cluster name from inside, or rewrite the public name to it in CoreDNS",
            s.about_service(|namespace, name| format!("kubectl -n {namespace} get service {name} -o wide")),
            "inside and outside take different ways; TLS and PROXY settings must hold on both",
        )
.not_when("clients use the balancer's address itself, or ask another resolver"),
        remedy(
            "keep clients and endpoints on different nodes (podAntiAffinity)",
            None,
            "fragile with policy Cluster, where the balancer may choose any node; costs nodes without endpoints",
        )
.not_when("policy is Cluster: the balancer may choose the client's node whether or not an endpoint is there"),
        remedy(
            "let the balancer reach the pods directly, without the nodes' ports",
            None,
            "needs a cloud network whose pods have addresses of their own; endpoints are registered one by one",
        )
.not_when("the client is itself the endpoint that is chosen"),
    ]
}

fn hairpin(_: &CauseContext<'_>) -> Vec<Remedy> {
    vec![
        remedy(
            "set hairpinMode: true in the CNI configuration",
            None,
            "takes effect for pods that start afterwards: restart the workload on each node",
        )
        .not_when("the CNI has no bridge, or a NetworkPolicy drops the reflected packet"),
        remedy(
            "use a headless Service for calls to oneself",
            None,
            "clients choose among addresses themselves and notice a gone endpoint later",
        )
        .not_when("clients keep the balancer or cluster address"),
    ]
}
