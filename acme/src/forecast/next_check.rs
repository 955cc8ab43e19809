//! Schedules the checks of names. Pure: the caller passes the time.

use std::hash::{DefaultHasher, Hash, Hasher};

use parallax_model::{EventTime, Micros};

/// From this long before a renewal on, the name is checked more often, by the factor below.
const NEAR_RENEWAL: Micros = Micros::from_secs(24 * 3_600);
const NEAR_RENEWAL_FACTOR: u64 = 5;

/// The minimum time between two checks of a name.
const MIN_INTERVAL: Micros = Micros::from_secs(60);

/// Returns the time of the next check. A name-specific offset of up to a tenth of the interval spreads the checks.
pub(super) fn next_check_time(
    host: &str,
    every: Micros,
    renewal: Option<EventTime>,
    now: EventTime,
) -> EventTime {
    let near = renewal.is_some_and(|at| at.0 <= now.plus(NEAR_RENEWAL).0);
    let every = if near {
        Micros((every.0 / NEAR_RENEWAL_FACTOR).max(MIN_INTERVAL.0.min(every.0)))
    } else {
        every
    };
    let tenth = every.0 / 10;
    now.plus(Micros(every.0 - tenth + name_hash(host) % (2 * tenth + 1)))
}

/// Returns the time of a new name's first check: the checks of all names at startup are spread over a tenth of the
/// interval.
pub(super) fn first_check_time(host: &str, every: Micros, now: EventTime) -> EventTime {
    now.plus(Micros(name_hash(host) % (every.0 / 10 + 1)))
}

/// Returns a number derived from the name; its value does not matter, so the hash function may change.
fn name_hash(host: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    host.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVERY: Micros = Micros::from_secs(600);
    const NOW: EventTime = EventTime(1_000_000_000);

    proptest! {
        #[test]
        fn a_name_is_looked_at_within_a_tenth_of_its_interval(host in "[a-z]{1,12}") {
            let after = |renewal| (next_check_time(&host, EVERY, renewal, NOW) - NOW).0;
            let far = NOW.plus(Micros::from_secs(30 * 86_400));
            for rarely in [after(None), after(Some(far))] {
                prop_assert!((540_000_000..=660_000_000).contains(&rarely), "{rarely}");
            }
            let soon = NOW.plus(Micros::from_secs(3_600));
            for often in [after(Some(soon)), after(Some(EventTime(0)))] {
                prop_assert!((108_000_000..=132_000_000).contains(&often), "{often}");
            }
            prop_assert!((first_check_time(&host, EVERY, NOW) - NOW).0 <= 60_000_000);
        }
    }

    #[test]
    fn names_spread() {
        let at = |n: u32| next_check_time(&format!("h{n}.example.test"), EVERY, None, NOW);
        let different: std::collections::BTreeSet<_> = (0..100).map(at).collect();
        assert!(different.len() > 90, "{}", different.len());
    }
}
