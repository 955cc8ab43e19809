//! Adds up scores: shares, quantiles, calibration.

use std::collections::BTreeMap;

use super::score::{FaultScore, FindingClosure, TrialScore};

/// A share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedShare {
    /// Number of hits.
    pub hits: u32,
    /// Total number.
    pub of: u32,
}

impl CountedShare {
    /// Counts one item.
    pub fn add(&mut self, hit: bool) {
        self.of += 1;
        self.hits += u32::from(hit);
    }

    /// Returns the share as a number, or `None` if nothing was counted.
    #[must_use]
    pub fn get(self) -> Option<f64> {
        (self.of > 0).then(|| f64::from(self.hits) / f64::from(self.of))
    }
}

/// Evidence that suffices for any cause, in nats: odds of 99 to 1, given the prior of any fault (.03), of the rarest
/// kind (.03) and of one of 150 members.
pub const AMPLE_NATS: f64 = 16.5;

/// Scores of the faults of one cause, or of all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Injected faults that could have been named.
    pub observable: u32,
    /// Injected faults that could not have been named, and how many of them were nevertheless named correctly.
    pub unobservable: CountedShare,
    /// With any finding, of the observable ones.
    pub named: CountedShare,
    /// Without a finding despite ample evidence, of the observable ones.
    pub silent: CountedShare,
    /// Region and members right, of the named ones.
    pub exact: CountedShare,
    /// Class right, of the named ones.
    pub class_right: CountedShare,
    /// Class right, of the observable ones.
    pub recalled: CountedShare,
    /// Class right, or in the likeliest class if not named, of the observable ones.
    pub top: CountedShare,
    /// Class contained a separable region, of those with the right class.
    pub over_wide: CountedShare,
    /// Subject is another front or target, of those with the right class.
    pub wrong_subject: CountedShare,
    /// Seconds from start to the first right verdict.
    pub seconds: Vec<f64>,
    /// The same in rounds.
    pub rounds: Vec<f64>,
    /// Closed after the end, of those that ended and were named.
    pub closed: CountedShare,
    /// Closed before the end, of the same.
    pub closed_early: CountedShare,
    /// Seconds from end to closing.
    pub closing_s: Vec<f64>,
}

impl Row {
    fn add(&mut self, fault: &FaultScore) {
        let right = fault.naming.as_ref().is_some_and(|n| n.class_right);
        if !fault.observable {
            self.unobservable.add(right);
            return;
        }
        self.observable += 1;
        self.named.add(fault.naming.is_some());
        self.silent
            .add(fault.naming.is_none() && fault.evidence_nats >= AMPLE_NATS);
        self.recalled.add(right);
        self.top.add(right || fault.likeliest);
        let Some(naming) = &fault.naming else { return };
        self.exact.add(naming.exact);
        self.class_right.add(naming.class_right);
        if naming.class_right {
            self.over_wide.add(naming.separable_regions > 0);
            self.wrong_subject.add(naming.wrong_subject);
        }
        self.seconds.extend(fault.after_s);
        self.rounds.extend(fault.after_rounds);
        if let Some(closing) = fault.closing {
            self.closed.add(matches!(closing, FindingClosure::After(_)));
            self.closed_early.add(closing == FindingClosure::TooEarly);
            if let FindingClosure::After(seconds) = closing {
                self.closing_s.push(seconds);
            }
        }
    }
}

/// Returns the value that the given share of the values does not exceed (nearest rank), or `None` without values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let reached = |rank: usize| {
        let (rank, n) = (u32::try_from(rank).ok()?, u32::try_from(sorted.len()).ok()?);
        Some(f64::from(rank) / f64::from(n) >= share - 1e-12)
    };
    (1..=sorted.len())
        .find(|rank| reached(*rank).unwrap_or(true))
        .map(|rank| sorted[rank - 1])
}

/// One bin of the reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReliabilityBin {
    /// Number of findings.
    pub n: u32,
    /// Sum of their confidences.
    pub confidence: f64,
    /// Number of findings with the right class.
    pub right: u32,
}

impl ReliabilityBin {
    /// Returns mean confidence and the share that was right.
    #[must_use]
    pub fn means(&self) -> Option<(f64, f64)> {
        let n = f64::from(self.n);
        (self.n > 0).then(|| (self.confidence / n, f64::from(self.right) / n))
    }
}

/// Sorts findings into bins of equal width from `low` to 1.
#[must_use]
pub fn bins(findings: &[(f64, bool)], low: f64, count: u32) -> Vec<ReliabilityBin> {
    let edge = |i: u32| low + (1.0 - low) * f64::from(i) / f64::from(count);
    let mut bins: Vec<ReliabilityBin> = (0..count).map(|_| ReliabilityBin::default()).collect();
    for (confidence, right) in findings.iter().filter(|(confidence, _)| *confidence >= low) {
        // The last bin includes its upper bound.
        let i = (0..count).rev().find(|i| *confidence >= edge(*i)).unwrap_or(0);
        if let Some(bin) = usize::try_from(i).ok().and_then(|i| bins.get_mut(i)) {
            bin.n += 1;
            bin.confidence += confidence;
            bin.right += u32::from(*right);
        }
    }
    bins
}

/// Expected calibration error: Σ (n/N)·|mean confidence − share right|. `None` without findings.
#[must_use]
pub fn calibration_error(bins: &[ReliabilityBin]) -> Option<f64> {
    let all: u32 = bins.iter().map(|bin| bin.n).sum();
    (all > 0).then(|| {
        bins.iter()
            .filter_map(|bin| {
                bin.means()
                    .map(|(confidence, right)| f64::from(bin.n) * (confidence - right).abs())
            })
            .sum::<f64>()
            / f64::from(all)
    })
}

/// Totals of a set of trials.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SetTally {
    /// All faults.
    pub all: Row,
    /// Faults by cause.
    pub causes: BTreeMap<String, Row>,
    /// Healthy trials with a verdict.
    pub false_alarms: CountedShare,
    /// Trials with a fault that also had a finding that matches none.
    pub wrong_second: CountedShare,
    /// Trials with two faults, both of which were named.
    pub both_named: CountedShare,
    /// Trials with two faults, at least one of which was named.
    pub one_of_two: CountedShare,
    /// Confidence and correctness of every finding.
    pub confidence: Vec<(f64, bool)>,
}

impl SetTally {
    /// Adds one trial.
    pub fn add(&mut self, trial: &TrialScore) {
        for fault in &trial.faults {
            self.all.add(fault);
            self.causes.entry(fault.cause.clone()).or_default().add(fault);
        }
        if trial.healthy {
            self.false_alarms.add(!trial.unmatched.is_empty());
        } else {
            self.wrong_second.add(!trial.unmatched.is_empty());
        }
        if trial.faults.len() == 2 && trial.faults.iter().all(|fault| fault.observable) {
            self.both_named.add(trial.all_named());
            self.one_of_two.add(trial.any_named());
        }
        self.confidence.extend(&trial.confidence);
    }

    /// Returns the calibration error over ten bins.
    #[must_use]
    pub fn calibration_error(&self) -> Option<f64> {
        calibration_error(&bins(&self.confidence, 0.0, 10))
    }
}
