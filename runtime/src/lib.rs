//! What the crates of the aggregator share beside the model: the clock, random numbers, and types of metrics.
#![forbid(unsafe_code)]

mod clock;
pub mod metrics;
mod random;
mod snapshot;

pub use clock::Clock;
pub use random::{random, random_fraction};
pub use snapshot::{SnapshotReader, SnapshotWriter, snapshot};
