//! The aggregator: distributes plans to probers, ingests their reports, runs the diagnosis, and serves page, API and
//! metrics.
//!
//! ```text
//! config ─▶ watch (topology) ─▶ plan ─▶ probers ─▶ ingest ─▶ engine_task ─▶ serve (page, API) · metrics · record · store
//! ```
#![forbid(unsafe_code)]

mod access;
mod aggregator;
mod api_error;
mod catch_up;
mod certificates;
mod checkpoint;
mod config;
pub mod crd;
mod engine_task;
mod exposition;
mod facts;
mod hop_headers;
mod identity;
mod ingest;
mod own_permissions;
mod plan;
mod prober_listener;
mod review_slots;
mod serve;
mod startup_buffer;
mod tls;
mod token;
mod topology;
mod watch;
mod zone_echoes;

pub use aggregator::{Aggregator, RunError, StartError};
pub use config::{Config, ConfigError, ConfigProblem, SourcePosition};
pub use identity::{IdentityOptions, REACH_LABEL, VANTAGE_LABEL};
pub use prober_listener::ProberListenerError;
pub use tls::{AuthorityError, TlsOptions};
pub use token::BearerToken;
