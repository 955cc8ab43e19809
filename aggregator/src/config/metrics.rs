//! `metrics`: what `/metrics` contains.

use parallax_runtime::metrics::HistogramBuckets;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawMetrics {
    /// Whether the histograms of phases have classic buckets in addition to native ones; true by default.
    pub(super) classic_buckets: Option<bool>,
}

impl RawMetrics {
    pub(super) fn histogram_buckets(&self) -> HistogramBuckets {
        if self.classic_buckets == Some(false) {
            HistogramBuckets::Native
        } else {
            HistogramBuckets::ClassicAndNative
        }
    }
}
