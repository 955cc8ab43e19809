//! Deterministic spreading: the same words always give the same fraction, on any machine and after any restart.

use std::time::Duration;

/// 64-bit FNV-1a over the words, with a separator no name contains, then one round of mixing so that names that differ
/// in their last byte only land far apart (the finalizer of `MurmurHash3`).
fn hash(words: &[&str]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for word in words {
        for byte in word.bytes().chain([0]) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    state = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state = (state ^ (state >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    state ^ (state >> 33)
}

/// A place within a span, the same for the same words; always less than the span.
pub(crate) fn within(span: Duration, words: &[&str]) -> Duration {
    let nanos = (u128::from(hash(words)) * span.as_nanos()) >> 64;
    // Less than the span, which is a Duration itself.
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A growing wait between attempts: doubles from `first` to `most`, and of each the upper half is spread.
pub(crate) fn backoff(first: Duration, most: Duration, attempt: u32, who: &str) -> Duration {
    let full = first.saturating_mul(1 << attempt.min(16)).min(most);
    full / 2 + within(full / 2, &[who, &attempt.to_string()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_stable_and_differs_by_every_word() {
        let span = Duration::from_secs(10);
        let place = within(span, &["a", "n1/pod"]);
        assert_eq!(place, within(span, &["a", "n1/pod"]));
        assert_ne!(place, within(span, &["a", "n2/pod"]));
        assert_ne!(within(span, &["ab", "c"]), within(span, &["a", "bc"]));
    }

    #[test]
    fn a_thousand_names_spread_over_all_tenths_of_the_span() {
        let mut tenths = [0; 10];
        for i in 0..1000 {
            let place = within(Duration::from_secs(10), &[&format!("probe-{i}"), "n1/pod"]);
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
