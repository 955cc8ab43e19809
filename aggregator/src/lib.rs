//! The aggregator: tells probers what to ask, takes in what they saw, and shows what the diagnosis makes of it.
//!
//! ```text
//! config ─▶ watch (topology) ─▶ plan ─▶ probers ─▶ ingest ─▶ hub (engine) ─▶ serve (page, API) · metrics · record · store
//! ```
#![forbid(unsafe_code)]

mod aggregator;
mod clock;
mod config;
mod facts;
#[cfg(test)]
mod fixtures;
mod hub;
mod ingest;
mod metrics;
mod plan;
mod record;
mod serve;
mod severity;
mod store;
mod watch;

pub use aggregator::{Aggregator, RunError, StartError};
pub use clock::Clock;
pub use config::{Complaint, Config, ConfigError, Place, Token};
pub use record::{RecordError, RecordOptions};
pub use store::StoreOptions;
