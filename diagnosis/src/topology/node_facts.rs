//! Merges node facts reported by host vantages and kube-proxy into the topology.

use std::{collections::BTreeMap, sync::Arc};

use parallax_model::NodeName;

use super::{Node, NodeFacts, ProxyMode, Service, SourceForm, Topology};

impl Topology {
    /// Returns the topology with reported facts where the spec has none. If the spec has no proxy mode, it becomes
    /// the mode on which all reporting nodes agree. The spec gets the facts too, so that a recording builds the
    /// same topology.
    #[must_use]
    pub fn with_facts(&self, reported: &BTreeMap<NodeName, NodeFacts>) -> Self {
        let mut topology = self.clone();
        let mut spec = self.spec().clone();
        for (name, node) in &mut topology.nodes {
            if let Some(facts) = reported.get(name) {
                node.facts = node.facts.or_else_from(facts);
            }
        }
        for node in &mut spec.nodes {
            if let Some(joined) = topology.nodes.get(&node.name) {
                node.facts = joined.facts.clone();
            }
        }
        if topology.proxy_mode == ProxyMode::Unknown {
            let mut modes: Vec<ProxyMode> = topology
                .nodes
                .values()
                .filter_map(|node| node.facts.proxy_mode)
                .collect();
            modes.dedup();
            if let [one] = modes[..] {
                topology.proxy_mode = one;
                spec.proxy_mode = one;
            }
        }
        topology.source = SourceForm(Arc::new(spec));
        topology
    }
}

pub(crate) fn nodes_matching(topology: &Topology, wanted: impl Fn(&NodeFacts) -> bool) -> Vec<&NodeName> {
    topology
        .nodes()
        .values()
        .filter(|node| wanted(&node.facts))
        .map(|node| &node.name)
        .collect()
}

/// Returns the nodes whose kube-proxy knows a different number of endpoints of a Service than the EndpointSlices,
/// with the known number and the published one.
pub(crate) fn stale_kube_proxies<'a>(
    topology: &'a Topology,
    service: &'a Service,
) -> impl Iterator<Item = (&'a Node, u32, usize)> {
    topology.nodes().values().filter_map(|node| {
        let known = *node.facts.local_endpoints.get(&service.key)?;
        // kube-proxy counts ready endpoints; while none is ready, it may or may not count draining ones.
        let published = service.ready_count_on(&node.name);
        let differs = usize::try_from(known).is_ok_and(|known| known != published);
        (differs && (published > 0 || service.usable_on(&node.name).is_empty()))
            .then_some((node, known, published))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::topology::TopologySpec;

    fn topology(mode: &str) -> Topology {
        let spec: TopologySpec = serde_json::from_value(json!({
            "proxyMode": mode,
            "nodes": [{"name": "n1", "facts": {"hairpin": true}}, {"name": "n2"}],
        }))
        .unwrap();
        Topology::try_from(spec).unwrap()
    }

    fn reported(modes: [&str; 2]) -> BTreeMap<NodeName, NodeFacts> {
        ["n1", "n2", "n9"]
            .into_iter()
            .zip(modes.into_iter().chain(["nftables"]))
            .map(|(name, mode)| {
                let facts = serde_json::from_value(json!({"proxyMode": mode, "hairpin": false})).unwrap();
                (name.parse().unwrap(), facts)
            })
            .collect()
    }

    #[test]
    fn what_is_written_wins_and_what_is_reported_fills_the_rest() {
        let joined = topology("unknown").with_facts(&reported(["ipvs", "ipvs"]));
        let hairpin = |name: &str| joined.nodes()[&name.parse::<NodeName>().unwrap()].facts.hairpin;
        assert_eq!((hairpin("n1"), hairpin("n2")), (Some(true), Some(false)));
        assert_eq!(joined.proxy_mode(), ProxyMode::Ipvs);
        assert_eq!(joined.nodes().len(), 2, "facts of an unknown node add no node");
    }

    #[test]
    fn a_mode_that_is_written_or_on_which_nodes_disagree_is_left() {
        let kept = topology("iptables").with_facts(&reported(["ipvs", "ipvs"]));
        assert_eq!(kept.proxy_mode(), ProxyMode::Iptables);
        let mixed = topology("unknown").with_facts(&reported(["ipvs", "iptables"]));
        assert_eq!(mixed.proxy_mode(), ProxyMode::Unknown);
    }

    #[test]
    fn the_written_form_builds_the_same_topology() {
        let joined = topology("unknown").with_facts(&reported(["ipvs", "ipvs"]));
        assert_eq!(Topology::try_from(joined.spec().clone()).unwrap(), joined);
    }
}
