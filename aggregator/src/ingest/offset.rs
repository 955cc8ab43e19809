//! Estimates the offset from a prober's monotonic clock to event time.
//!
//! Every report carries the sender's clock at the time of sending. Received minus sent is the offset of the two
//! clocks plus the transmission delay. The delay is never negative, so the minimum is the best estimate. A window of
//! the last minutes follows clock drift (tens of parts per million: less than a tenth of a second per hour).

use std::collections::VecDeque;

use parallax_model::{EventTime, Micros};

/// Length of a slot of the window.
const SLOT_LENGTH: Micros = Micros::from_secs(60);
/// Number of slots in the window.
const SLOT_COUNT: usize = 10;

/// Clock offset of one incarnation.
#[derive(Debug, Default)]
pub(crate) struct ClockOffset {
    /// Start of each slot and its minimum difference, oldest first.
    slots: VecDeque<(EventTime, i64)>,
    latest_difference: i64,
}

impl ClockOffset {
    /// Adds a sample.
    pub(crate) fn add_sample(&mut self, sent: EventTime, received: EventTime) {
        let difference = received.0.saturating_sub(sent.0);
        self.latest_difference = difference;
        match self.slots.back_mut() {
            Some((start, least)) if received - *start < SLOT_LENGTH => *least = difference.min(*least),
            _ => {
                self.slots.push_back((received, difference));
                if self.slots.len() > SLOT_COUNT {
                    self.slots.pop_front();
                }
            }
        }
    }

    /// Returns the offset: microseconds to add to the prober's clock.
    pub(crate) fn offset_micros(&self) -> i64 {
        self.slots
            .iter()
            .map(|(_, least)| *least)
            .min()
            .unwrap_or_default()
    }

    /// Returns the delay of the latest report over the minimum: network, load, or a stepped clock.
    pub(crate) fn delay(&self) -> Micros {
        Micros(u64::try_from(self.latest_difference.saturating_sub(self.offset_micros())).unwrap_or(0))
    }

    /// Converts a time of the prober's clock to event time.
    pub(crate) fn to_event_time(&self, at: EventTime) -> EventTime {
        at.shifted(self.offset_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_report_of_the_window_sets_the_offset_and_a_slow_one_only_shows_as_delay() {
        let mut offset = ClockOffset::default();
        offset.add_sample(EventTime(1_000), EventTime(501_200));
        offset.add_sample(EventTime(2_000), EventTime(502_050));
        offset.add_sample(EventTime(3_000), EventTime(533_000));
        assert_eq!(offset.offset_micros(), 500_050);
        assert_eq!(offset.delay(), Micros(29_950));
        assert_eq!(offset.to_event_time(EventTime(10)), EventTime(500_060));
    }

    #[test]
    fn an_old_minimum_is_forgotten_so_that_drift_is_followed() {
        let mut offset = ClockOffset::default();
        for minute in 0..30 {
            let sent = EventTime(minute * 60_000_000);
            offset.add_sample(sent, sent.shifted(1_000 + minute * 10));
        }
        assert_eq!(offset.offset_micros(), 1_000 + 20 * 10);
    }
}
