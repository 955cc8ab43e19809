//! Types of the HTTP API, shared by the aggregator and its clients.
//!
//! Requests reject unknown fields. Responses may gain fields, so clients ignore fields that they do not know.
#![forbid(unsafe_code)]

pub mod baselines;
pub mod challenges;
pub mod forecasts;
pub mod incident_actions;
pub mod installation;
pub mod links;
pub mod names;
pub mod notifications;
pub mod preflight;
pub mod runs;
pub mod severity;

/// The audience of the tokens that people and the preflight controller present to the aggregator. The API server rejects such
/// a token for itself, so the aggregator never sees one that gives access to the cluster.
pub const TOKEN_AUDIENCE: &str = "parallax-api";
