//! Ingest of reports: parsing, deduplication, clock offsets and counters.

mod counters;
mod lines;
mod metrics;
mod offset;
mod sequence_set;
mod sessions;

use parallax_model::{EventTime, ReportAnswer};
use serde::Serialize;
use tokio::sync::oneshot;

pub(crate) use counters::ObservationCounters;
pub(crate) use lines::{ReportBatch, ReportError, parse_report};
pub(crate) use metrics::{IngestMetrics, ReportRefusal};
pub(crate) use sessions::{ProberSessions, ProberView};

/// Maximum body size after decompression. Probers send much smaller reports.
pub(crate) const MAX_BODY_BYTES: usize = 8 << 20;

/// A report for the engine task.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) batch: ReportBatch,
    pub(crate) received: EventTime,
    pub(crate) reply: oneshot::Sender<IngestAnswer>,
}

/// The response to a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct IngestAnswer {
    #[serde(flatten)]
    pub(crate) receipt: ReportReceipt,
    #[serde(flatten)]
    pub(crate) response: ReportAnswer,
}

/// Counts of a report's lines by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct ReportReceipt {
    pub(crate) accepted: u64,
    pub(crate) duplicates: u64,
    pub(crate) malformed: u64,
}
