//! The one topology of the aggregator.
//!
//! ```text
//! cluster or file (watch) ──▶ SourceState ─┐
//! enrolled vantages (identity) ────────────┼─▶ reducer ─▶ TopologyState ─▶ plan · engine · serve · runs · …
//! Target objects (crd) ────────────────────┘      └─▶ status of each Target object
//! ```
//! Each input is a watch channel that holds its latest value. The reducer builds the topology from all of them at once and
//! assigns the revision; nothing else does either.

mod reducer;
mod reduction;

pub(crate) use reducer::{TargetInput, TopologyReducer};
pub(crate) use reduction::TargetReview;
