//! Failures that only clients outside the cluster see. An in-cluster pass never implies an outside pass.

use super::{Cause, Wording, remedy};
use crate::{
    inference::kind_profiles,
    regions::RegionKind,
    topology::{FrontKind, IpMode, ProxyMode},
};

pub(crate) const CAUSES: &[Cause] = &[Cause {
    id: "F8",
    title: "nodes drop the load balancer's health checks: every node binds their source address",
    regions: &[RegionKind::OutsideFrontNode, RegionKind::OutsideAll],
    profile: |_| kind_profiles::VIP,
    weight: |s| {
        let mode = match (s.info.map(|i| i.kind), s.proxy_mode()) {
            (Some(FrontKind::LoadBalancer(IpMode::Vip)), ProxyMode::Ipvs) => 1.0,
            (Some(FrontKind::LoadBalancer(IpMode::Vip)), ProxyMode::Unknown) => 0.2,
            _ => return 0.02,
        };
        // The node that drops a health check counts it.
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
        let binds = match s.proxy_mode() {
            ProxyMode::Ipvs => "kube-proxy in IPVS mode binds the load balancer's address on every node",
            _ => "the nodes treat the load balancer's address as their own, as under kube-proxy in IPVS mode",
        };
        Wording::new(s)
            .add(format!(
                "{binds}, so the kernel drops health checks that come from it, and the load balancer considers every \
                 node dead"
            ))
            .clauses()
    },
    remedies: |s| {
        vec![
            remedy(
                "have the cloud controller set ipMode: Proxy in the Service's status",
                s.service_command(|namespace, name| {
                    format!("kubectl -n {namespace} get service {name} -o jsonpath='{{.status.loadBalancer.ingress}}'")
                }),
                "needs Kubernetes 1.30 and a cloud controller that supports it; every in-cluster connection then takes \
                 the detour through the load balancer",
            )
            .with_ineffective_when("the load balancer may send a client back to its own node (F5–F7)"),
            remedy(
                "configure the load balancer to send health checks from reserved addresses instead of its own",
                None,
                "a provider setting; firewalls must allow health checks from those addresses",
            )
            .with_ineffective_when("the load balancer also applies source NAT to client traffic: the kernel drops that as well"),
        ]
    },
}];
