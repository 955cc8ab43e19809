//! Former endpoints: responses and conntrack entries refer to them for a while after their removal.

use std::collections::{BTreeMap, BTreeSet};

use super::Topology;
use parallax_model::{EventTime, Front, Micros, NodeName, Placement, PodName, ServiceKey, Vantage};

/// How long after its removal a Pod may still be the endpoint that a probe reached.
const RETENTION: Micros = Micros::from_secs(600);

/// Node and removal time of each former endpoint.
#[derive(Debug, Default)]
pub(crate) struct FormerPods(BTreeMap<ServiceKey, BTreeMap<PodName, (NodeName, EventTime)>>);

impl FormerPods {
    /// Records the endpoints that a change of topology removed at `at`.
    pub(crate) fn replace_topology(&mut self, old: &Topology, new: &Topology, at: EventTime) {
        for (key, service) in old.services() {
            let now = new.service(key);
            if now.is_some_and(|now| now.endpoints == service.endpoints) {
                continue;
            }
            let staying: BTreeSet<&PodName> = now
                .iter()
                .flat_map(|now| now.endpoints.iter().map(|endpoint| &endpoint.pod))
                .collect();
            for endpoint in &service.endpoints {
                if let (false, Some(node)) = (staying.contains(&endpoint.pod), &endpoint.node) {
                    let pods = self.0.entry(key.clone()).or_default();
                    pods.insert(endpoint.pod.clone(), (node.clone(), at));
                }
            }
        }
        self.0.retain(|_, pods| {
            pods.retain(|_, (_, gone)| at - *gone <= RETENTION);
            !pods.is_empty()
        });
    }

    /// Returns the placement of a probe at `at` like [`Topology::placement`], including probes answered by a
    /// former endpoint. A response from the client's own node remains `same-node`, whichever endpoints are left.
    pub(crate) fn placement(
        &self,
        topology: &Topology,
        (vantage, front, entry): (&Vantage, Option<&Front>, Option<&PodName>),
        at: EventTime,
    ) -> Placement {
        let today = || topology.placement(vantage, front, entry);
        let (Some(client), Some(service), Some(pod)) = (
            vantage.node(),
            front.and_then(|front| topology.service_of(front)),
            entry,
        ) else {
            return today();
        };
        let former = self.0.get(&service.key).and_then(|pods| pods.get(pod));
        match former {
            Some((node, gone)) if at - *gone <= RETENTION && service.node_of(pod).is_none() => {
                if node == client {
                    Placement::SameNode
                } else {
                    match today() {
                        Placement::NoLocal => Placement::NoLocal,
                        _ => Placement::CrossNode,
                    }
                }
            }
            _ => today(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const GONE: EventTime = EventTime(1_000_000_000);

    fn topology(pods: &[(&str, &str)]) -> Topology {
        let endpoints: Vec<Value> = pods
            .iter()
            .enumerate()
            .map(|(i, (pod, node))| json!({"pod": pod, "address": format!("10.244.0.{i}"), "node": node}))
            .collect();
        let spec = json!({
            "proxyMode": "iptables",
            "nodes": [{"name": "n1"}, {"name": "n2"}, {"name": "n3"}],
            "services": [{"namespace": "ingress", "name": "nginx", "clusterIPs": ["10.96.0.50"],
                "ports": [{"port": 80, "targetPort": 8080}], "endpoints": endpoints}],
        });
        let spec: crate::topology::TopologySpec = serde_json::from_value(spec).unwrap();
        Topology::try_from(spec).unwrap()
    }

    /// Returns the placement of a probe from a node, answered by `pod` this many seconds after the Pod's removal.
    fn placement(former: &FormerPods, topology: &Topology, node: &str, pod: &str, seconds: i64) -> Placement {
        let (vantage, front) = (
            Vantage::pod(node.parse().unwrap()),
            "10.96.0.50:80".parse().unwrap(),
        );
        let pod = pod.parse().unwrap();
        let at = EventTime(GONE.0 + seconds * 1_000_000);
        former.placement(topology, (&vantage, Some(&front), Some(&pod)), at)
    }

    #[test]
    fn what_a_pod_answered_that_is_gone_since_keeps_its_placement_for_ten_minutes() {
        let before = topology(&[("a", "n1"), ("b", "n2"), ("c", "n2")]);
        let after = topology(&[("b", "n2"), ("c", "n2"), ("d", "n1")]);
        let mut former = FormerPods::default();
        assert_eq!(placement(&former, &after, "n1", "a", 1), Placement::Unknown);
        former.replace_topology(&before, &after, GONE);
        assert_eq!(placement(&former, &after, "n1", "a", 1), Placement::SameNode);
        assert_eq!(placement(&former, &after, "n2", "a", 600), Placement::CrossNode);
        assert_eq!(placement(&former, &after, "n1", "a", 601), Placement::Unknown);
        assert_eq!(
            placement(&former, &after, "n1", "stranger", 1),
            Placement::Unknown
        );
        assert_eq!(placement(&former, &after, "n1", "b", 1), Placement::CrossNode);
        let later = EventTime(GONE.0 + 601_000_000);
        former.replace_topology(&after, &after, later);
        assert!(former.0.is_empty(), "former Pods expire");
    }

    #[test]
    fn the_last_answer_of_a_nodes_own_pod_was_from_the_same_node_though_it_has_none_now() {
        let (before, after) = (topology(&[("a", "n1"), ("b", "n2")]), topology(&[("b", "n2")]));
        let mut former = FormerPods::default();
        former.replace_topology(&before, &after, GONE);
        assert_eq!(placement(&former, &after, "n1", "a", 5), Placement::SameNode);
        assert_eq!(placement(&former, &after, "n3", "a", 5), Placement::NoLocal);
    }

    #[test]
    fn a_pod_of_the_same_name_elsewhere_is_where_it_is_now() {
        let (before, between) = (
            topology(&[("web-0", "n1"), ("b", "n2")]),
            topology(&[("b", "n2")]),
        );
        let after = topology(&[("web-0", "n3"), ("b", "n2"), ("c", "n1")]);
        let mut former = FormerPods::default();
        former.replace_topology(&before, &between, GONE);
        former.replace_topology(&between, &after, GONE);
        assert_eq!(placement(&former, &after, "n1", "web-0", 5), Placement::CrossNode);
    }
}
