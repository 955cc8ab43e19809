//! Adding up scores: shares, quantiles, calibration.

use std::collections::BTreeMap;

use super::score::{FaultScore, FindingClosure, TrialScore};

/// A share of counted things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedShare {
    /// Those that are so.
    pub hits: u32,
    /// All.
    pub of: u32,
}

impl CountedShare {
    /// Counts one more.
    pub fn add(&mut self, hit: bool) {
        self.of += 1;
        self.hits += u32::from(hit);
    }

    /// As a number; nothing where nothing was counted.
    #[must_use]
    pub fn get(self) -> Option<f64> {
        (self.of > 0).then(|| f64::from(self.hits) / f64::from(self.of))
    }
}

/// Evidence that suffices for any cause, in nats: odds of 99 to 1, against the prior of any fault (.03), of the rarest
/// kind (.03) and of one of 150 members.
pub const AMPLE_NATS: f64 = 16.5;

/// The faults of one cause, or of all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Faults injected that somebody could have named.
    pub observable: u32,
    /// Faults injected that nobody could have named, and how many of them were named right all the same.
    pub unobservable: CountedShare,
    /// Any finding was given, of the observable ones.
    pub named: CountedShare,
    /// Nothing was said though the evidence was ample, of the observable ones.
    pub silent: CountedShare,
    /// Region and members right, of the named ones.
    pub exact: CountedShare,
    /// Class right, of the named ones.
    pub class_right: CountedShare,
    /// Class right, of the observable ones.
    pub recalled: CountedShare,
    /// Class right, or in the likeliest class where nothing was named, of the observable ones.
    pub top: CountedShare,
    /// The class held something that could have been told apart, of those with the right class.
    pub over_wide: CountedShare,
    /// About another front or target, of those with the right class.
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
        self.top.add(right || fault.leant_to);
        let Some(naming) = &fault.naming else { return };
        self.exact.add(naming.exact);
        self.class_right.add(naming.class_right);
        if naming.class_right {
            self.over_wide.add(naming.over_wide > 0);
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

/// The value that the given share of the values does not exceed (nearest rank); nothing where there are none.
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
    /// Findings in it.
    pub n: u32,
    /// Sum of their confidences.
    pub confidence: f64,
    /// Those whose class was right.
    pub right: u32,
}

impl ReliabilityBin {
    /// Mean confidence and share right.
    #[must_use]
    pub fn means(&self) -> Option<(f64, f64)> {
        let n = f64::from(self.n);
        (self.n > 0).then(|| (self.confidence / n, f64::from(self.right) / n))
    }
}

/// Findings sorted into bins of equal width from `low` to 1.
#[must_use]
pub fn bins(findings: &[(f64, bool)], low: f64, count: u32) -> Vec<ReliabilityBin> {
    let edge = |i: u32| low + (1.0 - low) * f64::from(i) / f64::from(count);
    let mut bins: Vec<ReliabilityBin> = (0..count).map(|_| ReliabilityBin::default()).collect();
    for (confidence, right) in findings.iter().filter(|(confidence, _)| *confidence >= low) {
        // The last bin takes its upper edge too.
        let i = (0..count).rev().find(|i| *confidence >= edge(*i)).unwrap_or(0);
        if let Some(bin) = usize::try_from(i).ok().and_then(|i| bins.get_mut(i)) {
            bin.n += 1;
            bin.confidence += confidence;
            bin.right += u32::from(*right);
        }
    }
    bins
}

/// Expected calibration error: Σ (n/N)·|mean confidence − share right|. Nothing without findings.
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

/// A set of trials, added up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SetTally {
    /// All faults.
    pub all: Row,
    /// Faults by cause.
    pub causes: BTreeMap<String, Row>,
    /// Healthy trials with a verdict.
    pub false_alarms: CountedShare,
    /// Trials with a fault that also had a finding that belongs to none.
    pub wrong_second: CountedShare,
    /// Trials with two faults whose both were named.
    pub both_named: CountedShare,
    /// Trials with two faults of which one at least was named.
    pub one_of_two: CountedShare,
    /// Confidence and rightness of every finding.
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
            self.false_alarms.add(!trial.wrong.is_empty());
        } else {
            self.wrong_second.add(!trial.wrong.is_empty());
        }
        if trial.faults.len() == 2 && trial.faults.iter().all(|fault| fault.observable) {
            self.both_named.add(trial.all_named());
            self.one_of_two.add(trial.any_named());
        }
        self.confidence.extend(&trial.confidence);
    }

    /// Calibration over ten bins.
    #[must_use]
    pub fn calibration_error(&self) -> Option<f64> {
        calibration_error(&bins(&self.confidence, 0.0, 10))
    }
}
