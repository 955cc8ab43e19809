//! The rounds that each vantage probed during a step.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use super::TimeSpan;
use crate::observe::{ProberCounts, Timeline, VantageSample};

/// Length of a round in seconds, as long as no aggregator has named it: the default of the chart.
const DEFAULT_ROUND_S: f64 = 5.0;
/// Rounds without an observation of the suite after which it proves nothing about missed rounds.
const MAX_UNOBSERVED_ROUNDS: f64 = 3.0;

/// The rounds that a vantage probed, and what became of its observations.
///
/// A vantage misses a round if its probers start no probe for the length of a round. The probes of a plan spread over the round, so
/// every assignment then lacks a probe. While two Pods of a node replace each other, either of them suffices.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct VantageCoverage {
    /// The vantage.
    pub vantage: String,
    /// The number of rounds without a probe.
    pub missed_rounds: u64,
    /// When it probed nothing for at least a round, as far as observed.
    pub quiet: Vec<TimeSpan>,
    /// The longest observed time without a probe, in seconds.
    pub longest_quiet_s: f64,
    /// Pods that probed: more than one after a restart.
    pub pods: BTreeSet<String>,
    /// Probes that its probers could not make, because of faults of their own.
    pub not_made: u64,
    /// Observations that its probers dropped.
    pub dropped: u64,
    /// Observations that were not acknowledged when a Pod that ended was last seen. Most of them arrive afterwards.
    pub unacknowledged: u64,
    /// Observations that an aggregator discarded: most of them arrived after their round was judged.
    pub discarded: u64,
    /// The longest time in which no prober of the vantage answered the suite, in seconds.
    pub longest_unobserved_s: f64,
    /// Length of a round, in seconds.
    pub round_s: f64,
}

/// Returns the rounds of every vantage between two times. Counts from before are not those of the step.
#[must_use]
pub fn vantage_coverage(timeline: &Timeline, from: f64, until: f64) -> Vec<VantageCoverage> {
    let states = || {
        let looks = timeline.samples.iter().filter(|look| look.at <= until);
        looks.filter_map(|look| Some((look.at, look.pod.as_str(), look.state.as_ref().ok()?)))
    };
    // A step may change the interval.
    let round_s = states()
        .filter_map(|(_, _, state)| state.round_s)
        .max_by(f64::total_cmp)
        .unwrap_or(DEFAULT_ROUND_S);
    let mut by_vantage: BTreeMap<&str, Vec<&VantageSample>> = BTreeMap::new();
    for sample in timeline.vantages.iter().filter(|sample| sample.at <= until) {
        by_vantage.entry(&sample.vantage).or_default().push(sample);
    }
    by_vantage
        .into_iter()
        .map(|(vantage, samples)| {
            let mut walk = CoverageWalk::new(vantage, round_s, from);
            for sample in samples {
                walk.add(sample);
            }
            let mut discarded: BTreeMap<&str, u64> = BTreeMap::new();
            for (at, pod, state) in states() {
                let count = state.discarded.get(vantage).copied().unwrap_or_default();
                let before = discarded.insert(pod, count).unwrap_or_default();
                if at >= from {
                    walk.coverage.discarded += count.saturating_sub(before);
                }
            }
            walk.end(until)
        })
        .collect()
}

/// Follows the counters of one vantage.
struct CoverageWalk {
    coverage: VantageCoverage,
    /// Beginning of the step.
    from: f64,
    /// The newest counters of each Pod, with their time.
    pods: BTreeMap<String, (f64, ProberCounts)>,
    /// When the newest probe was seen, and the latest answer since then that showed no other.
    probed: f64,
    quiet_until: f64,
    /// The latest answer.
    answered: f64,
}

impl CoverageWalk {
    fn new(vantage: &str, round_s: f64, from: f64) -> Self {
        Self {
            coverage: VantageCoverage {
                vantage: vantage.to_owned(),
                round_s,
                ..VantageCoverage::default()
            },
            from,
            pods: BTreeMap::new(),
            probed: from,
            quiet_until: from,
            answered: from,
        }
    }

    fn add(&mut self, sample: &VantageSample) {
        let Some(counts) = &sample.pods else { return };
        let mut has_probed = false;
        for new in counts {
            let old = self.pods.insert(new.pod.clone(), (sample.at, new.clone()));
            let old = old.map(|(_, old)| old);
            if sample.at < self.from {
                continue;
            }
            if new.made > 0 {
                self.coverage.pods.insert(new.pod.clone());
            }
            has_probed |= new.made > 0 && old.as_ref().is_none_or(|old| old.made != new.made);
            let increase = |count: fn(&ProberCounts) -> u64| {
                let old = old.as_ref().map(count).unwrap_or_default();
                // A restarted container counts from 0.
                count(new).checked_sub(old).unwrap_or_else(|| count(new))
            };
            self.coverage.not_made += increase(|counts| counts.not_made);
            self.coverage.dropped += increase(|counts| counts.dropped);
        }
        if sample.at < self.from {
            return;
        }
        self.note_answer(sample.at);
        if has_probed {
            self.close_quiet();
            self.probed = sample.at;
        }
        self.quiet_until = sample.at;
    }

    fn note_answer(&mut self, at: f64) {
        let longest = &mut self.coverage.longest_unobserved_s;
        *longest = longest.max(at - self.answered);
        self.answered = at;
    }

    /// Counts the rounds since the newest probe. Only answers prove that there was none: between two answers any probe may have
    /// been made.
    fn close_quiet(&mut self) {
        let quiet_s = self.quiet_until - self.probed;
        let coverage = &mut self.coverage;
        coverage.longest_quiet_s = coverage.longest_quiet_s.max(quiet_s);
        let rounds = whole(quiet_s / coverage.round_s);
        if rounds > 0 {
            coverage.missed_rounds += rounds;
            coverage.quiet.push(TimeSpan {
                from: self.probed,
                until: self.quiet_until,
            });
        }
    }

    fn end(mut self, until: f64) -> VantageCoverage {
        self.close_quiet();
        let last = self.answered;
        let ended = self
            .pods
            .values()
            .filter(|(at, _)| *at >= self.from && *at < last);
        self.coverage.unacknowledged = ended.map(|(_, counts)| counts.unacknowledged).sum();
        self.note_answer(until);
        self.coverage
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounds of one step, of which there is no negative number"
)]
const fn whole(rounds: f64) -> u64 {
    rounds.max(0.0) as u64
}

impl VantageCoverage {
    /// Returns why it lost more than permitted, if it did.
    pub(super) fn loss(&self, most_missed_rounds: u64) -> Option<String> {
        let lost = self.missed_rounds > most_missed_rounds || self.dropped > 0;
        lost.then(|| format!("rounds or observations are lost: {self}"))
    }
}

/// Returns why the suite cannot tell which rounds were missed, if it cannot.
pub(super) fn unobserved(coverage: &[VantageCoverage]) -> Option<String> {
    if coverage.is_empty() {
        return Some("no prober was observed, so missed rounds are unknown".to_owned());
    }
    let longest = coverage
        .iter()
        .find(|vantage| vantage.longest_unobserved_s > MAX_UNOBSERVED_ROUNDS * vantage.round_s)?;
    Some(format!(
        "no prober of {} answered the suite for {:.0} s, so missed rounds are unknown",
        longest.vantage, longest.longest_unobserved_s
    ))
}

impl fmt::Display for VantageCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = if self.missed_rounds == 1 {
            "round"
        } else {
            "rounds"
        };
        write!(
            f,
            "{}: {} missed {rounds}, longest time without a probe {:.1} s, {} Pods probed; {} probes not made; observations: {} \
             dropped, {} not acknowledged when their Pod was last seen, {} discarded by an aggregator",
            self.vantage,
            self.missed_rounds,
            self.longest_quiet_s,
            self.pods.len(),
            self.not_made,
            self.dropped,
            self.unacknowledged,
            self.discarded,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{judge::incidents::tests::look, observe::StateSample};

    fn counts(pod: &str, made: u64) -> ProberCounts {
        ProberCounts {
            pod: pod.to_owned(),
            made,
            not_made: 0,
            dropped: 0,
            unacknowledged: 0,
        }
    }

    fn timeline(samples: impl IntoIterator<Item = (u32, Option<Vec<ProberCounts>>)>) -> Timeline {
        let vantages = samples.into_iter().map(|(second, pods)| VantageSample {
            at: f64::from(second),
            vantage: "n1/pod".to_owned(),
            pods,
        });
        Timeline {
            vantages: vantages.collect(),
            ..Timeline::default()
        }
    }

    fn coverage(timeline: &Timeline) -> VantageCoverage {
        let found = vantage_coverage(timeline, 100.0, 160.0);
        assert_eq!(found.len(), 1, "{found:?}");
        found.into_iter().next().unwrap()
    }

    #[test]
    fn a_new_pod_that_probes_before_the_old_one_ends_misses_no_round() {
        let replaced = timeline((95..=160).map(|second| {
            let made = u64::from(second) * 4;
            let pods = match second {
                ..120 => vec![counts("old", made)],
                120..133 => vec![counts("old", made), counts("new", made - 470)],
                _ => vec![counts("new", made - 470)],
            };
            (second, Some(pods))
        }));
        let found = coverage(&replaced);
        assert_eq!((found.missed_rounds, found.pods.len()), (0, 2));
        assert!(found.longest_quiet_s < 1.0, "{found}");
        assert_eq!(found.loss(0), None);
        assert_eq!(unobserved(std::slice::from_ref(&found)), None);
    }

    #[test]
    fn a_vantage_without_a_prober_misses_whole_rounds() {
        // The last probe is seen at 119 s, the next one at 132 s.
        let gap = timeline((95..=160).map(|second| {
            let pods = match second {
                ..120 => vec![counts("old", u64::from(second))],
                120..130 => Vec::new(),
                130..132 => vec![counts("new", 0)],
                _ => vec![counts("new", u64::from(second) - 131)],
            };
            (second, Some(pods))
        }));
        let found = coverage(&gap);
        let span = TimeSpan {
            from: 119.0,
            until: 131.0,
        };
        assert_eq!(
            (found.missed_rounds, found.quiet.as_slice()),
            (2, [span].as_slice())
        );
        let loss = found.loss(1).unwrap();
        assert!(loss.contains("n1/pod: 2 missed rounds"), "{loss}");
        assert_eq!(found.loss(2), None);
    }

    #[test]
    fn a_hung_prober_is_quiet_until_the_end() {
        let hung = timeline((100..=160).map(|second| {
            let made = u64::from(second.min(149));
            (second, Some(vec![counts("old", made)]))
        }));
        assert_eq!(coverage(&hung).missed_rounds, 2);
    }

    #[test]
    fn without_an_answer_nothing_is_missed_and_the_step_proves_nothing() {
        let mute = timeline((100..=160).map(|second| {
            let pods = (!(110..140).contains(&second)).then(|| vec![counts("old", u64::from(second))]);
            (second, pods)
        }));
        let found = coverage(&mute);
        assert_eq!(found.missed_rounds, 0);
        let reason = unobserved(std::slice::from_ref(&found)).unwrap();
        assert!(
            reason.contains("no prober of n1/pod answered the suite for 31 s"),
            "{reason}"
        );
        assert!(unobserved(&[]).is_some());
    }

    #[test]
    fn losses_count_from_the_beginning_of_the_step_and_across_restarts() {
        let with = |pod: &str, made: u64, lost: u64| ProberCounts {
            not_made: lost,
            dropped: lost,
            unacknowledged: 3,
            ..counts(pod, made)
        };
        let mut lossy = timeline([
            (99, Some(vec![with("old", 10, 5)])),
            (102, Some(vec![with("old", 11, 6)])),
            // The container is restarted, then the Pod is replaced.
            (104, Some(vec![with("old", 1, 2)])),
            (106, Some(vec![with("new", 1, 1)])),
        ]);
        let state = |at: f64, pod: &str, discarded: u64| {
            let mut look: StateSample = look(at, pod, &[]);
            let state = look.state.as_mut().unwrap();
            state.discarded.insert("n1/pod".to_owned(), discarded);
            state.round_s = Some(10.0);
            look
        };
        lossy.samples = vec![
            state(90.0, "a", 40),
            state(101.0, "a", 41),
            state(103.0, "a", 43),
            state(105.0, "b", 7),
        ];
        let found = coverage(&lossy);
        // 5 to 6, 0 to 2, and 0 to 1.
        assert_eq!((found.not_made, found.dropped, found.unacknowledged), (4, 4, 3));
        assert_eq!((found.discarded, found.round_s), (10, 10.0));
        assert!(found.loss(100).is_some(), "a dropped observation is lost");
    }
}
