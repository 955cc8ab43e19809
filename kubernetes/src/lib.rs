//! The Kubernetes side of the aggregator: objects are listed and watched, and become the topology that is probed.
//!
//! ```text
//! API server ─▶ watch (reflectors) ─▶ cluster (objects) ─▶ discovery ─▶ topology_state
//!      └──────▶ pod_registry (prober Pods by UID) · replicas (leader election) · config_map (state kept in the cluster)
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
