//! The certificate authority as oracle: Pebble validates generated and written-down servers, and the prober's profile
//! `pebble` must come to the same end. Everything happens in network namespaces that the tests make.
//!
//! ```text
//! scenario (data) ─▶ world (addresses, DNS, web servers) ◀── Pebble, driven as an ACME client does ──▶ verdict
//!                                                        ◀── profiles `pebble` and `boulder`       ──▶ verdicts
//! ```

pub mod namespace;
pub mod order;
pub mod pebble;
pub mod scenario;
pub mod verdict;
pub mod world;

mod dns;
mod web;
