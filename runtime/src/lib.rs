//! Utilities shared by the aggregator's crates: the clock, random numbers, snapshots and metric types. The prober uses the metrics
//! of its process.
#![forbid(unsafe_code)]

mod clock;
pub mod metrics;
mod process_metrics;
mod random;
mod snapshot;

pub use clock::Clock;
pub use process_metrics::ProcessMetrics;
pub use random::{random, random_fraction};
pub use snapshot::{SnapshotReader, SnapshotWriter, snapshot_channel};
