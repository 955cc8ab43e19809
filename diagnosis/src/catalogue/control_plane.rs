//! Endpoints that Kubernetes itself withdraws: those on nodes that are not ready, and those of its API server.

use parallax_model::KindClass;

use super::{Cause, Claim, EndpointWithdrawal, Wording, remedy};
use crate::{inference::kind_profiles, regions::RegionKind, wording::join_names};

const REGIONS: &[RegionKind] = &[
    RegionKind::Target,
    RegionKind::Vip,
    RegionKind::ProtoVip,
    RegionKind::Backend,
    RegionKind::Same,
    RegionKind::SameVip,
    RegionKind::DnsAll,
    RegionKind::ClientVip,
    RegionKind::DnsClient,
];

/// Regions of the clients of one node, whose Service rules may be updated later than those of the other nodes.
const SINGLE_NODE_REGIONS: [RegionKind; 2] = [RegionKind::ClientVip, RegionKind::DnsClient];

const RESPONSES: &[KindClass] = &[KindClass::Http4xx, KindClass::Http5xx];

/// The cause that is one incident regardless of how many Services it affects.
pub(crate) const WITHDRAWN_ENDPOINTS: &str = "P11";

/// Causes that do not apply if Kubernetes itself withdrew the endpoints: they would blame a consequence.
pub(super) const OUTRANKED: &[&str] = &["F26", "P4", "P5", "P6", "P9", "P10", "F11b", "F24"];

pub(crate) const CAUSES: &[Cause] = &[
    Cause {
        id: WITHDRAWN_ENDPOINTS,
        title: "nodes are NotReady, so Kubernetes withdrew their endpoints",
        regions: REGIONS,
        // Behind a route the controller responds; DNS queries get no response.
        profile: |s| match (s.region, s.share(RESPONSES) > 0.5) {
            (RegionKind::DnsAll | RegionKind::DnsClient, _) => kind_profiles::DNS,
            (_, true) => [0.3, 0.3, 0.1, 0.1, 0.1, 0.1, 5.0, 5.0, 0.1, 0.1],
            (_, false) => [2.0, 8.0, 0.1, 1.0, 0.1, 0.1, 0.1, 0.3, 1.0, 0.1],
        },
        weight: |s| if s.withdrawal.is_some() { 1000.0 } else { 0.0 },
        mechanism: |s| {
            let description = s.withdrawal.as_ref().map(withdrawal_text).unwrap_or_default();
            let wording = Wording::new(s).add_if(&[Claim::Withdrawn], description);
            match &s.withdrawal {
                Some(withdrawal) if SINGLE_NODE_REGIONS.contains(&s.region) && withdrawal.returned => {
                    let node = s.node_text();
                    let late = format!(
                        ", and the Service rules of {node} do not include the returned endpoints yet"
                    );
                    wording.add_if(&[Claim::Withdrawn], late).clauses()
                }
                _ => wording.clauses(),
            }
        },
        remedies: |s| {
            let node = s
                .withdrawal
                .as_ref()
                .and_then(|withdrawal| withdrawal.nodes.first());
            vec![
                remedy(
                    "find out why the kubelets do not renew their Leases: the API server, the network path to it, or \
                     the kubelets themselves",
                    Some(node.map_or_else(
                        || "kubectl get nodes -o wide".to_owned(),
                        |node| format!("kubectl describe node {node}"),
                    )),
                    "none (read-only)",
                )
                .with_ineffective_when("the API server came back moments ago: the nodes become Ready again within a minute"),
            ]
        },
    },
    Cause {
        id: "P12",
        title: "the API server withdrew its own endpoint: it is restarting or unreachable",
        regions: &[
            RegionKind::Target,
            RegionKind::Vip,
            RegionKind::ProtoVip,
            RegionKind::Backend,
            RegionKind::Same,
            RegionKind::SameVip,
        ],
        profile: |_| [4.0, 5.0, 1.0, 1.0, 0.3, 1.0, 0.3, 2.0, 0.1, 0.1],
        weight: |s| match (Claim::ApiServer.holds(s), Claim::NoEndpoint.holds(s)) {
            (true, true) => 100.0,
            (true, false) => 20.0,
            (false, _) => 0.0,
        },
        mechanism: |s| {
            Wording::new(s)
                .add_first([
                    (
                        &[Claim::ApiServer, Claim::NoEndpoint][..],
                        "the API server withdrew its own endpoint: it is restarting or unreachable"
                            .to_owned(),
                    ),
                    (&[], "the API server is restarting or unreachable".to_owned()),
                ])
                .clauses()
        },
        remedies: |_| {
            vec![remedy(
                "check the API server on the control plane nodes: its process, its log and its etcd",
                Some("kubectl get --raw /readyz".to_owned()),
                "none (read-only); running workloads continue without the API server",
            )]
        },
    },
];

/// "nodes n1 and n2 are marked `NotReady`, so Kubernetes withdrew the endpoints of Service shop/web".
fn withdrawal_text(withdrawal: &EndpointWithdrawal<'_>) -> String {
    let names: Vec<String> = withdrawal.nodes.iter().map(ToString::to_string).collect();
    let nodes = match (names.as_slice(), withdrawal.is_ongoing) {
        ([one], true) => format!("node {one} is"),
        ([one], false) => format!("node {one} was"),
        (more, true) => format!("nodes {} are", join_names(more)),
        (more, false) => format!("nodes {} were", join_names(more)),
    };
    let own = &withdrawal.service.key;
    let mut services = vec![own.to_string()];
    services.extend(withdrawal.others.iter().map(ToString::to_string));
    let services = match services.as_slice() {
        [one] => format!("Service {one}"),
        more => format!("Services {}", join_names(more)),
    };
    format!("{nodes} marked NotReady, so Kubernetes withdrew the endpoints of {services}")
}
