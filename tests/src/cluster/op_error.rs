//! Errors of changes that do not fit the cluster.

use parallax_model::{NodeName, PodName, ServiceKey, Vantage};

/// A change does not fit the cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The cluster has no nodes.
    #[error("a cluster needs at least one node")]
    NoNodes,
    /// Unknown Service.
    #[error("unknown Service {0}")]
    NoService(ServiceKey),
    /// Unknown Ingress.
    #[error("unknown Ingress {0}")]
    NoIngress(ServiceKey),
    /// Unknown pod.
    #[error("the Service {service} has no Pod {pod}")]
    NoPod {
        /// The Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// Unknown workload.
    #[error("no Service has a Pod {0}")]
    NoWorkload(PodName),
    /// Unknown node.
    #[error("unknown node {0}")]
    NoNode(NodeName),
    /// The node's presence contradicts the change.
    #[error("the node {node} is {state}")]
    Presence {
        /// The node.
        node: NodeName,
        /// Its state.
        state: &'static str,
    },
    /// The state of the link between two nodes contradicts the change.
    #[error("the link between {0} and {1} is {2}")]
    Link(NodeName, NodeName, &'static str),
    /// Unknown resolver.
    #[error("unknown resolver {0}; the one outside the cluster is called public")]
    NoResolver(PodName),
    /// No balancer.
    #[error("the Service {0} has no balancer address")]
    NoBalancer(ServiceKey),
    /// The Service is not one that is created later.
    #[error("the Service {0} is not declared absent")]
    NoAbsentService(ServiceKey),
    /// The Service still has endpoints.
    #[error("the Service {0} has endpoints; remove its Pods first")]
    StillServed(ServiceKey),
    /// The Pod is in another lifecycle state.
    #[error("the Pod {pod} is not {wanted}")]
    State {
        /// The pod.
        pod: PodName,
        /// Required state.
        wanted: &'static str,
    },
    /// The vantage is not outside the cluster.
    #[error(
        "{0} is not a client outside: expected internet:NAME or vpc:NAME, with a name of lower-case letters"
    )]
    NoOutside(Vantage),
    /// A Pod name names its network namespace, so it is never reused.
    #[error("the name {0} is or was in use; a new Pod needs a new name")]
    Taken(PodName),
    /// All addresses are in use.
    #[error("the node {0} has no free Pod address left")]
    Full(NodeName),
    /// Unknown namespace.
    #[error("unknown namespace {0:?}: expected cloud, a node, a Pod or a client outside")]
    NoNamespace(String),
}
