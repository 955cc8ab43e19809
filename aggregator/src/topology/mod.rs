//! The aggregator's topology, reduced from all inputs.
//!
//! ```text
//! cluster or file (watch) ──▶ SourceState ─┐
//! enrolled vantages (identity) ────────────┼─▶ reducer ─▶ TopologyState ─▶ plan · engine · serve · runs · …
//! Target objects (crd) ────────────────────┘      └─▶ status of each Target object
//! ```
//! Each input is a watch channel with its latest value. Only the reducer builds the topology from them and assigns its
//! revision.

mod reducer;
mod reduction;

pub(crate) use reducer::{TargetInput, TopologyReducer};
