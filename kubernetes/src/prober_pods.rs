//! Lookup of prober Pods by the UID in their tokens; the part of the watch that authentication needs.

use std::fmt;

use parallax_model::{Network, NodeName, PodName};

/// A prober Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProberPod {
    /// Its name.
    pub name: PodName,
    /// The node it runs on.
    pub node: NodeName,
    /// The host network for Pods with `hostNetwork`, otherwise the Pod network.
    pub network: Network,
}

/// Result of a lookup by UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodLookup {
    /// A running prober Pod.
    Known(ProberPod),
    /// No prober Pod has this UID, or none has it any more.
    Unknown,
    /// The first list is not complete, so the UID may be unknown.
    NotSynced,
}

/// The prober Pods that are running. Lookups happen on every request and are answered from memory.
pub trait ProberPods: fmt::Debug + Send + Sync + 'static {
    /// Finds the prober Pod with a UID (`metadata.uid`).
    fn find(&self, uid: &str) -> PodLookup;
}
