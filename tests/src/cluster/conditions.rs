//! Endpoint conditions of a Service's Pods, and the Pods to which kube-proxy sends connections.

use parallax_model::{NodeName, PodName};

use super::{Pod, Service};

/// Lifecycle state of a Pod that is not simply ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodState {
    /// Its container is starting.
    Starting,
    /// Deleted and within its grace period: it still serves.
    Terminating,
    /// The node controller's grace period for its node has passed.
    Unheard,
}

/// `endpoints[].conditions` of an `EndpointSlice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodConditions {
    /// New connections may be sent to it.
    pub ready: bool,
    /// It responds, whether or not it is terminating.
    pub serving: bool,
    /// It is terminating.
    pub terminating: bool,
}

impl Service {
    /// Returns the Pod's conditions in the EndpointSlice.
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

    /// Returns the Pods to which kube-proxy sends connections, on any node.
    #[must_use]
    pub fn usable_pods(&self) -> Vec<&Pod> {
        self.select_pods(|_| true)
    }

    /// Returns those of one node, selected separately, as with policy Local.
    #[must_use]
    pub fn usable_pods_on(&self, node: &NodeName) -> Vec<&Pod> {
        self.select_pods(|pod| pod.node == *node)
    }

    /// Returns the Pods in the headless Service's DNS answer.
    pub fn ready_pods(&self) -> impl Iterator<Item = &Pod> {
        self.endpoints
            .iter()
            .filter(|pod| self.conditions(&pod.name).ready)
    }

    /// Returns the ready Pods, or if there are none, the terminating Pods that still serve (KEP-1669).
    fn select_pods(&self, among: impl Fn(&Pod) -> bool) -> Vec<&Pod> {
        let ready: Vec<&Pod> = self.ready_pods().filter(|pod| among(pod)).collect();
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
        let incident = crate::incident_file::parse(Path::new("i1.yaml"), text).unwrap();
        let mut cluster = Cluster::derive(&incident).unwrap();
        let service = &mut cluster.services[0];
        let node = service.endpoints[0].node.clone();
        let all: Vec<PodName> = service.endpoints.iter().map(|pod| pod.name.clone()).collect();
        service.states.insert(all[0].clone(), PodState::Terminating);
        service.states.insert(all[1].clone(), PodState::Starting);
        service.states.insert(all[2].clone(), PodState::Unheard);
        assert_eq!(names(service.usable_pods()), ["ingress-4"]);
        assert_eq!(names(service.usable_pods_on(&node)), ["ingress-1"]);
        service.states.insert(all[3].clone(), PodState::Unheard);
        assert_eq!(names(service.usable_pods()), ["ingress-1"]);
        assert_eq!(service.ready_pods().count(), 0);
    }
}
