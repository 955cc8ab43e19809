//! Why a change does not fit the cluster.

use parallax_model::{NodeName, PodName, ServiceKey, Vantage};

/// A change does not fit the cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// A cluster of nothing.
    #[error("a cluster needs at least one node")]
    NoNodes,
    /// Unknown Service.
    #[error("there is no Service {0}")]
    NoService(ServiceKey),
    /// Unknown Ingress.
    #[error("there is no Ingress {0}")]
    NoIngress(ServiceKey),
    /// Unknown pod.
    #[error("the Service {service} has no pod {pod}")]
    NoPod {
        /// The Service.
        service: ServiceKey,
        /// The pod.
        pod: PodName,
    },
    /// No such workload.
    #[error("no Service has a pod {0}")]
    NoWorkload(PodName),
    /// Unknown node.
    #[error("there is no node {0}")]
    NoNode(NodeName),
    /// It is part of the cluster already, or not yet.
    #[error("the node {node} is {state}")]
    Presence {
        /// The node.
        node: NodeName,
        /// Where it is.
        state: &'static str,
    },
    /// Unknown resolver.
    #[error("there is no resolver {0}; the one outside the cluster is called public")]
    NoResolver(PodName),
    /// No balancer.
    #[error("the Service {0} has no balancer address")]
    NoBalancer(ServiceKey),
    /// Not one that is created later.
    #[error("there is no Service {0} that is absent")]
    NoAbsentService(ServiceKey),
    /// Pods are behind it.
    #[error("the Service {0} has endpoints: its pods must go first")]
    StillServed(ServiceKey),
    /// A pod is elsewhere in its life.
    #[error("the pod {pod} is not {wanted}")]
    State {
        /// The pod.
        pod: PodName,
        /// What it should be.
        wanted: &'static str,
    },
    /// A vantage on a node is no client outside.
    #[error(
        "{0} is no client outside: expected internet:NAME or vpc:NAME, with a name of lower-case letters"
    )]
    NoOutside(Vantage),
    /// A pod's name names its namespace, for ever.
    #[error("the name {0} is or was taken; a new pod needs a new name")]
    Taken(PodName),
    /// All addresses are used.
    #[error("the node {0} has no free pod address left")]
    Full(NodeName),
    /// Unknown namespace.
    #[error("there is no namespace {0:?}: expected cloud, a node, a pod or a client outside")]
    NoNamespace(String),
}
