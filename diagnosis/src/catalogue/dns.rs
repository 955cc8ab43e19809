//! Names that do not resolve.

use super::{Cause, CauseContext, Claim, Wording, remedy};
use crate::{inference::profiles, regions::RegionKind};

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P9",
        title: "a node's way to its resolver is broken",
        regions: &[RegionKind::DnsClient],
        profile: |_| profiles::DNS,
        likelier: |_| 1.0,
        mechanism: |s| {
            let node = s.node_words();
            let resolver = s.resolver_words().map_or_else(
                || "its resolver".to_owned(),
                |asked| format!("its resolver {asked}"),
            );
            Wording::of(s)
                .say(format!("the way of {node} to {resolver} is broken"))
                .say_if(&[Claim::LostOverTcp], ", over UDP and TCP alike")
                .say_if(&[Claim::OtherNamesPass], "; names resolve on other nodes")
                .say_if(
                    &[Claim::ByAddressPasses],
                    "; what the node asks for by address works",
                )
                .clauses()
        },
        remedies: |s| {
            let node = s.node_words();
            vec![
                remedy(
                    format!(
                        "look at what filters port 53 (UDP and TCP) for pods on {node}, and at its node-local resolver \
                         if it has one"
                    ),
                    s.about_member(|node| {
                        format!("kubectl -n kube-system get pods -o wide --field-selector spec.nodeName={node}")
                    }),
                    "restarting a node-local resolver interrupts names on that node for seconds",
                )
                .not_when("the node reaches nothing at all: then its network is the cause (P1)"),
            ]
        },
    },
    Cause {
        id: "P10",
        title: "the cluster resolver fails",
        regions: &[RegionKind::DnsAll],
        profile: |_| profiles::DNS,
        likelier: |_| 1.0,
        mechanism: |s| {
            let resolver = s.resolver_words().map_or_else(
                || "the resolver".to_owned(),
                |asked| format!("the resolver {asked}"),
            );
            let service = s.resolver.service.map(|service| service.key.to_string());
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::NoResolver][..],
                        format!(
                            "Service {} of {resolver} has no usable endpoint",
                            service.as_deref().unwrap_or_default()
                        ),
                    ),
                    (&[], format!("{resolver} fails")),
                ])
                .say_if(
                    &[Claim::AllFail, Claim::EveryClient],
                    "; no name resolves on any node",
                )
                .say_if(&[Claim::LostOverTcp], "; questions over TCP are lost, too")
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
                    "bring the resolver's pods up: look at their Deployment, its replicas and their readiness",
                    about,
                    "nothing: reading only",
                ));
            }
            all.push(remedy(
                "look at CoreDNS: its pods, its log, its forwarders",
                Some("kubectl -n kube-system logs -l k8s-app=kube-dns --tail=50".to_owned()),
                "nothing: reading only",
            ));
            all
        },
    },
    Cause {
        id: "F16",
        title: "one of two parallel questions is lost now and then (conntrack race)",
        regions: &[RegionKind::DnsAll, RegionKind::DnsClient],
        profile: |_| [8.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5],
        likelier: |s| if is_race(s) { 10.0 } else { 0.0 },
        mechanism: |s| {
            Wording::of(s)
                .say(
                    "questions for both families leave from one port at once, and the second finds its translation taken",
                )
                .say_if(
                    &[Claim::OneOfTwoLost],
                    "; one of the two is lost, the other is answered, and asking again from another port helps",
                )
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "run NodeLocal DNS: questions then travel over TCP or without translation",
                    Some("kubectl -n kube-system get daemonset node-local-dns".to_owned()),
                    "one pod a node; its configuration must carry the same overrides as CoreDNS",
                )
                .not_when("lookups fail always and not now and then: then the resolver is down (P10)"),
                remedy(
                    "set single-request-reopen in the pods' dnsConfig",
                    None,
                    "the pods restart; each lookup takes a second round trip",
                )
                .not_when("images use musl, which does not know the option"),
            ]
        },
    },
    Cause {
        id: "F15",
        title: "one name fails: split horizon, an override, or its zone",
        regions: &[RegionKind::DnsName],
        profile: |_| profiles::DNS,
        likelier: |_| 1.0,
        mechanism: |s| {
            let name = s.member().unwrap_or("the name").to_owned();
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::AllFail, Claim::EveryClient, Claim::OtherNamesPass][..],
                        format!("only {name} does not resolve, on any node"),
                    ),
                    (
                        &[Claim::OtherNamesPass],
                        format!("an override or the zone of {name}, while other names resolve"),
                    ),
                    (&[], format!("an override or the zone of {name}")),
                ])
                .clauses()
        },
        remedies: |_| {
            vec![
                remedy(
                    "compare the answer inside with the public one, and the overrides in the resolver's configuration",
                    Some("kubectl -n kube-system get configmap coredns -o yaml".to_owned()),
                    "an override shadows the public name for every pod",
                )
                .not_when("the zone itself is broken: then the name fails outside, too"),
            ]
        },
    },
];

/// The race has signs of its own, and a resolver that is away, hung or filtered has others.
fn is_race(s: &CauseContext<'_>) -> bool {
    Claim::OneOfTwoLost.holds(s) && !Claim::LostOverTcp.holds(s) && !Claim::NoResolver.holds(s)
}
