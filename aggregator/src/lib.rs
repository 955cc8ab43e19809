//! The aggregator: tells probers what to ask, takes in what they saw, and shows what the diagnosis makes of it.
//!
//! ```text
//! config ─▶ watch (topology) ─▶ plan ─▶ probers ─▶ ingest ─▶ engine_task ─▶ serve (page, API) · metrics · record · store
//! ```
#![forbid(unsafe_code)]

mod access;
mod aggregator;
mod api_client;
mod api_error;
#[cfg(test)]
#[path = "../tests/api_server/mod.rs"]
#[expect(dead_code, reason = "the tests of the whole aggregator refuse writes")]
mod api_server;
pub mod baseline {
    //! Resetting baselines over HTTP.
    pub use crate::serve::{BaselineResetAnswer, BaselineResetRequest};
}
mod catch_up;
mod cert_manager;
mod certificates;
pub mod challenges;
mod checkpoint;
mod clock;
mod config;
mod config_map;
pub mod crd;
mod engine_task;
mod exposition;
mod facts;
#[cfg(test)]
mod fixtures;
pub mod forecast;
mod hex;
mod hop_headers;
mod identity;
pub mod incident_actions;
mod ingest;
mod kubernetes;
mod links;
mod metrics;
pub mod notify;
mod null_fields;
mod object_key;
mod plan;
pub mod preflight;
mod prober_listener;
mod prober_pods;
mod random;
mod record;
mod replicas;
mod runs;
mod serve;
mod severity;
mod startup_buffer;
mod store;
mod tls;
mod token;
mod topology_state;
mod watch;

pub use aggregator::{Aggregator, RunError, StartError};
pub use api_client::{ResourceParts, api_resource};
pub use clock::Clock;
pub use config::{
    Config, ConfigError, ConfigProblem, SourcePosition, YamlDocument, receiver_address, scaled,
};
pub use crd::{custom_resource_definitions, custom_resources};
pub use identity::{IdentityOptions, REACH_LABEL, VANTAGE_LABEL};
pub use links::link_address;
pub use object_key::ObjectKey;
pub use prober_listener::ProberListenerError;
pub use prober_pods::{PodLookup, ProberPod, ProberPods};
pub use record::{RecordError, RecordOptions};
pub use store::StoreOptions;
pub use tls::{AuthorityError, TlsOptions};
pub use token::BearerToken;
