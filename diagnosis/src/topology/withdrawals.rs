//! Services whose endpoints Kubernetes withdrew because their nodes are not ready.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{NodeName, PodName, Round, ServiceKey};

use super::{Endpoint, EndpointCondition, NodeReadiness, Service, Topology};

/// Rounds after the return of the endpoints in which failures may still result from the withdrawal, because a
/// node's Service rules may lag behind: measured 20 s and 26 s after an absence of the API server; kube-proxy
/// waits up to a minute between two attempts to watch.
const AFTERMATH_ROUNDS: i64 = 12;

/// Rounds for which a withdrawal is kept: the maximum length of an evidence window.
const RETENTION_ROUNDS: i64 = 120;

/// Rounds after the nodes are ready again in which their Pods may still be unready: a kubelet corrects the
/// conditions once its watch has reconnected to the API server, which may take up to a minute.
const RETURN_ROUNDS: i64 = 24;

/// Last withdrawal of each Service's endpoints. Kept for longer than the withdrawal, because evidence windows are
/// longer.
#[derive(Debug, Default)]
pub(crate) struct EndpointWithdrawals {
    services: BTreeMap<ServiceKey, WithdrawnService>,
    /// Last round in which each recently unready node was not ready. After an absence of the API server the
    /// EndpointSlice controller may withdraw endpoints only after the nodes are ready again.
    nodes: BTreeMap<NodeName, Round>,
}

/// A Service that lost its endpoints.
#[derive(Debug)]
struct WithdrawnService {
    /// Last round without endpoints.
    last_withdrawn: Round,
    /// Last round in which one of the nodes was not ready.
    last_not_ready: Round,
    nodes: BTreeSet<NodeName>,
    pods: BTreeSet<PodName>,
}

impl WithdrawnService {
    /// Reports whether none of the endpoints has returned yet.
    fn is_ongoing(&self, round: Round, service: &Service) -> bool {
        let mut endpoints = service.endpoints.iter();
        round.0 - self.last_not_ready.0 <= RETURN_ROUNDS
            && service.has_only_unready_endpoints()
            && endpoints.all(|endpoint| self.pods.contains(&endpoint.pod))
    }
}

impl EndpointWithdrawals {
    /// Adds the topology of one round.
    pub(crate) fn update(&mut self, round: Round, topology: &Topology) {
        self.services
            .retain(|_, withdrawn| round.0 - withdrawn.last_withdrawn.0 <= RETENTION_ROUNDS);
        for (key, withdrawn) in &mut self.services {
            let service = topology.service(key);
            // A withdrawal that has ended does not resume when a Pod fails for its own reason.
            if round.0 - withdrawn.last_withdrawn.0 <= 1
                && service.is_some_and(|service| withdrawn.is_ongoing(round, service))
            {
                withdrawn.last_withdrawn = round;
            }
        }
        let not_ready = topology
            .nodes
            .values()
            .filter(|node| node.readiness == NodeReadiness::NotReady);
        self.nodes
            .extend(not_ready.map(|node| (node.name.clone(), round)));
        self.nodes.retain(|_, last| round.0 - last.0 <= RETURN_ROUNDS);
        if self.nodes.is_empty() {
            return;
        }
        for (key, service) in topology.services() {
            if let Some(withdrawn) = self.detect(round, key, service) {
                self.services.insert(key.clone(), withdrawn);
            }
        }
    }

    /// Returns the withdrawal of a Service: all endpoints are unready, and each of their nodes is not ready or
    /// recently was not. In the latter case only once: endpoints that returned and disappeared again have another
    /// reason.
    fn detect(&self, round: Round, key: &ServiceKey, service: &Service) -> Option<WithdrawnService> {
        if !service.has_only_unready_endpoints() {
            return None;
        }
        let mut nodes = BTreeMap::new();
        for endpoint in &service.endpoints {
            let (name, last) = self.nodes.get_key_value(endpoint.node.as_ref()?)?;
            nodes.insert(name.clone(), *last);
        }
        let (first, not_ready) = (*nodes.values().min()?, *nodes.values().max()?);
        let before = self.services.get(key);
        if first < round && before.is_some_and(|before| round.0 - before.last_not_ready.0 <= RETURN_ROUNDS) {
            return None;
        }
        Some(WithdrawnService {
            last_withdrawn: round,
            last_not_ready: not_ready,
            nodes: nodes.into_keys().collect(),
            pods: service
                .endpoints
                .iter()
                .map(|endpoint| endpoint.pod.clone())
                .collect(),
        })
    }

    /// Returns the nodes whose unreadiness withdrew the endpoints of a Service, if this explains failures as late
    /// as round `failed`.
    pub(crate) fn nodes_explaining(&self, key: &ServiceKey, failed: Round) -> Option<&BTreeSet<NodeName>> {
        let withdrawn = self.services.get(key)?;
        (failed.0 - withdrawn.last_withdrawn.0 <= AFTERMATH_ROUNDS).then_some(&withdrawn.nodes)
    }

    /// Returns all Services with a recent withdrawal, in order.
    pub(crate) fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services.keys()
    }
}

impl Topology {
    /// Reports whether a Service's endpoints are currently withdrawn because of their nodes: every endpoint is
    /// unready and its node `NotReady`. The node lifecycle controller marks the Pods of such a node unready, and
    /// the EndpointSlice controller follows.
    pub(crate) fn is_withdrawn(&self, service: &Service) -> bool {
        let not_ready = |endpoint: &Endpoint| {
            let node = endpoint.node.as_ref().and_then(|name| self.nodes.get(name));
            node.is_some_and(|node| node.readiness == NodeReadiness::NotReady)
        };
        service.has_only_unready_endpoints() && service.endpoints.iter().all(not_ready)
    }
}

impl Service {
    /// Reports whether the Service has endpoints and none of them is ready or draining.
    pub(crate) fn has_only_unready_endpoints(&self) -> bool {
        let unready = |endpoint: &Endpoint| endpoint.condition == EndpointCondition::Unready;
        !self.endpoints.is_empty() && self.endpoints.iter().all(unready)
    }

    /// Reports whether this is `default/kubernetes`, whose endpoints are the API servers: each adds its own when
    /// it starts and removes it when it stops.
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

    fn topology(endpoints: [(&str, bool); 2], nodes: [&str; 2]) -> Topology {
        let spec: TopologySpec = serde_json::from_value(json!({
            "nodes": [{"name": "n1", "readiness": nodes[0]}, {"name": "n2", "readiness": nodes[1]}],
            "services": [{"namespace": "shop", "name": "web", "clusterIPs": ["10.96.0.7"],
                "ports": [{"port": 80, "targetPort": 8080}], "endpoints": [
                    {"pod": endpoints[0].0, "address": "10.244.1.10", "node": "n1", "ready": endpoints[0].1},
                    {"pod": endpoints[1].0, "address": "10.244.2.10", "node": "n2", "ready": endpoints[1].1}]}],
        }))
        .unwrap();
        Topology::try_from(spec).unwrap()
    }

    /// Returns the nodes of a withdrawal, given the readiness of two endpoints and of their nodes.
    fn withdrawn_nodes(endpoints: [bool; 2], nodes: [&str; 2]) -> Option<Vec<String>> {
        let topology = topology([("web-1", endpoints[0]), ("web-2", endpoints[1])], nodes);
        let service = topology.services().values().next().unwrap();
        let mut withdrawals = EndpointWithdrawals::default();
        withdrawals.update(Round(0), &topology);
        let nodes = withdrawals.nodes_explaining(&service.key, Round(0));
        assert_eq!(topology.is_withdrawn(service), nodes.is_some());
        Some(nodes?.iter().map(ToString::to_string).collect())
    }

    /// Reports for each round whether failures are explained, after all nodes were not ready in rounds 0 to 4 and
    /// the endpoints are `after`.
    fn explained(after: impl Fn(i64) -> [(&'static str, bool); 2]) -> Vec<bool> {
        let gone = topology([("web-1", false), ("web-2", false)], ["NotReady"; 2]);
        let key = gone.services().keys().next().unwrap();
        let mut withdrawals = EndpointWithdrawals::default();
        (0..60)
            .map(|round| {
                let now = if round < 5 {
                    gone.clone()
                } else {
                    topology(after(round), ["Ready"; 2])
                };
                withdrawals.update(Round(round), &now);
                withdrawals.nodes_explaining(key, Round(round)).is_some()
            })
            .collect()
    }

    /// Returns the first unexplained round.
    fn ends(after: impl Fn(i64) -> [(&'static str, bool); 2]) -> Option<usize> {
        explained(after).iter().position(|explained| !explained)
    }

    #[test]
    fn a_withdrawal_lasts_until_an_endpoint_returns_though_the_nodes_are_ready() {
        let late = |round| [("web-1", round >= 14), ("web-2", false)];
        assert_eq!(ends(late), Some(26));
        assert_eq!(ends(|_| [("web-1", true), ("web-2", true)]), Some(17));
    }

    #[test]
    fn endpoints_that_do_not_return_or_are_others_have_their_own_reason() {
        assert_eq!(ends(|_| [("web-1", false), ("web-2", false)]), Some(41));
        assert_eq!(ends(|_| [("web-3", false), ("web-4", false)]), Some(17));
        // Ready once, then unready again.
        let again = |round| [("web-1", round == 6), ("web-2", false)];
        assert_eq!(ends(again), Some(18));
    }

    /// Observed on a real cluster after an absence of the API server: the EndpointSlice controller's watch of Pods
    /// took a minute to reconnect, and it withdrew the endpoints after the nodes were ready again.
    #[test]
    fn endpoints_may_be_withdrawn_only_when_the_nodes_are_ready_again_and_then_once() {
        let explained = |after: &dyn Fn(i64) -> bool| {
            let mut withdrawals = EndpointWithdrawals::default();
            let day = (0..60).map(|round| {
                let nodes = if round < 5 { "NotReady" } else { "Ready" };
                let now = topology([("web-1", after(round)), ("web-2", after(round))], [nodes; 2]);
                withdrawals.update(Round(round), &now);
                let key = now.services().keys().next().unwrap();
                withdrawals.nodes_explaining(key, Round(round)).is_some()
            });
            let day: Vec<bool> = day.collect();
            let first = day.iter().position(|explained| *explained);
            first.map(|first| (first, day.iter().filter(|explained| **explained).count()))
        };
        assert_eq!(explained(&|round| !(12..15).contains(&round)), Some((12, 3 + 12)));
        let twice = |round| !(12..15).contains(&round) && !(20..23).contains(&round);
        assert_eq!(explained(&twice), Some((12, 3 + 12)));
        assert_eq!(explained(&|round| !(40..43).contains(&round)), None);
    }

    #[test]
    fn endpoints_are_withdrawn_where_all_are_unready_on_nodes_that_are_not_ready() {
        let both = Some(vec!["n1".to_owned(), "n2".to_owned()]);
        assert_eq!(withdrawn_nodes([false, false], ["NotReady", "NotReady"]), both);
        // An unready Pod on a ready node has its own reason.
        assert_eq!(withdrawn_nodes([false, false], ["NotReady", "Ready"]), None);
        assert_eq!(withdrawn_nodes([false, false], ["NotReady", "Unknown"]), None);
        assert_eq!(withdrawn_nodes([false, true], ["NotReady", "NotReady"]), None);
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
        assert!(!topology.is_withdrawn(service));
        assert!(!service.is_api_server());
    }
}
