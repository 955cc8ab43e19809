//! What only clients outside the cluster meet. An in-cluster pass never implies an outside pass.

use super::{Cause, Wording, remedy};
use crate::{
    inference::profiles,
    regions::RegionKind,
    topology::{FrontKind, IpMode, ProxyMode},
};

pub(crate) const CAUSES: &[Cause] = &[Cause {
    id: "F8",
    title: "the balancer's health checks come from its own address, which the nodes take for theirs",
    regions: &[RegionKind::OutsideFrontNode, RegionKind::OutsideAll],
    profile: |_| profiles::VIP,
    likelier: |s| {
        let mode = match (s.info.map(|i| i.kind), s.mode()) {
            (Some(FrontKind::LoadBalancer(IpMode::Vip)), ProxyMode::Ipvs) => 1.0,
            (Some(FrontKind::LoadBalancer(IpMode::Vip)), ProxyMode::Unknown) => 0.2,
            _ => return 0.02,
        };
        // Every dropped health check is counted by the node that drops it.
        let dropped = match s.drops_own_sources() {
            Some(true) => 5.0,
            Some(false) => 0.1,
            None => 1.0,
        };
        let bound = if s.is_bound() == Some(false) { 0.1 } else { 1.0 };
        mode * dropped * bound
    },
    mechanism: |s| {
        // The mode is not always known.
        let binds = match s.mode() {
            ProxyMode::Ipvs => "kube-proxy in IPVS mode binds the balancer's address on every node",
            _ => "the nodes take the balancer's address for their own, as under kube-proxy in IPVS mode",
        };
        Wording::of(s)
            .say(format!(
                "{binds}, so the kernel drops health checks that come from it; the balancer takes every node for dead"
            ))
            .clauses()
    },
    remedies: |s| {
        vec![
            remedy(
                "let the cloud controller set ipMode: Proxy in the Service's status",
                s.about_service(|namespace, name| {
                    format!("kubectl -n {namespace} get service {name} -o jsonpath='{{.status.loadBalancer.ingress}}'")
                }),
                "needs Kubernetes 1.30 and a controller that supports it; every connection from inside makes the detour \
                 over the balancer",
            )
            .not_when("the balancer may hand a client back to its own node (F5–F7)"),
            remedy(
                "have the balancer check from reserved addresses instead of its own",
                None,
                "a setting of the provider; its health checks must be let in from there",
            )
            .not_when("the balancer also translates clients to its own address: the kernel drops these, too"),
        ]
    },
}];
