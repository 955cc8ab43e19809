//! Policy `Local` without a local endpoint: F1–F4 for balancer addresses, F25 for cluster addresses.

use parallax_model::KindClass;

use super::{Cause, CauseContext, Clause, Wording, remedy};
use crate::{
    inference::profiles,
    regions::RegionKind,
    topology::{FrontKind, IpMode, ProxyMode, Service, Topology, quota::consequence},
    verdict::Remedy,
    wording::plural,
};

const REGIONS: &[RegionKind] = &[RegionKind::NoLocal];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F1",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy in IPVS mode",
        regions: REGIONS,
        profile: |_| profiles::NOLOCAL_REFUSES,
        likelier: |s| {
            let answers = if s.own_node_answers { 5.0 } else { 1.0 };
            // Some clouds keep the address off the nodes: then nothing there can refuse.
            let bound = if s.is_bound() == Some(false) { 0.1 } else { 1.0 };
            balancer(s) * mode(s, ProxyMode::Ipvs) * answers * bound
        },
        mechanism: |s| {
            let binds = match s.mode() {
                ProxyMode::Ipvs => "and kube-proxy in IPVS mode binds",
                _ => "and an older kube-proxy in IPVS mode would bind",
            };
            policy(
                s,
                &format!(
                    ", {binds} the balancer address on every node without giving a node without an endpoint a \
                     destination for it"
                ),
            )
        },
        remedies,
    },
    Cause {
        id: "F2",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy in iptables mode",
        regions: REGIONS,
        profile: |_| profiles::NOLOCAL_DROPS,
        likelier: |s| balancer(s) * mode(s, ProxyMode::Iptables),
        mechanism: |s| {
            policy(
                s,
                ", which drops on nodes without an endpoint whatever kube-proxy does not know to be a local pod \
                 (cluster CIDR missing or too small)",
            )
        },
        remedies: |s| {
            let mut all = vec![name_the_pods()];
            all.extend(remedies(s));
            all
        },
    },
    Cause {
        id: "F3",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy in nftables mode",
        regions: REGIONS,
        profile: |_| profiles::NOLOCAL_DROPS,
        likelier: |s| balancer(s) * mode(s, ProxyMode::Nftables),
        mechanism: |s| {
            let drops = match s.mode() {
                ProxyMode::Nftables => "and kube-proxy in nftables mode drops",
                _ => "and kube-proxy in nftables mode would drop",
            };
            policy(
                s,
                &format!(
                    ", {drops} on nodes without an endpoint whatever it does not know to be a local pod (cluster CIDR \
                     missing or too small); before 1.33.6 also what comes from the node's own network"
                ),
            )
        },
        remedies: |s| {
            let mut all = vec![
                name_the_pods(),
                remedy(
                    "upgrade kube-proxy to 1.33.6, 1.34 or later, where the clients are in the nodes' own network",
                    None,
                    "a patch release on every node",
                )
                .not_when("the node's rules are out of date: then only that node deviates (F24)"),
            ];
            all.extend(remedies(s));
            all
        },
    },
    Cause {
        id: "F4",
        title: "externalTrafficPolicy: Local without a local endpoint, kube-proxy replaced",
        regions: REGIONS,
        profile: |_| profiles::NOLOCAL_EITHER,
        likelier: |s| balancer(s) * mode(s, ProxyMode::Unknown),
        mechanism: |s| {
            policy(
                s,
                ", and the node's service implementation has no endpoint of its own for the address",
            )
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
        profile: |s| profiles::nolocal(s.mode()),
        likelier: |s| if s.is_cluster_ip() { 1.0 } else { 0.0 },
        mechanism: |s| {
            let said = if s.is_local() {
                "internalTrafficPolicy: Local restricts the cluster address to endpoints of the same node"
                    .to_owned()
            } else {
                format!(
                    "the nodes restrict the cluster address to endpoints of their own, as under \
                     internalTrafficPolicy: Local, which {} does not have",
                    s.service_words()
                )
            };
            Wording::of(s).say(said).clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "set internalTrafficPolicy: Cluster",
                    s.about_service(|namespace, name| {
                        format!("kubectl -n {namespace} patch service {name} --type merge -p '{{\"spec\":{{\"internalTrafficPolicy\":\"Cluster\"}}}}'")
                    }),
                    "traffic may leave the node; what relied on node-local answers no longer can",
                )
.not_when("the Service must stay within the node by design (a node agent)"),
                daemon_set(s),
            ]
        },
    },
];

/// What policy Local does here, or what looks like it where the Service does not say so.
fn policy(s: &CauseContext<'_>, does: &str) -> Vec<Clause> {
    let said = match (s.service, s.is_local()) {
        (_, true) => format!("externalTrafficPolicy: Local{does}"),
        (None, false) => format!("as under externalTrafficPolicy: Local{does}"),
        (Some(service), false) => {
            format!(
                "as under externalTrafficPolicy: Local, which Service {} does not have{does}",
                service.key
            )
        }
    };
    Wording::of(s).say(said).clauses()
}

fn balancer(s: &CauseContext<'_>) -> f64 {
    if s.is_cluster_ip() {
        0.0
    } else if s.is_local() {
        1.0
    } else {
        0.02
    }
}

/// The mode is a prior, never proof: what the API publishes may be out of date on one node.
fn mode(s: &CauseContext<'_>, wanted: ProxyMode) -> f64 {
    match s.mode() {
        ProxyMode::Unknown => 0.25,
        mode if mode == wanted => 1.0,
        _ => 0.02,
    }
}

/// Ways out of policy Local for the balancer of a Service.
pub(crate) fn of_service(topology: &Topology, service: &Service) -> Vec<Remedy> {
    let info = topology
        .fronts()
        .values()
        .find(|info| info.service == service.key && matches!(info.kind, FrontKind::LoadBalancer(_)));
    remedies(&CauseContext {
        info,
        service: Some(service),
        ..CauseContext::of(topology)
    })
}

/// For a kube-proxy that holds pods to the policy as it takes them for clients outside.
fn name_the_pods() -> Remedy {
    remedy(
        "tell kube-proxy the pods' addresses (--cluster-cidr or detectLocalMode)",
        Some("kubectl -n kube-system edit configmap kube-proxy".to_owned()),
        "kube-proxy restarts on every node; connections stay, rules are rewritten once",
    )
    .not_when("clients come from outside those addresses, such as a virtual machine in the same network")
}

fn remedies(s: &CauseContext<'_>) -> Vec<Remedy> {
    let mut all = vec![
        remedy(
            "set externalTrafficPolicy: Cluster",
            s.about_service(|namespace, name| {
                format!("kubectl -n {namespace} patch service {name} --type merge -p '{{\"spec\":{{\"externalTrafficPolicy\":\"Cluster\"}}}}'")
            }),
            format!(
                "the client's source address is lost (use X-Forwarded-For or PROXY protocol), and {}",
                s.service.map_or_else(
                    || "the balancer registers every node for each port".to_owned(),
                    |service| consequence(s.topology, service)
                )
            ),
        )
        .not_when(
            "traffic really leaves the node (ipMode Proxy, a host name in the status): Cluster does not cure loopback \
             there, it puts every node in the balancer's pool",
        ),
        daemon_set(s),
    ];
    let refused = s.share(&[KindClass::Refused]) > 0.5;
    if !matches!(
        s.info.map(|i| i.kind),
        Some(FrontKind::LoadBalancer(IpMode::Proxy))
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
        )
        .not_when("the balancer cannot be reached from the nodes, or its own filter keeps them out"));
    }
    all.push(
        remedy(
            "pin the clients to nodes with an endpoint (podAffinity)",
            None,
            "fragile: it fails again as soon as either side is rescheduled",
        )
        .not_when("clients use the host network of other nodes, or their pods are not yours to place"),
    );
    all
}

fn daemon_set(s: &CauseContext<'_>) -> Remedy {
    let nodes = s.topology.nodes().len();
    let pods = s.service.map_or(0, |service| service.usable().len());
    let more = nodes.saturating_sub(s.service.map_or(0, |service| {
        s.topology
            .nodes()
            .keys()
            .filter(|n| !service.usable_on(n).is_empty())
            .count()
    }));
    // Under policy Local every node with an entry is registered, so this way out costs as much of the quota.
    let quota = s
        .service
        .filter(|_| s.is_balancer())
        .map(|service| format!("; {}", consequence(s.topology, service)))
        .unwrap_or_default();
    remedy(
        "run the endpoints as a DaemonSet, so that every node has one",
        None,
        format!(
            "{} more than the {} of today, with their memory and CPU; nodes with taints need tolerations{quota}",
            plural(more, "pod"),
            pods
        ),
    )
    .not_when(
        "the balancer hands clients back to their own node (F5–F7): then every node has an entry to loop back to",
    )
}
