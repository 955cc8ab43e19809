//! A night: ordinary steps in random order. Parallax is reinstalled only after a wrong result, so that leftovers of
//! one event meet the next one.

use std::cell::RefCell;

use super::{Options, StepRecord, SuiteRun};
use crate::{
    judge::Outcome,
    print_uncaptured,
    step::{Installation, Kind, Step},
};

impl SuiteRun {
    pub(super) async fn run_night(
        &self,
        hours: f64,
        options: &Options,
        steps: &[Step],
        records: &RefCell<Vec<StepRecord>>,
    ) -> anyhow::Result<()> {
        let mut ordinary: Vec<&Step> = steps
            .iter()
            .filter(|step| step.kind == Kind::Ordinary && step.installation == Installation::Plain)
            .collect();
        let seconds = hours * 3600.0;
        let begin = self.observer.clock.now();
        let mut order = SeededOrder(options.seed);
        while self.observer.clock.now() - begin < seconds {
            anyhow::ensure!(
                !ordinary.is_empty(),
                "none of the selected steps is an ordinary one that can run here"
            );
            let chosen = order.next(ordinary.len());
            let step = ordinary[chosen];
            let hours = (self.observer.clock.now() - begin) / 3600.0;
            print_uncaptured(&format!("▸ {hours:.1} h {}: {}", step.id, step.title));
            let record = self.run(step).await?;
            print_uncaptured(&record.line());
            // A step that cannot run here is counted once, and not selected again.
            if record.verdict.outcome == Outcome::NotRun {
                ordinary.remove(chosen);
            }
            records.borrow_mut().push(record);
            options.write_partial(&records.borrow())?;
        }
        Ok(())
    }
}

/// A sequence of numbers that depends only on its seed (`SplitMix64`).
struct SeededOrder(u64);

impl SeededOrder {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let below = u64::try_from(below).unwrap_or(u64::MAX).max(1);
        usize::try_from(mixed % below).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_makes_one_order_and_another_one_another() {
        let take = |seed: u64| {
            let mut order = SeededOrder(seed);
            (0..20).map(|_| order.next(7)).collect::<Vec<_>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
        let mut seen = take(3);
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 4, "{seen:?}");
    }
}
