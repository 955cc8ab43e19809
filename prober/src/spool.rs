//! The bounded queue of observations for one aggregator: in order, each kept until acknowledged. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use parallax_model::{EventTime, Observation, ReportSeq};

/// Maximum number of observations in one report; about half a megabyte before compression.
pub(crate) const MAX_REPORT_SIZE: usize = 2_000;

/// One observation, serialized once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpooledObservation {
    pub(crate) seq: ReportSeq,
    pub(crate) at: EventTime,
    /// A failure, or a result of an on-demand run: sent immediately, dropped last.
    urgent: bool,
    /// Part of an on-demand run: useful only to the aggregator that ordered it.
    pub(crate) is_run: bool,
    pub(crate) json: Bytes,
}

impl SpooledObservation {
    pub(crate) fn from_observation(observation: &Observation) -> serde_json::Result<Self> {
        let run = observation.assignment.as_ref();
        let run = run.is_some_and(|id| id.run_id().is_some());
        Ok(Self {
            seq: observation.seq,
            at: observation.started,
            urgent: observation.outcome.is_failure() || run,
            is_run: run,
            json: serde_json::to_vec(observation)?.into(),
        })
    }
}

/// The queue. When it is full, it drops the oldest observation that is not urgent, and urgent ones only if nothing else
/// is left.
#[derive(Debug, Clone)]
pub(crate) struct ObservationSpool {
    capacity: usize,
    /// Urgent observations and others, each in order of sequence number. Reports merge both in order.
    urgent: VecDeque<SpooledObservation>,
    regular: VecDeque<SpooledObservation>,
    /// Delivered observations to resend, in order. They are sent first, in separate reports.
    resend_queue: VecDeque<SpooledObservation>,
    /// The report in flight. It is never dropped: the aggregator may already have it.
    in_flight: Vec<SpooledObservation>,
    /// Whether the report in flight is a resend.
    in_flight_is_resend: bool,
    dropped: u64,
}

impl ObservationSpool {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            urgent: VecDeque::new(),
            regular: VecDeque::new(),
            resend_queue: VecDeque::new(),
            in_flight: Vec::new(),
            in_flight_is_resend: false,
            dropped: 0,
        }
    }

    /// Adds an observation. Sequence numbers must increase.
    pub(crate) fn push(&mut self, line: SpooledObservation) {
        let queue = if line.urgent {
            &mut self.urgent
        } else {
            &mut self.regular
        };
        queue.push_back(line);
        while self.len() > self.capacity && self.evict_one() {}
    }

    /// Queues delivered observations for a resend, except those that are still waiting. They must be in order of
    /// sequence number.
    pub(crate) fn resend(&mut self, lines: impl IntoIterator<Item = SpooledObservation>) {
        let waits: BTreeSet<u64> = self.queued().map(|line| line.seq.0).collect();
        self.resend_queue = lines
            .into_iter()
            .filter(|line| !waits.contains(&line.seq.0))
            .collect();
    }

    /// Whether a resend is in progress.
    pub(crate) fn has_resend(&self) -> bool {
        self.in_flight_is_resend || !self.resend_queue.is_empty()
    }

    /// Whether the report in flight is a resend.
    pub(crate) const fn in_flight_is_resend(&self) -> bool {
        self.in_flight_is_resend
    }

    fn queued(&self) -> impl Iterator<Item = &SpooledObservation> {
        let under_way = self.in_flight.iter().filter(|_| !self.in_flight_is_resend);
        under_way.chain(&self.urgent).chain(&self.regular)
    }

    /// Merges the waiting observations of both, without duplicates. Resends are dropped: the aggregators that requested
    /// them are gone.
    pub(crate) fn merge(self, other: Self) -> Self {
        let dropped = self.dropped.max(other.dropped);
        let capacity = self.capacity.max(other.capacity);
        let lines: BTreeMap<u64, SpooledObservation> = [self, other]
            .iter()
            .flat_map(Self::queued)
            .cloned()
            .map(|line| (line.seq.0, line))
            .collect();
        let mut joined = Self {
            dropped,
            ..Self::new(capacity)
        };
        for line in lines.into_values() {
            joined.push(line);
        }
        joined
    }

    fn evict_one(&mut self) -> bool {
        let gone = self.regular.pop_front().or_else(|| self.urgent.pop_front());
        self.dropped += u64::from(gone.is_some());
        gone.is_some()
    }

    /// Number of unacknowledged observations, without resends.
    pub(crate) fn len(&self) -> usize {
        let under_way = if self.in_flight_is_resend {
            0
        } else {
            self.in_flight.len()
        };
        under_way + self.urgent.len() + self.regular.len()
    }

    /// Number of observations dropped since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether an urgent observation is waiting.
    pub(crate) fn urgent(&self) -> bool {
        !self.urgent.is_empty()
            || (!self.in_flight_is_resend && self.in_flight.iter().any(|line| line.urgent))
    }

    /// Returns the next report: the one in flight until it is acknowledged or refused, else the oldest observations in
    /// order.
    pub(crate) fn next_batch(&mut self) -> &[SpooledObservation] {
        if self.in_flight.is_empty() && !self.resend_queue.is_empty() {
            self.in_flight_is_resend = true;
            self.in_flight.extend(
                self.resend_queue
                    .drain(..MAX_REPORT_SIZE.min(self.resend_queue.len())),
            );
        }
        if self.in_flight.is_empty() {
            while self.in_flight.len() < MAX_REPORT_SIZE {
                let failure_first = match (self.urgent.front(), self.regular.front()) {
                    (Some(failure), Some(other)) => failure.seq < other.seq,
                    (failure, _) => failure.is_some(),
                };
                let queue = if failure_first {
                    &mut self.urgent
                } else {
                    &mut self.regular
                };
                let Some(line) = queue.pop_front() else { break };
                self.in_flight.push(line);
            }
        }
        &self.in_flight
    }

    /// The earliest start among the observations that are waiting behind the report in flight.
    pub(crate) fn earliest_waiting(&self) -> Option<EventTime> {
        let behind = self.resend_queue.iter().chain(&self.urgent).chain(&self.regular);
        behind.map(|line| line.at).min()
    }

    /// Removes the report in flight, which the aggregator has accepted.
    pub(crate) fn acknowledge(&mut self) {
        self.in_flight.clear();
        self.in_flight.shrink_to(MAX_REPORT_SIZE / 8);
        self.in_flight_is_resend = false;
    }

    /// Drops the report in flight, which the aggregator has permanently rejected.
    pub(crate) fn reject(&mut self) {
        if !self.in_flight_is_resend {
            self.dropped += self.in_flight.len() as u64;
        }
        self.acknowledge();
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
