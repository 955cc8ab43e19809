//! Services whose endpoints Kubernetes itself withdrew.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{NodeName, Round, ServiceKey};

use super::{EndpointCondition, Readiness, Service, Topology};

/// Rounds after the nodes are ready again in which failures may still come of the withdrawal: the endpoints return, and
/// each node's Service rules follow.
const AFTERMATH: i64 = 3;

/// Rounds that are remembered: as many as a window of evidence has at most.
const REMEMBERED: i64 = 120;

/// When Services were last without their endpoints because of their nodes. A window of evidence is longer than the withdrawal.
#[derive(Debug, Default)]
pub(crate) struct Withdrawals {
    last: BTreeMap<ServiceKey, (Round, BTreeSet<NodeName>)>,
}

impl Withdrawals {
    /// Takes in what holds in a round.
    pub(crate) fn take(&mut self, round: Round, topology: &Topology) {
        self.last.retain(|_, (last, _)| round.0 - last.0 <= REMEMBERED);
        if topology
            .nodes
            .values()
            .all(|node| node.readiness != Readiness::NotReady)
        {
            return;
        }
        for (key, service) in topology.services() {
            let Some(nodes) = topology.withdrawn(service) else {
                continue;
            };
            let nodes = nodes.into_iter().cloned().collect();
            self.last.insert(key.clone(), (round, nodes));
        }
    }

    /// The nodes that were not ready when a Service last lost its endpoints to that, where this explains failures as late as
    /// those of a round.
    pub(crate) fn nodes_of(&self, key: &ServiceKey, failed: Round) -> Option<&BTreeSet<NodeName>> {
        let (last, nodes) = self.last.get(key)?;
        (failed.0 - last.0 <= AFTERMATH).then_some(nodes)
    }

    /// All Services that lost theirs of late, in order.
    pub(crate) fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.last.keys()
    }
}

impl Topology {
    /// The nodes whose condition took a Service its endpoints, by name: it has endpoints, and every one of them is not
    /// ready and on a node that is marked `NotReady`. The node lifecycle controller sets the pods of such a node to not
    /// ready, and the `EndpointSlice` controller follows.
    #[must_use]
    pub fn withdrawn<'a>(&self, service: &'a Service) -> Option<Vec<&'a NodeName>> {
        let mut nodes = BTreeSet::new();
        for endpoint in &service.endpoints {
            let name = endpoint.node.as_ref()?;
            let node = self.nodes.get(name)?;
            if endpoint.condition != EndpointCondition::Unready || node.readiness != Readiness::NotReady {
                return None;
            }
            nodes.insert(name);
        }
        (!nodes.is_empty()).then(|| nodes.into_iter().collect())
    }
}

impl Service {
    /// It is `default/kubernetes`, whose endpoints the API servers themselves are: each adds its own as it starts and
    /// takes it away as it stops.
    #[must_use]
    pub fn is_api_server(&self) -> bool {
        self.key.namespace.as_str() == "default" && self.key.name.as_str() == "kubernetes"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::topology::TopologySpec;

    /// Whether each of two endpoints is ready, and each of their nodes.
    fn withdrawn(endpoints: [bool; 2], nodes: [&str; 2]) -> Option<Vec<String>> {
        let spec: TopologySpec = serde_json::from_value(json!({
            "nodes": [{"name": "n1", "readiness": nodes[0]}, {"name": "n2", "readiness": nodes[1]}],
            "services": [{"namespace": "shop", "name": "web", "clusterIPs": ["10.96.0.7"],
                "ports": [{"port": 80, "targetPort": 8080}], "endpoints": [
                    {"pod": "web-1", "address": "10.244.1.10", "node": "n1", "ready": endpoints[0]},
                    {"pod": "web-2", "address": "10.244.2.10", "node": "n2", "ready": endpoints[1]}]}],
        }))
        .unwrap();
        let topology = Topology::try_from(spec).unwrap();
        let service = topology.services().values().next().unwrap();
        let nodes = topology.withdrawn(service)?;
        Some(nodes.into_iter().map(ToString::to_string).collect())
    }

    #[test]
    fn endpoints_are_withdrawn_where_all_are_unready_on_nodes_that_are_not_ready() {
        let both = Some(vec!["n1".to_owned(), "n2".to_owned()]);
        assert_eq!(withdrawn([false, false], ["NotReady", "NotReady"]), both);
        // A pod that is not ready on a node that is has its own reason.
        assert_eq!(withdrawn([false, false], ["NotReady", "Ready"]), None);
        assert_eq!(withdrawn([false, false], ["NotReady", "Unknown"]), None);
        assert_eq!(withdrawn([false, true], ["NotReady", "NotReady"]), None);
    }

    #[test]
    fn a_service_without_any_endpoint_lost_none() {
        let topology = Topology::default();
        let spec: TopologySpec = serde_json::from_value(json!({
            "services": [{"namespace": "shop", "name": "web", "ports": [{"port": 80, "targetPort": 8080}]}],
        }))
        .unwrap();
        let empty = Topology::try_from(spec).unwrap();
        let service = empty.services().values().next().unwrap();
        assert_eq!(topology.withdrawn(service), None);
        assert!(!service.is_api_server());
    }
}
