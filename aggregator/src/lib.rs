//! The aggregator: tells probers what to ask, takes in what they saw, and shows what the diagnosis makes of it.
//!
//! ```text
//! config ─▶ watch (topology) ─▶ plan ─▶ probers ─▶ ingest ─▶ engine_task ─▶ serve (page, API) · metrics · record · store
//! ```
#![forbid(unsafe_code)]

mod access;
mod aggregator;
mod api_error;
pub mod baseline {
    //! Resetting baselines over HTTP.
    pub use crate::serve::{BaselineResetAnswer, BaselineResetRequest};
}
mod catch_up;
mod cert_manager;
mod certificates;
pub mod challenges;
mod checkpoint;
mod config;
pub mod crd;
mod engine_task;
mod exposition;
mod facts;
pub mod forecast;
mod hop_headers;
mod identity;
pub mod incident_actions;
mod ingest;
mod links;
pub mod notify;
mod plan;
pub mod preflight;
mod prober_listener;
mod record;
mod runs;
mod serve;
mod severity;
mod startup_buffer;
mod store;
mod tls;
mod token;
mod watch;

pub use aggregator::{Aggregator, RunError, StartError};
pub use config::{
    Config, ConfigError, ConfigProblem, SourcePosition, YamlDocument, receiver_address, scaled,
};
pub use crd::{custom_resource_definitions, custom_resources};
pub use identity::{IdentityOptions, REACH_LABEL, VANTAGE_LABEL};
pub use links::link_address;
pub use prober_listener::ProberListenerError;
pub use record::{RecordError, RecordOptions};
pub use store::StoreOptions;
pub use tls::{AuthorityError, TlsOptions};
pub use token::BearerToken;
