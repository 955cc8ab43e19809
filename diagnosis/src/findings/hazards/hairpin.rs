//! Bridge ports with hairpin mode off: a Pod that its Service routes back to itself gets no response (F11).

use std::collections::BTreeSet;

use parallax_model::NodeName;

use super::{Hazard, HazardKind, affected_clients, id, listed};
use crate::{findings::Severity, topology::Topology, verdict::Remedy};

/// Maximum number of Services listed by name.
const MAX_NAMED: usize = 6;

pub(super) fn hazards(topology: &Topology) -> Vec<Hazard> {
    // Without bridge-nf-call-iptables, the bridge forwards within the node before NAT, which fails differently.
    let off = |bridged: bool| -> BTreeSet<NodeName> {
        topology
            .nodes()
            .values()
            .filter(|node| node.facts.hairpin == Some(false))
            .filter(|node| (node.facts.bridge_nf_call_iptables != Some(false)) == bridged)
            .map(|node| node.name.clone())
            .collect()
    };
    [(true, off(true)), (false, off(false))]
        .into_iter()
        .filter(|(_, nodes)| !nodes.is_empty())
        .filter_map(|(bridged, nodes)| hazard(topology, &nodes, bridged))
        .collect()
}

fn hazard(topology: &Topology, nodes: &BTreeSet<NodeName>, bridged: bool) -> Option<Hazard> {
    let services: Vec<_> = topology
        .services()
        .values()
        .filter(|service| topology.fronts().values().any(|info| info.service == service.key))
        .filter(|service| {
            let has_endpoint = |node: &NodeName| !service.usable_on(node).is_empty();
            nodes.iter().any(has_endpoint)
        })
        .collect();
    if services.is_empty() {
        return None;
    }
    let mut evidence = vec![format!("hairpin mode is off on {}", listed(nodes))];
    evidence.extend(services.iter().take(MAX_NAMED).map(|service| {
        format!(
            "Service {} has {} in total: one in {} calls from its own Pods returns to the caller",
            service.key,
            crate::wording::pluralize(service.usable().len(), "endpoint"),
            service.usable().len()
        )
    }));
    if services.len() > MAX_NAMED {
        evidence.push(format!("and {} more Services", services.len() - MAX_NAMED));
    }
    let affected = affected_clients(nodes, topology, "Pods on ");
    let (callee, fails) = if bridged {
        (
            "themselves",
            "time out once in as many calls as the Service has endpoints",
        )
    } else {
        (
            "other Pods on their own node",
            "time out (bridge-nf-call-iptables is 0, so responses cross the bridge without address translation)",
        )
    };
    let subject = if bridged {
        "hairpin"
    } else {
        "hairpin without bridge-nf-call-iptables"
    };
    Some(Hazard {
        id: id(HazardKind::Hairpin, subject),
        kind: HazardKind::Hairpin,
        severity: Severity::Warning,
        subject: format!("hairpin on {}", listed(nodes)),
        sentence: format!(
            "{} that call {callee} through one of {} would {fails}: hairpin mode is off there",
            affected.description,
            crate::wording::pluralize(services.len(), "Service"),
        ),
        affected,
        evidence,
        remedies: vec![
            Remedy::new(
                "set hairpinMode: true in the CNI configuration",
                Some("kubectl -n kube-flannel edit configmap kube-flannel-cfg".to_owned()),
                format!(
                    "takes effect only for Pods that start afterwards: restart the Pods on {}",
                    crate::wording::pluralize(nodes.len(), "node")
                ),
            )
            .with_ineffective_when(
                "a NetworkPolicy drops the hairpin packet, or the CNI does not use a bridge",
            ),
            Remedy::new(
                "use a headless Service where Pods call their own Service",
                None,
                "clients choose among the addresses themselves and notice a removed endpoint later",
            )
            .with_ineffective_when("the client keeps using the load balancer address or the ClusterIP"),
        ],
    })
}
