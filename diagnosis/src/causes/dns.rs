//! Names that do not resolve.

use parallax_model::KindClass;

use super::{Cause, remedy};
use crate::{kinds, region::RegionKind};

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P9",
        title: "a node's way to its resolver is broken",
        regions: &[RegionKind::DnsClient],
        profile: |_| kinds::DNS,
        likelier: |_| 1.0,
        mechanism: |s| {
            format!(
                "names do not resolve on node {}, while everything asked by address works",
                s.member()
            )
        },
        remedies: |s| {
            vec![
                remedy(
                    format!(
                        "look at the node-local resolver of {} and at its way to the cluster resolver",
                        s.member()
                    ),
                    Some(format!(
                        "kubectl -n kube-system get pods -o wide --field-selector spec.nodeName={}",
                        s.member()
                    )),
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
        profile: |_| kinds::DNS,
        likelier: |_| 1.0,
        mechanism: |_| "no name resolves on any node".to_owned(),
        remedies: |_| {
            vec![remedy(
                "look at CoreDNS: its pods, its log, its forwarders",
                Some("kubectl -n kube-system logs -l k8s-app=kube-dns --tail=50".to_owned()),
                "nothing: reading only",
            )]
        },
    },
    Cause {
        id: "F16",
        title: "one of two parallel questions is lost now and then (conntrack race)",
        regions: &[RegionKind::DnsAll, RegionKind::DnsClient],
        profile: |_| [8.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5],
        likelier: |s| {
            if s.share(&[KindClass::Timeout]) > 0.5 {
                0.2
            } else {
                0.01
            }
        },
        mechanism: |_| {
            "questions for both families leave from one port at once, and the second finds its translation taken".to_owned()
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
        profile: |_| kinds::DNS,
        likelier: |_| 1.0,
        mechanism: |s| format!("only {} does not resolve, on any node", s.member()),
        remedies: |_| {
            vec![remedy(
                "compare the answer inside with the public one, and the overrides in the resolver's configuration",
                Some("kubectl -n kube-system get configmap coredns -o yaml".to_owned()),
                "an override shadows the public name for every pod",
            )
.not_when("the zone itself is broken: then the name fails outside, too")]
        },
    },
];
