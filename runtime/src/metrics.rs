//! Metric types shared by several subsystems. Each subsystem owns its metrics; `exposition` registers them
//! all.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::histogram::{Histogram, NativeHistogramConfig},
};

/// Upper bounds of the classic buckets in seconds. They match typical phase durations: a handshake on the
/// same node, in the same rack, across a continent; one and two lost SYNs; the timeouts. Native buckets need
/// no bounds.
pub const DURATION_BUCKETS: [f64; 15] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0,
];

/// Native histogram schema 3: each bucket is 9 % wide. `max_buckets` stays unset, because it would let the
/// schema change at run time; the timeouts bound the values and so the number of buckets.
pub const NATIVE_SCHEMA: i8 = 3;

/// The buckets of the histograms of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistogramBuckets {
    /// Classic and native ones.
    #[default]
    ClassicAndNative,
    /// Native ones. A scraper without native histograms reads only sum and count.
    Native,
}

impl HistogramBuckets {
    /// Returns the constructor of histograms with these buckets.
    #[must_use]
    pub const fn constructor(self) -> fn() -> Histogram {
        match self {
            Self::ClassicAndNative => duration_histogram,
            Self::Native => native_duration_histogram,
        }
    }
}

/// Creates a histogram of durations with classic and native buckets.
#[must_use]
pub fn duration_histogram() -> Histogram {
    Histogram::new_classic_and_native(
        DURATION_BUCKETS,
        NativeHistogramConfig::with_schema(NATIVE_SCHEMA),
    )
}

/// Creates a histogram of durations with native buckets, and the classic bucket `+Inf` that the text format requires.
fn native_duration_histogram() -> Histogram {
    Histogram::new_classic_and_native([], NativeHistogramConfig::with_schema(NATIVE_SCHEMA))
}

/// Label for the result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// A value from a closed list.
    pub result: &'static str,
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    #[test]
    fn native_buckets_leave_one_classic_bucket_in_the_text() {
        let lines = |buckets: HistogramBuckets| {
            let histogram = buckets.constructor()();
            histogram.observe(0.2);
            let mut registry = Registry::default();
            registry.register("seconds", "Durations", histogram);
            let mut body = String::new();
            text::encode(&mut body, &registry).unwrap();
            let buckets = body.lines().filter(|line| line.starts_with("seconds_bucket"));
            buckets.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(HistogramBuckets::Native), ["seconds_bucket{le=\"+Inf\"} 1"]);
        let classic = lines(HistogramBuckets::default());
        assert_eq!(classic.len(), DURATION_BUCKETS.len() + 1);
    }
}
