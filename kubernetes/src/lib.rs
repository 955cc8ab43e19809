//! The Kubernetes side of the aggregator: lists and watches objects and derives the topology from them.
//!
//! ```text
//! API server ─▶ watch (reflectors) ─▶ cluster (objects) ─▶ discovery ─▶ topology_state
//!      └──────▶ pod_registry (prober Pods by UID) · replicas (leader election) · config_map (stored state)
//! ```
#![forbid(unsafe_code)]

pub mod api_client;
pub mod cluster;
pub mod config_map;
pub mod discovery;
pub mod null_fields;
pub mod object_key;
pub mod objects;
pub mod pod_registry;
pub mod prober_pods;
pub mod replicas;
pub mod topology_state;
pub mod watch;

pub use object_key::ObjectKey;
