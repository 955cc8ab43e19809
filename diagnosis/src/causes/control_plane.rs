//! Endpoints that Kubernetes itself takes away: from nodes that are not ready, and from its own API server.

use super::{Cause, Situation, remedy};
use crate::{
    evidence::{Claim, Wording, listed},
    region::RegionKind,
};

const WITHDRAWN: &[RegionKind] = &[
    RegionKind::Target,
    RegionKind::Vip,
    RegionKind::ProtoVip,
    RegionKind::Same,
    RegionKind::SameVip,
    RegionKind::DnsAll,
];

/// Causes that do not apply where Kubernetes itself took the endpoints: they would blame what is behind it.
pub(super) const OUTRANKED: &[&str] = &["F26", "P5", "P6", "P10", "F11b"];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: "P11",
        title: "nodes are marked NotReady: Kubernetes withdrew their endpoints",
        regions: WITHDRAWN,
        profile: |_| [2.0, 4.0, 0.5, 1.0, 0.2, 0.1, 1.0, 2.0, 1.0, 1.0],
        likelier: |s| if s.withdrawn().is_some() { 100.0 } else { 0.0 },
        mechanism: |s| {
            let (service, nodes) = withdrawn(s);
            Wording::of(s)
                .say_if(
                    &[Claim::Withdrawn],
                    format!("{nodes} marked NotReady, so Kubernetes withdrew the endpoints of {service}"),
                )
                .clauses()
        },
        remedies: |s| {
            let node = s.withdrawn().and_then(|(_, nodes)| nodes.first().copied());
            vec![
                remedy(
                    "find out why the kubelets do not renew their Leases: the API server, the way to it, or the kubelets \
                     themselves",
                    Some(node.map_or_else(
                        || "kubectl get nodes -o wide".to_owned(),
                        |node| format!("kubectl describe node {node}"),
                    )),
                    "nothing: reading only",
                )
                .not_when("the API server has just come back: the nodes are ready again within a minute"),
            ]
        },
    },
    Cause {
        id: "P12",
        title: "the API server withdrew its own endpoint: it is being restarted or cannot be reached",
        regions: &[
            RegionKind::Target,
            RegionKind::Vip,
            RegionKind::ProtoVip,
            RegionKind::Backend,
            RegionKind::Same,
            RegionKind::SameVip,
        ],
        profile: |_| [4.0, 5.0, 1.0, 1.0, 0.3, 1.0, 0.3, 2.0, 0.1, 0.1],
        likelier: |s| match (Claim::ApiServer.holds(s), Claim::NoEndpoint.holds(s)) {
            (true, true) => 100.0,
            (true, false) => 20.0,
            (false, _) => 0.0,
        },
        mechanism: |s| {
            Wording::of(s)
                .say_first([
                    (
                        &[Claim::ApiServer, Claim::NoEndpoint][..],
                        "the API server withdrew its own endpoint: it is being restarted or cannot be reached"
                            .to_owned(),
                    ),
                    (
                        &[],
                        "the API server is being restarted or cannot be reached".to_owned(),
                    ),
                ])
                .clauses()
        },
        remedies: |_| {
            vec![remedy(
                "look at the API server on the control plane nodes: its process, its log, etcd behind it",
                Some("kubectl get --raw /readyz".to_owned()),
                "nothing: reading only; what runs goes on without it",
            )]
        },
    },
];

/// "Service shop/web" and "nodes n1 and n2 are", where there is such a Service.
fn withdrawn(s: &Situation<'_>) -> (String, String) {
    let Some((service, nodes)) = s.withdrawn() else {
        return Default::default();
    };
    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let nodes = match names.as_slice() {
        [one] => format!("node {one} is"),
        more => format!("nodes {} are", listed(more)),
    };
    (format!("Service {}", service.key), nodes)
}
