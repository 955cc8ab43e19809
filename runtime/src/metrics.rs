//! Kinds of series that several parts count with. Each part owns its own; `exposition` registers them all.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::histogram::{Histogram, NativeHistogramConfig},
};

/// Bounds of the classic buckets in seconds, chosen around what the phases take: a handshake on the node, in the
/// rack, across a continent; one and two lost SYNs; the timeouts. The native buckets need no choice.
pub const BUCKETS: [f64; 15] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0,
];

/// Native schema 3: each bucket 9 % wide. Values are bounded by the timeouts, so the buckets are not (`max_buckets`
/// would let the schema change at run time).
pub const NATIVE_SCHEMA: i8 = 3;

/// Times, in both sorts of buckets.
#[must_use]
pub fn histogram() -> Histogram {
    Histogram::new_classic_and_native(BUCKETS, NativeHistogramConfig::with_schema(NATIVE_SCHEMA))
}

/// What something came to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// One of a closed list of words.
    pub result: &'static str,
}
