//! Counts by target, channel and placement over five minutes or an hour.

use std::{borrow::Cow, collections::BTreeMap};

use parallax_model::{EventTime, Micros, TargetId};

use super::latency::LatencyHistogram;

/// Length of a roll-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RollupStep {
    /// Five minutes.
    FiveMinutes,
    /// An hour.
    Hour,
}

impl RollupStep {
    pub(crate) const ALL: [Self; 2] = [Self::FiveMinutes, Self::Hour];

    /// The length in seconds, as in the API and the store.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        match self {
            Self::FiveMinutes => 300,
            Self::Hour => 3_600,
        }
    }

    /// The start of the roll-up that contains a time.
    pub(crate) const fn start(self, at: EventTime) -> EventTime {
        let length = self.seconds() * 1_000_000;
        EventTime(at.0.div_euclid(length).saturating_mul(length))
    }
}

/// The key of a roll-up. `start` comes first in the order, so that the oldest is found at once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollupKey {
    /// Start of the span.
    pub start: EventTime,
    pub(crate) step: RollupStep,
    pub(crate) target: TargetId,
    /// The channel's label; a store may contain those of a newer version.
    pub channel: Cow<'static, str>,
    /// The placement's label.
    pub placement: Cow<'static, str>,
}

/// Counts and latencies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProbeRollup {
    /// Counts by result: `ok`, a failure kind, `not_asked`.
    pub results: BTreeMap<Cow<'static, str>, u64>,
    /// Total times of the probes that succeeded.
    pub latency: LatencyHistogram,
}

impl ProbeRollup {
    pub(crate) fn count(&mut self, result: &'static str, total: Option<Micros>) {
        *self.results.entry(Cow::Borrowed(result)).or_default() += 1;
        if let (OK_RESULT, Some(total)) = (result, total) {
            self.latency.add(total);
        }
    }

    /// Adds other counts; the sum is independent of the order.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (result, n) in &other.results {
            let sum = self.results.entry(result.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
        self.latency.merge(&other.latency);
    }

    /// The number of probes made, and of failures among them.
    pub fn totals(&self) -> (u64, u64) {
        let probes: u64 = self
            .results
            .iter()
            .filter(|(result, _)| *result != NOT_ASKED_RESULT)
            .map(|(_, n)| n)
            .sum();
        let ok = self.results.get(OK_RESULT).copied().unwrap_or(0);
        (probes, probes.saturating_sub(ok))
    }
}

/// The result of a probe that succeeded, and of one that the prober could not make.
pub(crate) const OK_RESULT: &str = "ok";
pub(crate) const NOT_ASKED_RESULT: &str = "not_asked";
