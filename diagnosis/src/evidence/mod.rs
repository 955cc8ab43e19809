//! Observations, counted by subject: reports become rows, rows become cells.
//!
//! ```text
//! observation ─▶ row ─▶ round ─▶ attribution ─▶ ledger ─▶ cells of a block
//!                          └──▶ latency (steps in the duration of successes), resolvers, baseline
//! ```

pub(crate) mod attribution;
pub mod baseline;
pub(crate) mod block;
pub(crate) mod cells;
mod connection;
pub(crate) mod fold;
pub(crate) mod latency;
pub(crate) mod ledger;
pub(crate) mod resolvers;
pub(crate) mod round_ring;
pub(crate) mod rounds;
pub(crate) mod routes;
pub(crate) mod row;
mod sequences;
pub(crate) mod stalls;
pub(crate) mod weights;
