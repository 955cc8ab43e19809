//! The prober: makes the probes of its plan from where it stands, and reports what came of them.
//!
//! ```text
//! plan_client ─▶ schedule ─▶ probe (resolve ─▶ connect ─▶ tls ─▶ http) ─▶ spool ─▶ report
//!                              └── ttl (who answers next door)    echo (answers the other probers)
//! ```
//!
//! [`Agent`] is all of it; [`run`] makes a single probe without any plan or aggregator.

mod agent;
mod classify;
mod clock;
mod connect;
mod control;
mod dns;
mod echo;
mod evidence;
mod family;
mod http;
mod jitter;
mod metrics;
mod plan_client;
mod probe;
mod report;
mod resolv_conf;
mod resolve;
mod result;
mod runner;
mod schedule;
mod spool;
mod stamped;
mod status;
mod sys;
mod tls;
mod ttl;

pub use agent::{Agent, AgentConfig, AgentError, SPOOL_CAPACITY, run_agent};
pub use clock::Clock;
pub use control::Token;
pub use probe::{Context, SERVED_BY_HEADERS, run};
pub use result::ProbeResult;
pub use tls::Tls;
