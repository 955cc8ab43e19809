//! A log-linear latency sketch with the bucket indexes of Prometheus' native histograms of schema 3: ⌈log2(seconds) ·
//! 8⌉, so each bucket is at most 9 % wide. Merging adds counts; it is exact and independent of order.

use std::collections::BTreeMap;

use parallax_model::Micros;
use serde::{Deserialize, Serialize};

/// 2^(k/8) / 2: upper bounds of the mantissas in [0.5, 1) of the eight buckets of a power of two.
const MANTISSA_BOUNDS: [f64; 8] = [
    0.5,
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    0.707_106_781_186_547_5,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_6,
    0.917_004_043_204_671_2,
];

/// Counts by bucket.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LatencyHistogram(BTreeMap<i16, u64>);

impl LatencyHistogram {
    pub(crate) fn add(&mut self, time: Micros) {
        *self.0.entry(bucket_index(time)).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, n) in &other.0 {
            let sum = self.0.entry(*bucket).or_default();
            *sum = sum.saturating_add(*n);
        }
    }

    /// The geometric middle of the bucket that contains the quantile `q`; `None` if the sketch is empty.
    pub fn quantile(&self, q: f64) -> Option<Micros> {
        let total: u64 = self.0.values().sum();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank within a count; both far below 2^52"
        )]
        let rank = ((total as f64 * q).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0_u64;
        self.0
            .iter()
            .find(|(_, n)| {
                seen = seen.saturating_add(**n);
                seen >= rank
            })
            .map(|(bucket, _)| {
                let seconds = ((f64::from(*bucket) - 0.5) / 8.0).exp2();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "positive, and a cast saturates"
                )]
                let micros = (seconds * 1e6).round() as u64;
                Micros(micros)
            })
    }
}

/// The bucket of a time; zero is treated as a microsecond.
fn bucket_index(time: Micros) -> i16 {
    let seconds = Micros(time.0.max(1)).as_secs_f64();
    // A positive normal number: take the exponent's bits, and scale the mantissa into [0.5, 1).
    let bits = seconds.to_bits();
    let exponent = i16::try_from(bits >> 52 & 0x7ff).unwrap_or(i16::MAX) - 1_022;
    let mantissa = f64::from_bits(bits & !(0x7ff << 52) | 1_022 << 52);
    let within = MANTISSA_BOUNDS
        .iter()
        .position(|bound| mantissa <= *bound)
        .unwrap_or(8);
    (exponent - 1) * 8 + i16::try_from(within).unwrap_or(8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_those_of_native_schema_three() {
        for (micros, bucket) in [
            (1, -159),
            (100, -106),
            (1_000, -79),
            (1_000_000, 0),
            (10_000_000, 27),
            (60_000_000, 48),
        ] {
            assert_eq!(bucket_index(Micros(micros)), bucket, "{micros} µs");
        }
    }

    #[test]
    fn nothing_counted_has_no_quantile() {
        assert_eq!(LatencyHistogram::default().quantile(0.5), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_five_percent_of_the_value_of_that_rank(
            mut times in prop::collection::vec(10_u64..60_000_000, 1..200), q in 0.01_f64..1.0
        ) {
            let mut sketch = LatencyHistogram::default();
            for time in &times {
                sketch.add(Micros(*time));
            }
            times.sort_unstable();
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank among 200")]
            let exact = times[(times.len() as f64 * q).ceil() as usize - 1];
            let estimate = sketch.quantile(q).unwrap().as_secs_f64();
            let exact = Micros(exact).as_secs_f64();
            // Rounding to whole microseconds is off by half a microsecond, which is 5 % of the smallest time.
            prop_assert!((estimate / exact - 1.0).abs() < 0.05 || (estimate - exact).abs() <= 1e-6, "{estimate} for {exact}");
        }

        #[test]
        fn merging_equals_counting_together(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(any::<u64>(), 0..50)) {
            let of = |times: &[u64]| {
                let mut sketch = LatencyHistogram::default();
                for time in times { sketch.add(Micros(*time)); }
                sketch
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }
}
