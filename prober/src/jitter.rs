//! Deterministic jitter: the same words give the same value, on any machine and after any restart.

use std::time::Duration;

use parallax_model::hash;

/// Returns a duration below `span` that is a hash of the words.
pub(crate) fn offset_within(span: Duration, words: &[&str]) -> Duration {
    let nanos = (u128::from(hash::fnv1a_mixed(words)) * span.as_nanos()) >> 64;
    // Less than the span, which is a Duration itself.
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the wait before the next attempt. The jitter is derived from the name of the client, so that a thousand
/// probers retry at different times, and one prober at the same times in every run.
pub(crate) fn backoff(first: Duration, longest: Duration, failures: u32, client: &str) -> Duration {
    let place = offset_within(Duration::from_secs(1), &[client, &failures.to_string()]);
    parallax_model::backoff(first, longest, failures, place.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_stable_and_differs_by_every_word() {
        let span = Duration::from_secs(10);
        let place = offset_within(span, &["a", "n1/pod"]);
        assert_eq!(place, offset_within(span, &["a", "n1/pod"]));
        assert_ne!(place, offset_within(span, &["a", "n2/pod"]));
        assert_ne!(
            offset_within(span, &["ab", "c"]),
            offset_within(span, &["a", "bc"])
        );
    }

    #[test]
    fn a_thousand_names_spread_over_all_tenths_of_the_span() {
        let mut tenths = [0; 10];
        for i in 0..1000 {
            let place = offset_within(Duration::from_secs(10), &[&format!("probe-{i}"), "n1/pod"]);
            tenths[usize::try_from(place.as_secs()).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|n| (60..=140).contains(n)), "{tenths:?}");
    }

    #[test]
    fn a_backoff_grows_to_its_bound_and_never_falls_below_half() {
        let (first, most) = (Duration::from_millis(500), Duration::from_secs(15));
        for attempt in 0..40 {
            let wait = backoff(first, most, attempt, "x");
            let full = first.saturating_mul(1 << attempt.min(16)).min(most);
            assert!(wait >= full / 2 && wait <= full, "attempt {attempt}: {wait:?}");
        }
    }
}
