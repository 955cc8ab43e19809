//! The lab: incidents with real packets, in user-mode Linux or on this machine's kernel, without a Kubernetes cluster.
//!
//! ```text
//! incident (YAML) ─▶ cluster ─▶ commands (net, dataplane, workloads) ─▶ guest: namespaces, IPVS, pods, probers
//!                       │                                                ▲ commands │ replies
//!                       └─▶ published topology ─▶ aggregator ─▶ verdict ─▶ conductor
//! ```
//!
//! Everything up to the arrows into `guest` and `conductor` is pure. `docs/contributing/lab.md` explains how to add an
//! incident and how to look inside.
#![forbid(unsafe_code)]

pub mod aggregator_config;
pub mod api_client;
pub mod prometheus;
// The same API server as in the aggregator's tests.
pub mod certificates;
pub mod client;
pub mod cluster;
pub mod command;
pub mod conductor;
pub mod control;
pub mod corpus;
pub mod dataplane;
pub mod external;
pub mod guest;
pub mod guest_connection;
pub mod host;
pub mod incident;
pub mod incident_file;
mod ipv6_rules;
pub mod judge;
pub mod kernel;
pub mod lab;
pub mod machine;
pub mod net;
pub mod objects;
pub mod origin;
pub mod packets;
pub mod parallax;
pub mod preflight;
pub mod publisher;
pub mod report_path;
pub mod resolvers;
pub mod run_dir;
pub mod screen;
pub mod suite;
pub mod tools;
pub mod uml;
pub mod uplink;
pub mod workloads;
