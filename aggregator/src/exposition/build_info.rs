//! The version of this aggregator as a metric.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct VersionLabel {
    version: &'static str,
}

/// One series of value 1.
pub(super) fn build_info() -> Family<VersionLabel, Gauge> {
    let info = Family::<VersionLabel, Gauge>::default();
    let version = env!("CARGO_PKG_VERSION");
    info.get_or_create(&VersionLabel { version }).set(1);
    info
}
