//! From a prober's monotonic clock to event time.
//!
//! Every report carries the sender's clock at sending. Received minus sent is the difference of the two clocks plus
//! the time the report was on its way. The way is never negative, so the smallest difference of the last minutes is
//! the best estimate; a window instead of all time lets it follow two clocks that drift apart (tens of parts per
//! million: under a tenth of a second an hour).

use std::collections::VecDeque;

use parallax_model::{EventTime, Micros};

/// Length of one slot of the window.
const SLOT: Micros = Micros::from_secs(60);
/// Slots in the window.
const SLOTS: usize = 10;

/// The offset of one incarnation.
#[derive(Debug, Default)]
pub(crate) struct ClockOffset {
    /// Start of a slot and the smallest difference in it, oldest first.
    slots: VecDeque<(EventTime, i64)>,
    latest: i64,
}

impl ClockOffset {
    /// Takes one report's clocks into account.
    pub(crate) fn hear(&mut self, sent: EventTime, received: EventTime) {
        let difference = received.0.saturating_sub(sent.0);
        self.latest = difference;
        match self.slots.back_mut() {
            Some((start, least)) if received - *start < SLOT => *least = difference.min(*least),
            _ => {
                self.slots.push_back((received, difference));
                if self.slots.len() > SLOTS {
                    self.slots.pop_front();
                }
            }
        }
    }

    /// Microseconds to add to the prober's clock.
    pub(crate) fn micros(&self) -> i64 {
        self.slots
            .iter()
            .map(|(_, least)| *least)
            .min()
            .unwrap_or_default()
    }

    /// How much longer than the quickest the latest report took: network, load, or a clock that was stepped.
    pub(crate) fn delay(&self) -> Micros {
        Micros(u64::try_from(self.latest.saturating_sub(self.micros())).unwrap_or(0))
    }

    /// A time of the prober's clock as event time.
    pub(crate) fn event_time(&self, at: EventTime) -> EventTime {
        at.shifted(self.micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_report_of_the_window_sets_the_offset_and_a_slow_one_only_shows_as_delay() {
        let mut offset = ClockOffset::default();
        offset.hear(EventTime(1_000), EventTime(501_200));
        offset.hear(EventTime(2_000), EventTime(502_050));
        offset.hear(EventTime(3_000), EventTime(533_000));
        assert_eq!(offset.micros(), 500_050);
        assert_eq!(offset.delay(), Micros(29_950));
        assert_eq!(offset.event_time(EventTime(10)), EventTime(500_060));
    }

    #[test]
    fn an_old_minimum_is_forgotten_so_that_drift_is_followed() {
        let mut offset = ClockOffset::default();
        for minute in 0..30 {
            let sent = EventTime(minute * 60_000_000);
            offset.hear(sent, sent.shifted(1_000 + minute * 10));
        }
        assert_eq!(offset.micros(), 1_000 + 20 * 10);
    }
}
