//! Names that do not resolve.

use super::{Cause, CauseContext, Claim, Wording, remedy};
use crate::{inference::kind_profiles, regions::RegionKind};

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P9",
        title: "a node cannot reach its DNS resolver",
        regions: &[RegionKind::DnsClient],
        profile: |_| kind_profiles::DNS,
        weight: |_| 1.0,
        mechanism: |s| {
            let node = s.node_text();
            let resolver = s.resolver_words().map_or_else(
                || "its resolver".to_owned(),
                |asked| format!("its resolver {asked}"),
            );
            Wording::new(s)
                .add(format!("the path from {node} to {resolver} is broken"))
                .add_if(&[Claim::LostOverTcp], ", over both UDP and TCP")
                .add_if(&[Claim::OtherNamesPass], "; names resolve on other nodes")
                .add_if(
                    &[Claim::ByAddressPasses],
                    "; the node's connections by IP address work",
                )
                .clauses()
        },
        remedies: |s| {
            let node = s.node_text();
            vec![
                remedy(
                    format!(
                        "check what filters port 53 (UDP and TCP) for Pods on {node}, and its node-local resolver if \
                         it has one"
                    ),
                    s.member_command(|node| {
                        format!("kubectl -n kube-system get pods -o wide --field-selector spec.nodeName={node}")
                    }),
                    "restarting a node-local resolver interrupts DNS on that node for a few seconds",
                )
                .with_ineffective_when("the node cannot reach anything: then its network is the cause (P1)"),
            ]
        },
    },
    Cause {
        id: "P10",
        title: "the cluster DNS resolver fails",
        regions: &[RegionKind::DnsAll, RegionKind::Backend],
        profile: |_| kind_profiles::DNS,
        weight: |s| {
            if s.region == RegionKind::DnsAll || s.resolver.service.is_some() {
                1.0
            } else {
                0.0
            }
        },
        mechanism: |s| {
            if let (RegionKind::Backend, Some(pods)) = (s.region, s.endpoints_text()) {
                return Wording::new(s)
                    .add(if s.perhaps_every_endpoint {
                        "one or all of the resolver's Pods do not answer".to_owned()
                    } else {
                        format!("Pod {pods} of the resolver does not answer")
                    })
                    .add_if(&[Claim::LostOverTcp], "; queries over TCP are lost too")
                    .clauses();
            }
            let resolver = s.resolver_words().map_or_else(
                || "the resolver".to_owned(),
                |asked| format!("the resolver {asked}"),
            );
            let service = s.resolver.service.map(|service| service.key.to_string());
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::NoResolver][..],
                        format!(
                            "Service {} of {resolver} has no usable endpoint",
                            service.as_deref().unwrap_or_default()
                        ),
                    ),
                    (&[], format!("{resolver} fails")),
                ])
                .add_if(
                    &[Claim::AllFail, Claim::EveryClient],
                    "; no name resolves on any node",
                )
                .add_if(&[Claim::LostOverTcp], "; queries over TCP are lost too")
                .clauses()
        },
        remedies: |s| {
            let about = s.resolver.service.map(|service| {
                format!(
                    "kubectl -n {} get endpointslices,pods -l kubernetes.io/service-name={} -o wide",
                    service.key.namespace, service.key.name
                )
            });
            let mut all = Vec::new();
            if Claim::NoResolver.holds(s) {
                all.push(remedy(
                    "bring up the resolver's Pods: check their Deployment, its replicas and their readiness",
                    about,
                    "none (read-only)",
                ));
            }
            all.push(remedy(
                "check CoreDNS: Pods, logs and forwarders",
                Some("kubectl -n kube-system logs -l k8s-app=kube-dns --tail=50".to_owned()),
                "none (read-only)",
            ));
            all
        },
    },
    Cause {
        id: "F16",
        title: "a conntrack race drops one of two parallel DNS queries",
        regions: &[RegionKind::DnsAll, RegionKind::DnsClient],
        profile: |_| [8.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5],
        weight: |s| if is_race(s) { 10.0 } else { 0.0 },
        mechanism: |s| {
            Wording::new(s)
                .add(
                    "the A and AAAA queries leave from one port at the same time, and their conntrack entries collide",
                )
                .add_if(
                    &[Claim::OneOfTwoLost],
                    "; one of the two is lost, the other is answered, and a retry from another port succeeds",
                )
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "run NodeLocal DNSCache: queries then use TCP or avoid NAT",
                    Some("kubectl -n kube-system get daemonset node-local-dns".to_owned()),
                    "one Pod per node; its configuration needs the same overrides as CoreDNS",
                )
                .with_ineffective_when(
                    "lookups fail every time, not intermittently: then the resolver is down (P10)",
                ),
                remedy(
                    "set single-request-reopen in the Pods' dnsConfig",
                    None,
                    "the Pods restart; each lookup takes a second round trip",
                )
                .with_ineffective_when("images use musl, which does not support the option"),
            ]
        },
    },
    Cause {
        id: "F15",
        title: "one name does not resolve (split-horizon DNS, an override, or its zone)",
        regions: &[RegionKind::DnsName],
        profile: |_| kind_profiles::DNS,
        weight: |_| 1.0,
        mechanism: |s| {
            let name = s.member().unwrap_or("the name").to_owned();
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::AllFail, Claim::EveryClient, Claim::OtherNamesPass][..],
                        format!("only {name} does not resolve, on any node"),
                    ),
                    (
                        &[Claim::OtherNamesPass],
                        format!("an override or the zone of {name} is broken; other names resolve"),
                    ),
                    (&[], format!("an override or the zone of {name} is broken")),
                ])
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "compare the in-cluster answer with the public one, and check the overrides in the resolver's \
                     configuration",
                    Some("kubectl -n kube-system get configmap coredns -o yaml".to_owned()),
                    "an override shadows the public name for every Pod",
                )
                .with_ineffective_when("the zone itself is broken: then the name also fails outside the cluster"),
            ]
        },
    },
];

/// Reports whether the evidence shows the race. A resolver that is down, hung or filtered leaves other signs.
fn is_race(s: &CauseContext<'_>) -> bool {
    Claim::OneOfTwoLost.holds(s) && !Claim::LostOverTcp.holds(s) && !Claim::NoResolver.holds(s)
}
