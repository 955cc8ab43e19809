//! Names that do not resolve.

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
            vec![remedy(
                format!(
                    "look at the node-local resolver of {} and at its way to the cluster resolver",
                    s.member()
                ),
                Some(format!(
                    "kubectl -n kube-system get pods -o wide --field-selector spec.nodeName={}",
                    s.member()
                )),
                "restarting a node-local resolver interrupts names on that node for seconds",
            )]
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
            )]
        },
    },
];
