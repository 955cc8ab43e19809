//! Bridge ports that do not reflect: a pod that its Service sends back to itself gets no answer (F11).

use std::collections::BTreeSet;

use parallax_model::NodeName;

use super::{Hazard, HazardKind, id, listed, who};
use crate::{findings::Severity, topology::Topology, verdict::Remedy};

/// Services named before the rest is a number.
const NAMED: usize = 6;

pub(super) fn hazards(topology: &Topology) -> Vec<Hazard> {
    // Without bridge-nf-call-iptables the bridge answers within the node before any translation: another failure.
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
            let here = |node: &NodeName| !service.usable_on(node).is_empty();
            nodes.iter().any(here)
        })
        .collect();
    if services.is_empty() {
        return None;
    }
    let mut evidence = vec![format!("hairpin is off on {}", listed(nodes))];
    evidence.extend(services.iter().take(NAMED).map(|service| {
        format!(
            "Service {} has {} there or elsewhere: one call in {} of its own pods comes back to the caller",
            service.key,
            crate::wording::plural(service.usable().len(), "endpoint"),
            service.usable().len()
        )
    }));
    if services.len() > NAMED {
        evidence.push(format!("and {} more Services", services.len() - NAMED));
    }
    let who = who(nodes, topology, "pods on ");
    let (what, fails) = if bridged {
        (
            "themselves",
            "time out once in as many calls as the Service has endpoints",
        )
    } else {
        (
            "other pods of their own node",
            "time out (bridge-nf-call-iptables is 0, so the bridge answers without translation)",
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
            "{} that call {what} through one of {} would {fails}: hairpin mode is off there",
            who.words,
            crate::wording::plural(services.len(), "Service"),
        ),
        who,
        evidence,
        remedies: vec![
            Remedy::new(
                "set hairpinMode: true in the CNI configuration",
                Some("kubectl -n kube-flannel edit configmap kube-flannel-cfg".to_owned()),
                format!(
                    "takes effect for pods that start afterwards: the pods on {} restart",
                    crate::wording::plural(nodes.len(), "node")
                ),
            )
            .not_when("a NetworkPolicy drops the reflected packet, or the CNI has no bridge"),
            Remedy::new(
                "use a headless Service for calls to oneself",
                None,
                "clients choose among addresses themselves and notice a gone endpoint later",
            )
            .not_when("the client keeps the balancer or cluster address"),
        ],
    })
}
