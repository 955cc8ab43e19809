//! Sequence numbers seen from an incarnation, to deduplicate resent reports.

use std::collections::BTreeMap;

use parallax_model::ReportSeq;

/// Maximum number of ranges. A prober numbers without gaps and each gap is a malformed or lost line, so a well-behaved
/// prober stays far below it.
const MAX_RANGES: usize = 1_024;

/// A set of numbers, stored as ranges; usually a single one.
#[derive(Debug, Default)]
pub(crate) struct SequenceSet {
    /// First and last number of each range, inclusive; ranges neither touch nor overlap.
    ranges: BTreeMap<u64, u64>,
}

impl SequenceSet {
    /// Inserts a number; returns false if the set already contains it.
    pub(crate) fn insert(&mut self, seq: ReportSeq) -> bool {
        let n = seq.0;
        let below = self
            .ranges
            .range(..=n)
            .next_back()
            .map(|(first, last)| (*first, *last));
        if below.is_some_and(|(_, last)| last >= n) {
            return false;
        }
        let first = match below {
            Some((first, last)) if last + 1 == n => first,
            _ => n,
        };
        let above = n.checked_add(1).and_then(|next| self.ranges.remove(&next));
        self.ranges.insert(first, above.unwrap_or(n));
        if self.ranges.len() > MAX_RANGES {
            self.close_oldest_gap();
        }
        true
    }

    /// Marks the numbers of the oldest gap as seen, to bound memory; they would be too late anyway.
    fn close_oldest_gap(&mut self) {
        let mut ranges = self.ranges.keys().copied();
        if let (Some(first), Some(second)) = (ranges.next(), ranges.next())
            && let Some(last) = self.ranges.remove(&second)
        {
            self.ranges.insert(first, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_takes_each_number_once_in_whatever_order_they_come(numbers in prop::collection::vec(0_u64..200, 0..400)) {
            let (mut seen, mut model) = (SequenceSet::default(), BTreeSet::new());
            for n in numbers {
                prop_assert_eq!(seen.insert(ReportSeq(n)), model.insert(n));
            }
        }
    }

    #[test]
    fn ten_thousand_numbers_in_a_row_take_one_range_and_a_hostile_pattern_stays_bounded() {
        let mut seen = SequenceSet::default();
        assert!((0..10_000).all(|n| seen.insert(ReportSeq(n))));
        assert_eq!(seen.ranges.len(), 1);
        for n in 0..5_000 {
            seen.insert(ReportSeq(20_000 + 2 * n));
        }
        assert_eq!(seen.ranges.len(), MAX_RANGES);
        assert!(seen.insert(ReportSeq(u64::MAX)));
        assert!(!seen.insert(ReportSeq(u64::MAX)));
    }
}
