//! Whom a token's Pod uid leads to: the one thing that identity wants to know of the watch.

use std::fmt;

use parallax_model::{Network, NodeName, PodName};

/// A prober Pod as the watch knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProberPod {
    /// Its name.
    pub name: PodName,
    /// The node it runs on.
    pub node: NodeName,
    /// The node's own network where the Pod has `hostNetwork`, else the pod network.
    pub network: Network,
}

/// What the watch says of a uid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodLookup {
    /// It runs as a prober.
    Known(ProberPod),
    /// There is no such prober, or no more.
    Unknown,
    /// The first list has not come yet: nobody can be known.
    NotYet,
}

/// The prober Pods that run now. Asked at each request, so it answers from memory.
pub trait ProberPods: fmt::Debug + Send + Sync + 'static {
    /// The prober Pod of a uid (`metadata.uid`).
    fn find(&self, uid: &str) -> PodLookup;
}
