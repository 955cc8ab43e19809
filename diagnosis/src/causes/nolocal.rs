//! Policy `Local` without a local endpoint: F1–F4 for balancer addresses, F25 for cluster addresses.

use parallax_model::KindClass;

use super::{Cause, Situation, plural, remedy};
use crate::{
    kinds,
    region::RegionKind,
    topology::{IpMode, ProxyMode},
    verdict::Remedy,
};

const REGIONS: &[RegionKind] = &[RegionKind::NoLocal];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F1",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy in IPVS mode",
        regions: REGIONS,
        profile: |_| kinds::NOLOCAL_REFUSES,
        likelier: |s| balancer(s) * mode(s, ProxyMode::Ipvs) * if s.own_node_answers { 5.0 } else { 1.0 },
        mechanism: |_| {
            "externalTrafficPolicy: Local, and kube-proxy in IPVS mode binds the balancer address on every node without \
             giving a node without an endpoint a destination for it"
                .to_owned()
        },
        remedies,
    },
    Cause {
        id: "F2",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy in iptables mode",
        regions: REGIONS,
        profile: |_| kinds::NOLOCAL_DROPS,
        likelier: |s| balancer(s) * mode(s, ProxyMode::Iptables),
        mechanism: |_| {
            "externalTrafficPolicy: Local drops on nodes without an endpoint whatever kube-proxy does not know to be a \
             local pod (cluster CIDR missing or too small)"
                .to_owned()
        },
        remedies: |s| {
            let mut all = vec![remedy(
                "tell kube-proxy the pods' addresses (--cluster-cidr or detectLocalMode)",
                Some("kubectl -n kube-system edit configmap kube-proxy".to_owned()),
                "kube-proxy restarts on every node; connections stay, rules are rewritten once",
            )];
            all.extend(remedies(s));
            all
        },
    },
    Cause {
        id: "F3",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy in nftables mode",
        regions: REGIONS,
        profile: |_| kinds::NOLOCAL_DROPS,
        likelier: |s| balancer(s) * mode(s, ProxyMode::Nftables),
        mechanism: |_| {
            "kube-proxy in nftables mode before 1.33.6 drops pod traffic to the balancer address of a Service with \
             externalTrafficPolicy: Local on nodes without an endpoint"
                .to_owned()
        },
        remedies: |s| {
            let mut all = vec![remedy(
                "upgrade kube-proxy to 1.33.6, 1.34 or later",
                None,
                "a patch release on every node",
            )];
            all.extend(remedies(s));
            all
        },
    },
    Cause {
        id: "F4",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy replaced",
        regions: REGIONS,
        profile: |_| kinds::NOLOCAL_EITHER,
        likelier: |s| balancer(s) * mode(s, ProxyMode::Unknown),
        mechanism: |_| {
            "with externalTrafficPolicy: Local the node's service implementation has no endpoint of its own for the \
             address"
                .to_owned()
        },
        remedies: |s| {
            let mut all = remedies(s);
            all.push(remedy(
                "change the version of the kube-proxy replacement",
                None,
                "behaviour here differs by version (cilium#45252 and others): read the release notes first",
            ));
            all
        },
    },
    Cause {
        id: "F25",
        title: "internalTrafficPolicy: Local without a local endpoint",
        regions: REGIONS,
        profile: |s| kinds::nolocal(s.mode()),
        likelier: |s| if s.is_cluster_ip() { 1.0 } else { 0.0 },
        mechanism: |_| {
            "internalTrafficPolicy: Local restricts the cluster address to endpoints of the same node"
                .to_owned()
        },
        remedies: |s| {
            let (namespace, name) = s.service_args();
            vec![
                remedy(
                    "set internalTrafficPolicy: Cluster",
                    Some(format!(
                        "kubectl -n {namespace} patch service {name} --type merge -p '{{\"spec\":{{\"internalTrafficPolicy\":\"Cluster\"}}}}'"
                    )),
                    "traffic may leave the node; what relied on node-local answers no longer can",
                ),
                daemon_set(s),
            ]
        },
    },
];

fn balancer(s: &Situation<'_>) -> f64 {
    if s.is_cluster_ip() {
        0.0
    } else if s.is_local() {
        1.0
    } else {
        0.02
    }
}

/// The mode is a prior, never proof: what the API publishes may be out of date on one node.
fn mode(s: &Situation<'_>, wanted: ProxyMode) -> f64 {
    match s.mode() {
        ProxyMode::Unknown => 0.25,
        mode if mode == wanted => 1.0,
        _ => 0.02,
    }
}

fn remedies(s: &Situation<'_>) -> Vec<Remedy> {
    let (namespace, name) = s.service_args();
    let nodes = s.topology.nodes().len();
    let ports = s.service.map_or(1, |service| service.ports.len());
    let mut all = vec![
        remedy(
            "set externalTrafficPolicy: Cluster",
            Some(format!(
                "kubectl -n {namespace} patch service {name} --type merge -p '{{\"spec\":{{\"externalTrafficPolicy\":\"Cluster\"}}}}'"
            )),
            format!(
                "the client's source address is lost (use X-Forwarded-For or PROXY protocol), and the balancer gets {} \
                 × {} = {} backends: compare with its quota first",
                plural(ports, "port"),
                plural(nodes, "node"),
                ports * nodes
            ),
        ),
        daemon_set(s),
    ];
    let refused = s.share(&[KindClass::Refused]) > 0.5;
    if !matches!(
        s.info.map(|i| i.kind),
        Some(crate::topology::FrontKind::LoadBalancer(IpMode::Proxy))
    ) {
        all.push(remedy(
            "let the cloud controller set ipMode: Proxy in the Service's status",
            None,
            if refused {
                "needs Kubernetes 1.30 and a cloud controller that supports it; traffic then really leaves the node, and \
                 a balancer without source translation that picks the client's own node loops back (check F5–F7)"
            } else {
                "needs Kubernetes 1.30 and a cloud controller that supports it; every connection then makes the detour \
                 over the balancer, and loopback (F5–F7) becomes possible"
            },
        ));
    }
    all.push(remedy(
        "pin the clients to nodes with an endpoint (podAffinity)",
        None,
        "fragile: it fails again as soon as either side is rescheduled",
    ));
    all
}

fn daemon_set(s: &Situation<'_>) -> Remedy {
    let nodes = s.topology.nodes().len();
    let pods = s.service.map_or(0, |service| service.usable().len());
    let more = nodes.saturating_sub(s.service.map_or(0, |service| {
        s.topology
            .nodes()
            .keys()
            .filter(|n| !service.usable_on(n).is_empty())
            .count()
    }));
    remedy(
        "run the endpoints as a DaemonSet, so that every node has one",
        None,
        format!(
            "{} more than the {} of today, with their memory and CPU; nodes with taints need tolerations",
            plural(more, "pod"),
            pods
        ),
    )
}
