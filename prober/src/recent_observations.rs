//! The observations of the last minutes, delivered or not, for aggregators that start and request a resend. Pure.

use std::collections::VecDeque;

use parallax_model::{EventTime, Micros};

use crate::spool::SpooledObservation;

/// Retention. A newly started aggregator learns of incidents that began within this time.
const RETENTION: Micros = Micros::from_secs(600);

/// Maximum size of the serialized observations in bytes: a memory budget, and three times the volume of sixty targets
/// every ten seconds over ten minutes.
const MAX_BYTES: usize = 4 << 20;

/// The latest observations, in order of sequence number.
#[derive(Debug, Default)]
pub(crate) struct RecentObservations {
    lines: VecDeque<SpooledObservation>,
    bytes: usize,
}

impl RecentObservations {
    /// Adds an observation. Results of on-demand runs are skipped: only the aggregator that ordered them can use them.
    pub(crate) fn push(&mut self, line: SpooledObservation) {
        if line.is_run {
            return;
        }
        let now = line.at;
        self.bytes += line.json.len();
        self.lines.push_back(line);
        while let Some(oldest) = self.lines.front()
            && (self.bytes > MAX_BYTES || oldest.at < now.minus(RETENTION))
        {
            self.bytes -= oldest.json.len();
            self.lines.pop_front();
        }
    }

    /// The start of the oldest observation.
    pub(crate) fn earliest(&self) -> Option<EventTime> {
        self.lines.front().map(|line| line.at)
    }

    /// Returns the observations that started at or after `since`, in order of sequence number.
    pub(crate) fn since(&self, since: EventTime) -> impl Iterator<Item = SpooledObservation> {
        self.lines.iter().filter(move |line| line.at >= since).cloned()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parallax_model::{Observation, ReportSeq};

    use super::*;

    fn line(seq: u64, at: i64) -> SpooledObservation {
        let text = r#"{"seq":0,"t_us":0,"target":"http://a/","channel":"vip","result":"ok"}"#;
        let mut observation: Observation = serde_json::from_str(text).unwrap();
        (observation.seq, observation.started) = (ReportSeq(seq), EventTime(at));
        SpooledObservation::from_observation(&observation).unwrap()
    }

    fn numbers(history: &RecentObservations, since: i64) -> Vec<u64> {
        history.since(EventTime(since)).map(|line| line.seq.0).collect()
    }

    #[test]
    fn ten_minutes_are_kept_and_no_more() {
        let mut history = RecentObservations::default();
        assert_eq!(history.earliest(), None);
        for minute in 0..30 {
            history.push(line(minute, 60_000_000 * i64::try_from(minute).unwrap()));
        }
        assert_eq!(history.earliest(), Some(EventTime(19 * 60_000_000)));
        assert_eq!(numbers(&history, 27 * 60_000_000), [27, 28, 29]);
    }

    #[test]
    fn however_much_there_is_the_memory_is_bounded_and_the_oldest_goes() {
        let mut history = RecentObservations::default();
        for seq in 0..10 {
            let mut line = line(seq, 1);
            line.json = Bytes::from(vec![b'x'; 1 << 20]);
            history.push(line);
        }
        assert_eq!(numbers(&history, 0), [6, 7, 8, 9]);
    }

    #[test]
    fn what_a_run_saw_is_not_kept() {
        let mut history = RecentObservations::default();
        let mut of_a_run = line(1, 1);
        of_a_run.is_run = true;
        history.push(of_a_run);
        assert_eq!(numbers(&history, 0), [] as [u64; 0]);
    }
}
