//! Traffic policy `Local` without a local endpoint: F1–F4 for load balancer addresses, F25 for ClusterIPs.

use parallax_model::KindClass;

use super::{Cause, CauseContext, Clause, Wording, remedy};
use crate::{
    inference::kind_profiles,
    regions::RegionKind,
    topology::{FrontKind, IpMode, ProxyMode, Service, Topology, balancer_quota::describe_with_all_nodes},
    verdict::Remedy,
    wording::pluralize,
};

const REGIONS: &[RegionKind] = &[RegionKind::NoLocal];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "F1",
        title: "externalTrafficPolicy: Local refuses clients on nodes without an endpoint (kube-proxy in IPVS mode)",
        regions: REGIONS,
        profile: |_| kind_profiles::NOLOCAL_REFUSES,
        weight: |s| {
            let answers = if s.own_node_answers { 5.0 } else { 1.0 };
            // Some clouds do not bind the address on the nodes, so the node itself cannot refuse.
            let bound = if s.is_bound() == Some(false) { 0.1 } else { 1.0 };
            balancer_weight(s) * mode_weight(s, ProxyMode::Ipvs) * answers * bound
        },
        mechanism: |s| {
            let binds = match s.proxy_mode() {
                ProxyMode::Ipvs => "kube-proxy in IPVS mode binds",
                _ => "an older kube-proxy in IPVS mode would bind",
            };
            policy_mechanism(
                s,
                &format!(
                    "; {binds} the load balancer address on every node, even on nodes that have no endpoint to \
                     forward to"
                ),
            )
        },
        remedies,
    },
    Cause {
        id: "F2",
        title: "externalTrafficPolicy: Local drops traffic on nodes without an endpoint (kube-proxy in iptables mode)",
        regions: REGIONS,
        profile: |_| kind_profiles::NOLOCAL_DROPS,
        weight: |s| balancer_weight(s) * mode_weight(s, ProxyMode::Iptables),
        mechanism: |s| {
            policy_mechanism(
                s,
                "; on nodes without an endpoint, kube-proxy drops connections from every address that it does not \
                 recognise as a local Pod (cluster CIDR missing or too small)",
            )
        },
        remedies: |s| {
            let mut all = vec![configure_pod_cidr()];
            all.extend(remedies(s));
            all
        },
    },
    Cause {
        id: "F3",
        title: "externalTrafficPolicy: Local drops traffic on nodes without an endpoint (kube-proxy in nftables mode)",
        regions: REGIONS,
        profile: |_| kind_profiles::NOLOCAL_DROPS,
        weight: |s| balancer_weight(s) * mode_weight(s, ProxyMode::Nftables),
        mechanism: |s| {
            let drops = match s.proxy_mode() {
                ProxyMode::Nftables => "kube-proxy in nftables mode drops",
                _ => "kube-proxy in nftables mode would drop",
            };
            policy_mechanism(
                s,
                &format!(
                    "; on nodes without an endpoint, {drops} connections from every address that it does not recognise \
                     as a local Pod (cluster CIDR missing or too small); before 1.33.6, also those from the node's own \
                     network"
                ),
            )
        },
        remedies: |s| {
            let mut all = vec![
                configure_pod_cidr(),
                remedy(
                    "upgrade kube-proxy to 1.33.6, 1.34 or later if the clients are in the nodes' own network",
                    None,
                    "a patch upgrade of kube-proxy on every node",
                )
                .with_ineffective_when("a node's Service rules are stale: then only that node fails (F24)"),
            ];
            all.extend(remedies(s));
            all
        },
    },
    Cause {
        id: "F4",
        title: "externalTrafficPolicy: Local fails on nodes without an endpoint (kube-proxy replacement)",
        regions: REGIONS,
        profile: |_| kind_profiles::NOLOCAL_EITHER,
        weight: |s| balancer_weight(s) * mode_weight(s, ProxyMode::Unknown),
        mechanism: |s| {
            policy_mechanism(
                s,
                "; the node's Service implementation has no local endpoint for the address",
            )
        },
        remedies: |s| {
            let mut all = remedies(s);
            all.push(remedy(
                "change the version of the kube-proxy replacement",
                None,
                "this behaviour differs between versions (cilium#45252 and others): read the release notes first",
            ));
            all
        },
    },
    Cause {
        id: "F25",
        title: "internalTrafficPolicy: Local fails on nodes without an endpoint",
        regions: REGIONS,
        profile: |s| kind_profiles::nolocal(s.proxy_mode()),
        weight: |s| if s.is_cluster_ip() { 1.0 } else { 0.0 },
        mechanism: |s| {
            let description = if s.has_local_policy() {
                "internalTrafficPolicy: Local restricts the ClusterIP to endpoints on the client's node"
                    .to_owned()
            } else {
                format!(
                    "each node restricts the ClusterIP to its own endpoints, as under \
                     internalTrafficPolicy: Local, although {} does not set it",
                    s.service_text()
                )
            };
            Wording::new(s).add(description).clauses()
        },
        remedies: |s| {
            vec![
                remedy(
                    "set internalTrafficPolicy: Cluster",
                    s.service_command(|namespace, name| {
                        format!("kubectl -n {namespace} patch service {name} --type merge -p '{{\"spec\":{{\"internalTrafficPolicy\":\"Cluster\"}}}}'")
                    }),
                    "traffic may leave the node; clients can no longer rely on reaching a local endpoint",
                )
.with_ineffective_when("traffic must stay on the node by design (a node agent)"),
                daemon_set_remedy(s),
            ]
        },
    },
];

/// The effect of traffic policy Local, or of something that behaves like it where the Service does not set it.
fn policy_mechanism(s: &CauseContext<'_>, does: &str) -> Vec<Clause> {
    let text = match (s.service, s.has_local_policy()) {
        (_, true) => format!("externalTrafficPolicy: Local{does}"),
        (None, false) => format!("as under externalTrafficPolicy: Local{does}"),
        (Some(service), false) => {
            format!(
                "as under externalTrafficPolicy: Local, although Service {} does not set it{does}",
                service.key
            )
        }
    };
    Wording::new(s).add(text).clauses()
}

fn balancer_weight(s: &CauseContext<'_>) -> f64 {
    if s.is_cluster_ip() {
        0.0
    } else if s.has_local_policy() {
        1.0
    } else {
        0.02
    }
}

/// The proxy mode is a prior, never proof: what the API publishes may be stale for one node.
fn mode_weight(s: &CauseContext<'_>, wanted: ProxyMode) -> f64 {
    match s.proxy_mode() {
        ProxyMode::Unknown => 0.25,
        mode if mode == wanted => 1.0,
        _ => 0.02,
    }
}

/// Returns the remedies for traffic policy Local at the load balancer of a Service.
pub(crate) fn service_remedies(topology: &Topology, service: &Service) -> Vec<Remedy> {
    let info = topology
        .fronts()
        .values()
        .find(|info| info.service == service.key && matches!(info.kind, FrontKind::LoadBalancer(_)));
    remedies(&CauseContext {
        info,
        service: Some(service),
        ..CauseContext::new(topology)
    })
}

/// Remedy for a kube-proxy that applies the policy to Pods because it takes them for external clients.
fn configure_pod_cidr() -> Remedy {
    remedy(
        "configure the Pod CIDR in kube-proxy (--cluster-cidr or detectLocalMode)",
        Some("kubectl -n kube-system edit configmap kube-proxy".to_owned()),
        "kube-proxy restarts on every node and rewrites its rules once; established connections survive",
    )
    .with_ineffective_when(
        "clients have addresses outside the Pod CIDR, such as a virtual machine in the same network",
    )
}

fn remedies(s: &CauseContext<'_>) -> Vec<Remedy> {
    let mut all = vec![
        remedy(
            "set externalTrafficPolicy: Cluster",
            s.service_command(|namespace, name| {
                format!("kubectl -n {namespace} patch service {name} --type merge -p '{{\"spec\":{{\"externalTrafficPolicy\":\"Cluster\"}}}}'")
            }),
            format!(
                "endpoints no longer see the client's source address (use X-Forwarded-For or PROXY protocol), and {}",
                s.service.map_or_else(
                    || "the load balancer registers every node for each port".to_owned(),
                    |service| describe_with_all_nodes(s.topology, service)
                )
            ),
        )
        .with_ineffective_when(
            "traffic really leaves the node (ipMode: Proxy, or a host name in the status): Cluster does not fix \
             loopback there, it adds every node to the load balancer's pool",
        ),
        daemon_set_remedy(s),
    ];
    let refused = s.share(&[KindClass::Refused]) > 0.5;
    if !matches!(
        s.info.map(|i| i.kind),
        Some(FrontKind::LoadBalancer(IpMode::Proxy))
    ) {
        all.push(remedy(
            "have the cloud controller set ipMode: Proxy in the Service's status",
            None,
            if refused {
                "needs Kubernetes 1.30 and a cloud controller that supports it; traffic then really leaves the node, \
                 and a load balancer without source NAT that picks the client's own node causes loopback (check \
                 F5–F7)"
            } else {
                "needs Kubernetes 1.30 and a cloud controller that supports it; every connection then takes the detour \
                 through the load balancer, and loopback (F5–F7) becomes possible"
            },
        )
        .with_ineffective_when("the nodes cannot reach the load balancer, or its own filter blocks them"));
    }
    all.push(
        remedy(
            "schedule the clients on nodes with an endpoint (podAffinity)",
            None,
            "fragile: clients fail again as soon as either side is rescheduled",
        )
        .with_ineffective_when("clients use the host network of other nodes, or you do not control where their Pods are scheduled"),
    );
    all
}

fn daemon_set_remedy(s: &CauseContext<'_>) -> Remedy {
    let nodes = s.topology.nodes().len();
    let pods = s.service.map_or(0, |service| service.usable().len());
    let more = nodes.saturating_sub(s.service.map_or(0, |service| {
        s.topology
            .nodes()
            .keys()
            .filter(|n| !service.usable_on(n).is_empty())
            .count()
    }));
    // With policy Local every node with an entry is registered, so this remedy uses the same quota.
    let quota = s
        .service
        .filter(|_| s.is_balancer())
        .map(|service| format!("; {}", describe_with_all_nodes(s.topology, service)))
        .unwrap_or_default();
    remedy(
        "run the endpoints as a DaemonSet so that every node has one",
        None,
        format!(
            "{} (today: {}), with their memory and CPU; tainted nodes need tolerations{quota}",
            pluralize(more, "more Pod"),
            pods
        ),
    )
    .with_ineffective_when(
        "the load balancer sends clients back to their own node (F5–F7): then every node has an endpoint to loop back \
         to",
    )
}
