//! Sets of sequence numbers as ranges: a prober numbers its reports without gaps, so a round of one prober is one
//! range.

use std::collections::BTreeMap;

use parallax_model::ReportSeq;

/// A set of sequence numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SequenceSet {
    /// Ranges from first to last, inclusive, neither adjacent nor overlapping.
    ranges: BTreeMap<u64, u64>,
}

impl SequenceSet {
    pub(crate) fn contains(&self, seq: ReportSeq) -> bool {
        self.ranges
            .range(..=seq.0)
            .next_back()
            .is_some_and(|(_, last)| *last >= seq.0)
    }

    pub(crate) fn insert(&mut self, seq: ReportSeq) {
        let n = seq.0;
        let first = match self.ranges.range_mut(..=n).next_back() {
            Some((_, last)) if *last >= n => return,
            Some((first, last)) if *last + 1 == n => {
                *last = n;
                *first
            }
            _ => {
                self.ranges.insert(n, n);
                n
            }
        };
        // The next range may begin directly after this one.
        if let Some(last) = n.checked_add(1).and_then(|next| self.ranges.remove(&next)) {
            self.ranges.insert(first, last);
        }
    }

    /// Adds all numbers of another set.
    pub(crate) fn merge(&mut self, other: &Self) {
        let mut all: Vec<(u64, u64)> = self
            .ranges
            .iter()
            .chain(&other.ranges)
            .map(|(a, b)| (*a, *b))
            .collect();
        all.sort_unstable();
        self.ranges.clear();
        let mut open: Option<(u64, u64)> = None;
        for (first, last) in all {
            open = match open {
                Some((from, to)) if first <= to.saturating_add(1) => Some((from, to.max(last))),
                before => {
                    self.ranges.extend(before);
                    Some((first, last))
                }
            };
        }
        self.ranges.extend(open);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_in_whatever_order_the_numbers_come(
            numbers in prop::collection::vec(prop_oneof![0_u64..60, u64::MAX - 3..=u64::MAX], 0..200),
        ) {
            let (mut seqs, mut model) = (SequenceSet::default(), BTreeSet::new());
            for n in &numbers {
                prop_assert_eq!(seqs.contains(ReportSeq(*n)), model.contains(n));
                seqs.insert(ReportSeq(*n));
                model.insert(*n);
            }
            for n in (0..62).chain([u64::MAX - 1, u64::MAX]) {
                prop_assert_eq!(seqs.contains(ReportSeq(n)), model.contains(&n));
            }
        }
    }

    proptest! {
        #[test]
        fn two_sets_joined_are_what_all_their_numbers_make(
            one in prop::collection::vec(prop_oneof![0_u64..60, u64::MAX - 3..=u64::MAX], 0..40),
            other in prop::collection::vec(prop_oneof![0_u64..60, u64::MAX - 3..=u64::MAX], 0..40),
        ) {
            let set = |numbers: &[u64]| {
                let mut seqs = SequenceSet::default();
                for n in numbers {
                    seqs.insert(ReportSeq(*n));
                }
                seqs
            };
            let mut joined = set(&one);
            joined.merge(&set(&other));
            prop_assert_eq!(joined, set(&[one, other].concat()));
        }
    }

    #[test]
    fn numbers_in_a_row_take_one_range() {
        let mut seqs = SequenceSet::default();
        (0..10_000).for_each(|n| seqs.insert(ReportSeq(n)));
        assert_eq!(seqs.ranges.len(), 1);
    }
}
