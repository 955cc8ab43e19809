//! Exponential backoff.

use std::time::Duration;

/// The delay before the next attempt: `first`, doubled with each failure up to `max`, minus jitter of up to half
/// the delay. The jitter prevents clients that failed together from retrying together; it is half the delay at
/// `jitter` 1 and zero at `jitter` 0.
///
/// The caller supplies `jitter`, either random or derived from a name, so that a schedule stays reproducible.
#[must_use]
pub fn backoff(first: Duration, max: Duration, failures: u32, jitter: f64) -> Duration {
    let step = first
        .saturating_mul(2_u32.saturating_pow(failures.min(16)))
        .min(max);
    step.mul_f64(0.5 + 0.5 * (1.0 - jitter.clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_at_most_half_of_each_is_left_out() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_mins(5));
        let wait = |failures, spread| backoff(first, longest, failures, spread);
        let whole: Vec<_> = (0..12).map(|failures| wait(failures, 0.0).as_secs()).collect();
        assert_eq!(whole, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        let half: Vec<_> = (0..4).map(|failures| wait(failures, 1.0).as_millis()).collect();
        assert_eq!(half, [500, 1_000, 2_000, 4_000]);
        assert_eq!(wait(u32::MAX, 0.0), longest);
    }
}
