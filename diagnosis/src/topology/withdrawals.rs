//! Services whose endpoints Kubernetes itself withdrew.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{NodeName, PodName, Round, ServiceKey};

use super::{Endpoint, EndpointCondition, NodeReadiness, Service, Topology};

/// Rounds after the endpoints' return in which failures may still come of the withdrawal, as the Service rules of a node may
/// be without them: measured 20 s and 26 s after an absence of the API server; kube-proxy waits up to a minute between two
/// attempts to watch.
const AFTERMATH: i64 = 12;

/// Rounds that are remembered: as many as a window of evidence has at most.
const REMEMBERED: i64 = 120;

/// Rounds after the nodes are ready again in which the same Pods may still not be: a kubelet corrects their conditions when
/// its watch has found the API server again, for which it waits up to a minute.
const RETURN: i64 = 24;

/// When Services were last without their endpoints because of their nodes. A window of evidence is longer than the withdrawal.
#[derive(Debug, Default)]
pub(crate) struct EndpointWithdrawals {
    services: BTreeMap<ServiceKey, WithdrawnService>,
    /// The last round in which a node was not ready, of those that were of late. After an absence of the API server the
    /// `EndpointSlice` controller may follow only when the nodes are ready again.
    nodes: BTreeMap<NodeName, Round>,
}

/// A Service that lost its endpoints.
#[derive(Debug)]
struct WithdrawnService {
    /// The last round in which it was without them.
    last: Round,
    /// The last round in which one of their nodes was not ready.
    not_ready: Round,
    nodes: BTreeSet<NodeName>,
    pods: BTreeSet<PodName>,
}

impl WithdrawnService {
    /// Whether none of the endpoints has returned yet.
    fn lasts(&self, round: Round, service: &Service) -> bool {
        let mut endpoints = service.endpoints.iter();
        round.0 - self.not_ready.0 <= RETURN
            && service.has_only_unready_endpoints()
            && endpoints.all(|endpoint| self.pods.contains(&endpoint.pod))
    }
}

impl EndpointWithdrawals {
    /// Takes in what holds in a round.
    pub(crate) fn take(&mut self, round: Round, topology: &Topology) {
        self.services
            .retain(|_, withdrawn| round.0 - withdrawn.last.0 <= REMEMBERED);
        for (key, withdrawn) in &mut self.services {
            let service = topology.service(key);
            // A withdrawal that is over does not go on when a Pod fails for its own reason.
            if round.0 - withdrawn.last.0 <= 1
                && service.is_some_and(|service| withdrawn.lasts(round, service))
            {
                withdrawn.last = round;
            }
        }
        let not_ready = topology
            .nodes
            .values()
            .filter(|node| node.readiness == NodeReadiness::NotReady);
        self.nodes
            .extend(not_ready.map(|node| (node.name.clone(), round)));
        self.nodes.retain(|_, last| round.0 - last.0 <= RETURN);
        if self.nodes.is_empty() {
            return;
        }
        for (key, service) in topology.services() {
            if let Some(withdrawn) = self.withdrawn(round, key, service) {
                self.services.insert(key.clone(), withdrawn);
            }
        }
    }

    /// A Service whose endpoints are withdrawn because of their nodes: all of them are not ready, and each of their nodes is
    /// not, or was of late. In the latter case only once: endpoints that came back since and are gone again have another
    /// reason.
    fn withdrawn(&self, round: Round, key: &ServiceKey, service: &Service) -> Option<WithdrawnService> {
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
        if first < round && before.is_some_and(|before| round.0 - before.not_ready.0 <= RETURN) {
            return None;
        }
        Some(WithdrawnService {
            last: round,
            not_ready,
            nodes: nodes.into_keys().collect(),
            pods: service
                .endpoints
                .iter()
                .map(|endpoint| endpoint.pod.clone())
                .collect(),
        })
    }

    /// The nodes that were not ready when a Service last lost its endpoints to that, where this explains failures
    /// as late as those of a round.
    pub(crate) fn nodes_of(&self, key: &ServiceKey, failed: Round) -> Option<&BTreeSet<NodeName>> {
        let withdrawn = self.services.get(key)?;
        (failed.0 - withdrawn.last.0 <= AFTERMATH).then_some(&withdrawn.nodes)
    }

    /// All Services that lost theirs of late, in order.
    pub(crate) fn services(&self) -> impl Iterator<Item = &ServiceKey> {
        self.services.keys()
    }
}

impl Topology {
    /// Whether a Service is without its endpoints because of their nodes, now: every one is not ready and on a node that is
    /// marked `NotReady`. The node lifecycle controller sets the pods of such a node to not ready, and the `EndpointSlice`
    /// controller follows.
    pub(crate) fn has_withdrawn(&self, service: &Service) -> bool {
        let not_ready = |endpoint: &Endpoint| {
            let node = endpoint.node.as_ref().and_then(|name| self.nodes.get(name));
            node.is_some_and(|node| node.readiness == NodeReadiness::NotReady)
        };
        service.has_only_unready_endpoints() && service.endpoints.iter().all(not_ready)
    }
}

impl Service {
    /// Whether it has endpoints, and none of them is ready or terminating.
    pub(crate) fn has_only_unready_endpoints(&self) -> bool {
        let unready = |endpoint: &Endpoint| endpoint.condition == EndpointCondition::Unready;
        !self.endpoints.is_empty() && self.endpoints.iter().all(unready)
    }

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

    /// Whether each of two endpoints is ready, and each of their nodes.
    fn withdrawn(endpoints: [bool; 2], nodes: [&str; 2]) -> Option<Vec<String>> {
        let topology = topology([("web-1", endpoints[0]), ("web-2", endpoints[1])], nodes);
        let service = topology.services().values().next().unwrap();
        let mut withdrawals = EndpointWithdrawals::default();
        withdrawals.take(Round(0), &topology);
        let nodes = withdrawals.nodes_of(&service.key, Round(0));
        assert_eq!(topology.has_withdrawn(service), nodes.is_some());
        Some(nodes?.iter().map(ToString::to_string).collect())
    }

    /// Whether failures of each round are explained, after all nodes were not ready in the rounds 0 to 4, while the
    /// endpoints are `after`.
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
                withdrawals.take(Round(round), &now);
                withdrawals.nodes_of(key, Round(round)).is_some()
            })
            .collect()
    }

    /// The first round that is not explained.
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
        // Back once, and not ready again.
        let again = |round| [("web-1", round == 6), ("web-2", false)];
        assert_eq!(ends(again), Some(18));
    }

    /// Seen on a real cluster after an absence of the API server: the `EndpointSlice` controller's watch of Pods was not back
    /// for a minute, and it followed when the nodes were ready again.
    #[test]
    fn endpoints_may_be_withdrawn_only_when_the_nodes_are_ready_again_and_then_once() {
        let explained = |after: &dyn Fn(i64) -> bool| {
            let mut withdrawals = EndpointWithdrawals::default();
            let day = (0..60).map(|round| {
                let nodes = if round < 5 { "NotReady" } else { "Ready" };
                let now = topology([("web-1", after(round)), ("web-2", after(round))], [nodes; 2]);
                withdrawals.take(Round(round), &now);
                let key = now.services().keys().next().unwrap();
                withdrawals.nodes_of(key, Round(round)).is_some()
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
        assert!(!topology.has_withdrawn(service));
        assert!(!service.is_api_server());
    }
}
