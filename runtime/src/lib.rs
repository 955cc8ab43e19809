//! Utilities shared by the aggregator's crates: the clock, random numbers, snapshots and metric types.
#![forbid(unsafe_code)]

mod clock;
pub mod metrics;
mod random;
mod snapshot;

pub use clock::Clock;
pub use random::{random, random_fraction};
pub use snapshot::{SnapshotReader, SnapshotWriter, snapshot_channel};
