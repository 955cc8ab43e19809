//! Sums the scores of a set.

use std::{collections::BTreeMap, fmt};

use super::{
    super::tally::quantile,
    score::{ScoredIncident, TrialScore},
};

/// Sums over the trials of a set.
#[derive(Debug, Clone, Default)]
pub struct SetSummary {
    /// Number of trials.
    pub trials: usize,
    /// Number of observable faults.
    pub faults: usize,
    /// Faults that another one hides.
    pub hidden: usize,
    /// Faults that were named rightly.
    pub named: usize,
    /// Trials with an incident that names no fault.
    pub foreign_trials: usize,
    /// Incidents that name no fault.
    pub foreign: usize,
    /// Faults that were named by more than one incident.
    pub split: usize,
    /// Openings of incidents that name a fault.
    pub openings: u32,
    /// Incidents still open at the end.
    pub open_at_end: usize,
    /// Seconds until a fault was named.
    times: Vec<f64>,
    /// Sum of the probabilities of all incidents.
    probability: f64,
    /// Number of all incidents.
    incidents: usize,
    by_kind: BTreeMap<&'static str, KindSummary>,
    foreign_regions: BTreeMap<String, usize>,
}

/// Sums over the faults of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct KindSummary {
    faults: usize,
    named: usize,
    /// Foreign incidents of trials in which it was the first fault.
    foreign: usize,
}

impl SetSummary {
    /// Adds a trial.
    pub fn add(&mut self, score: &TrialScore) {
        self.trials += 1;
        let foreign: Vec<&ScoredIncident> = score.foreign().collect();
        self.foreign += foreign.len();
        self.foreign_trials += usize::from(!foreign.is_empty());
        for incident in &foreign {
            let region = incident.description.split(' ').next().unwrap_or_default();
            *self.foreign_regions.entry(region.to_owned()).or_default() += 1;
        }
        for (index, fault) in score.faults.iter().enumerate() {
            if !fault.is_observable() {
                self.hidden += 1;
                continue;
            }
            let kind = self.by_kind.entry(fault.kind).or_default();
            kind.faults += 1;
            kind.named += usize::from(fault.named_after.is_some());
            kind.foreign += if index == 0 { foreign.len() } else { 0 };
            self.faults += 1;
            self.named += usize::from(fault.named_after.is_some());
            self.split += usize::from(fault.incidents > 1);
            self.openings += fault.openings;
            self.times.extend(fault.named_after);
        }
        self.open_at_end += score.incidents.iter().filter(|incident| incident.open).count();
        self.incidents += score.incidents.len();
        self.probability += score
            .incidents
            .iter()
            .map(|incident| incident.probability)
            .sum::<f64>();
    }

    /// Returns the share of incidents that name a fault, and their mean probability.
    #[must_use]
    pub fn calibration(&self) -> (f64, f64) {
        let right = share(self.incidents - self.foreign, self.incidents);
        (right, self.probability / float(self.incidents.max(1)))
    }
}

fn share(part: usize, all: usize) -> f64 {
    float(part) / float(all.max(1))
}

#[expect(clippy::cast_precision_loss, reason = "counts of trials")]
const fn float(count: usize) -> f64 {
    count as f64
}

impl fmt::Display for SetSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |share| {
            quantile(&self.times, share).map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.0} s"))
        };
        let (right, probability) = self.calibration();
        writeln!(
            f,
            "named {:.3} of {} faults ({} hidden) after {} (p90 {}); trials with a foreign verdict {:.3} of {} ({} verdicts); \
             faults in several incidents {}; openings a fault {:.2}; open at the end {}; right {right:.3}, said {probability:.3}",
            share(self.named, self.faults),
            self.faults,
            self.hidden,
            time(0.5),
            time(0.9),
            share(self.foreign_trials, self.trials),
            self.trials,
            self.foreign,
            self.split,
            f64::from(self.openings) / float(self.faults.max(1)),
            self.open_at_end,
        )?;
        for (kind, sums) in &self.by_kind {
            writeln!(
                f,
                "  {kind:12} named {}/{}, foreign verdicts {}",
                sums.named, sums.faults, sums.foreign
            )?;
        }
        for (region, count) in &self.foreign_regions {
            writeln!(f, "  foreign {region}: {count}")?;
        }
        Ok(())
    }
}
