//! What endpoint slices say of a Service's pods, and which of them kube-proxy sends connections to.

use parallax_model::{NodeName, PodName};

use super::{Pod, Service};

/// Where a pod is in its life, unless it is simply ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// Its container starts.
    Starting,
    /// It is deleted and within its grace period: it serves on.
    Terminating,
    /// The node controller has not heard of its node for the grace period.
    Unheard,
}

/// `endpoints[].conditions` of an `EndpointSlice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodConditions {
    /// Connections may be sent there.
    pub ready: bool,
    /// It answers, whether or not it is about to end.
    pub serving: bool,
    /// It is about to end.
    pub terminating: bool,
}

impl Service {
    /// What the endpoint slice says of a pod.
    #[must_use]
    pub fn conditions(&self, pod: &PodName) -> PodConditions {
        let state = self.states.get(pod);
        let terminating = state == Some(&PodState::Terminating);
        PodConditions {
            ready: state.is_none(),
            serving: state.is_none() || terminating,
            terminating,
        }
    }

    /// The pods that kube-proxy sends connections to, wherever they are.
    #[must_use]
    pub fn usable(&self) -> Vec<&Pod> {
        self.chosen(|_| true)
    }

    /// Those of a node: decided for itself, as with policy Local.
    #[must_use]
    pub fn usable_on(&self, node: &NodeName) -> Vec<&Pod> {
        self.chosen(|pod| pod.node == *node)
    }

    /// The pods that the headless name leads to.
    pub fn ready(&self) -> impl Iterator<Item = &Pod> {
        self.endpoints
            .iter()
            .filter(|pod| self.conditions(&pod.name).ready)
    }

    /// The ready ones; where there is none, those that are terminating and serve (KEP-1669).
    fn chosen(&self, among: impl Fn(&Pod) -> bool) -> Vec<&Pod> {
        let ready: Vec<&Pod> = self.ready().filter(|pod| among(pod)).collect();
        if !ready.is_empty() {
            return ready;
        }
        let all = self.endpoints.iter().filter(|pod| among(pod));
        all.filter(|pod| self.conditions(&pod.name).serving).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cluster::Cluster;

    fn names(pods: Vec<&Pod>) -> Vec<&str> {
        pods.into_iter().map(|pod| pod.name.as_str()).collect()
    }

    #[test]
    fn a_terminating_pod_gets_connections_only_where_none_is_ready_decided_apart_for_cluster_and_node() {
        let text = include_str!("../../incidents/i1.yaml");
        let incident = crate::incident::parse(Path::new("i1.yaml"), text).unwrap();
        let mut cluster = Cluster::derive(&incident).unwrap();
        let service = &mut cluster.services[0];
        let node = service.endpoints[0].node.clone();
        let all: Vec<PodName> = service.endpoints.iter().map(|pod| pod.name.clone()).collect();
        service.states.insert(all[0].clone(), PodState::Terminating);
        service.states.insert(all[1].clone(), PodState::Starting);
        service.states.insert(all[2].clone(), PodState::Unheard);
        assert_eq!(names(service.usable()), ["ingress-4"]);
        assert_eq!(names(service.usable_on(&node)), ["ingress-1"]);
        service.states.insert(all[3].clone(), PodState::Unheard);
        assert_eq!(names(service.usable()), ["ingress-1"]);
        assert_eq!(service.ready().count(), 0);
    }
}
