//! Pebble as a test oracle: it validates generated and hand-written servers, and the prober's profile `pebble` must
//! reach the same verdict. Everything runs in network namespaces created by the tests.
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
