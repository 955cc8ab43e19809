//! Scores verdict lines against the truth of one trial.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::truth::{FaultTruth, NamedRegion, TrialTruth};

/// A printed verdict; other fields are ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct VerdictLine {
    /// The trial; 0 if the recording has only one.
    #[serde(default)]
    pub trial: usize,
    /// Seconds since the start of the trial.
    pub t: f64,
    /// The named region.
    pub region: String,
    /// Its members.
    #[serde(default)]
    pub members: Vec<String>,
    /// Probability of the whole class.
    pub probability: f64,
    /// All regions that the engine could not separate.
    #[serde(default)]
    pub class: Vec<NamedRegion>,
    /// When it closed.
    #[serde(default)]
    pub closed_t: Option<f64>,
    /// Id of its finding; without it, lines with overlapping classes are one finding.
    #[serde(default, alias = "incident")]
    pub id: Option<String>,
    /// Its subject, if the recording has more than one.
    #[serde(default)]
    pub subject: Option<serde_json::Value>,
}

/// The likeliest candidate at the end of a trial for which the evidence did not suffice for a verdict.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct LikeliestRegion {
    /// The likeliest region.
    pub region: String,
    /// Its members.
    #[serde(default)]
    pub members: Vec<String>,
    /// All regions that the engine could not separate from it.
    #[serde(default)]
    pub class: Vec<NamedRegion>,
}

#[derive(Debug, Deserialize)]
struct FindingEnd {
    #[serde(default)]
    trial: usize,
    #[serde(default)]
    likeliest: Vec<LikeliestRegion>,
}

/// All output for one trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrialOutput {
    /// Verdicts, oldest first.
    pub verdicts: Vec<VerdictLine>,
    /// The likeliest candidates without a verdict.
    pub likeliest: Vec<LikeliestRegion>,
}

/// Parses the output for each trial from a JSON stream. Lines of other types are skipped.
///
/// # Errors
/// If a line is not JSON or a verdict lacks a field.
pub fn parse_output<'a>(
    lines: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<usize, TrialOutput>, serde_json::Error> {
    let mut found: BTreeMap<usize, TrialOutput> = BTreeMap::new();
    for line in lines.into_iter().filter(|line| !line.trim().is_empty()) {
        let value: serde_json::Value = serde_json::from_str(line)?;
        if value["type"] == "verdict" {
            let verdict: VerdictLine = serde_json::from_value(value)?;
            found.entry(verdict.trial).or_default().verdicts.push(verdict);
        } else if value["type"] == "trial" {
            let end: FindingEnd = serde_json::from_value(value)?;
            found
                .entry(end.trial)
                .or_default()
                .likeliest
                .extend(end.likeliest);
        }
    }
    Ok(found)
}

/// Score of one injected fault.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultScore {
    /// The region's name.
    pub cause: String,
    /// Whether it could have been named.
    pub observable: bool,
    /// Evidence in favour of it, in nats.
    pub evidence_nats: f64,
    /// Number of regions that no observer could separate from it, including itself.
    pub equivalent: usize,
    /// The finding that named it.
    pub naming: Option<NamedFault>,
    /// Whether it was not named, but in the likeliest class at the end.
    pub likeliest: bool,
    /// Seconds from its start to the first verdict whose class contains it.
    pub after_s: Option<f64>,
    /// The same in rounds.
    pub after_rounds: Option<f64>,
    /// Seconds from its end until its finding closed; absent if it did not end or was not named.
    pub closing: Option<FindingClosure>,
}

/// State of a finding after the end of its fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FindingClosure {
    /// Closed this many seconds after the end.
    After(f64),
    /// Closed while the fault still existed.
    TooEarly,
    /// Still open at the end of the recording.
    Never,
}

/// The finding that named a fault.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedFault {
    /// The named region.
    pub region: NamedRegion,
    /// Whether region and members are the injected ones.
    pub exact: bool,
    /// Whether the class contains the injected one.
    pub class_right: bool,
    /// Number of regions in the class that an observer could have separated.
    pub separable_regions: usize,
    /// Whether its subject is another front or target than the injected one.
    pub wrong_subject: bool,
}

/// Score of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialScore {
    /// The trial.
    pub trial: usize,
    /// Whether nothing was injected.
    pub healthy: bool,
    /// One entry per fault.
    pub faults: Vec<FaultScore>,
    /// Findings that match no fault, as text.
    pub unmatched: Vec<String>,
    /// Confidence of each finding, and whether its class contained an injected fault.
    pub confidence: Vec<(f64, bool)>,
}

impl TrialScore {
    /// Reports whether all faults were named, by class.
    #[must_use]
    pub fn all_named(&self) -> bool {
        self.faults
            .iter()
            .all(|fault| fault.naming.as_ref().is_some_and(|n| n.class_right))
    }

    /// Reports whether at least one was named, by class.
    #[must_use]
    pub fn any_named(&self) -> bool {
        self.faults
            .iter()
            .any(|fault| fault.naming.as_ref().is_some_and(|n| n.class_right))
    }
}

/// The lines of one finding, oldest first.
#[derive(Debug)]
struct FindingTrack<'a> {
    lines: Vec<&'a VerdictLine>,
}

impl<'a> FindingTrack<'a> {
    /// Returns the last state before a time, or the first if all are later.
    fn state(&self, until: f64) -> &'a VerdictLine {
        let current = self
            .lines
            .iter()
            .rev()
            .find(|line| line.t <= until && line.closed_t.is_none());
        current.unwrap_or(&self.lines[0])
    }

    fn closed(&self) -> Option<f64> {
        self.lines.iter().rev().find_map(|line| line.closed_t)
    }
}

fn named(fault: &FaultTruth) -> NamedRegion {
    (fault.cause.clone(), fault.members.clone())
}

fn holds(line: &VerdictLine, region: &NamedRegion) -> bool {
    line.class.contains(region) || (line.region == region.0 && line.members == region.1)
}

fn tracks(lines: &[VerdictLine]) -> Vec<FindingTrack<'_>> {
    let mut tracks: Vec<FindingTrack> = Vec::new();
    for line in lines {
        let same = |track: &&mut FindingTrack| {
            let last = track.lines[track.lines.len() - 1];
            match (&last.id, &line.id) {
                (Some(a), Some(b)) => a == b,
                _ => {
                    last.subject == line.subject
                        && (holds(line, &(last.region.clone(), last.members.clone()))
                            || holds(last, &(line.region.clone(), line.members.clone())))
                }
            }
        };
        match tracks.iter_mut().find(same) {
            Some(track) => track.lines.push(line),
            None => tracks.push(FindingTrack { lines: vec![line] }),
        }
    }
    tracks
}

/// Scores the verdicts of one trial. A finding is scored by its state at the end of its fault (or of the recording),
/// plus two rounds of grace.
#[must_use]
pub fn score(truth: &TrialTruth, output: &TrialOutput) -> TrialScore {
    let lines = &output.verdicts[..];
    let mut left = tracks(lines);
    let ends: Vec<f64> = truth
        .faults
        .iter()
        .map(|fault| {
            fault
                .end_s
                .map_or(f64::INFINITY, |end| end + 2.0 * truth.interval_s)
        })
        .collect();
    let until = ends.iter().copied().fold(0.0, f64::max);
    let until = if truth.faults.is_empty() {
        f64::INFINITY
    } else {
        until
    };
    let confidence = left
        .iter()
        .map(|track| {
            let state = track.state(until);
            (
                state.probability,
                truth.faults.iter().any(|fault| holds(state, &named(fault))),
            )
        })
        .collect();
    // Assign the correct findings first, then the newest of the remaining ones to the remaining faults.
    let mut given: Vec<Option<FindingTrack>> = truth
        .faults
        .iter()
        .zip(&ends)
        .map(|(fault, end)| {
            let exact = left.iter().position(|track| {
                let state = track.state(*end);
                (&state.region, &state.members) == (&fault.cause, &fault.members)
            });
            let found = exact.or_else(|| {
                left.iter()
                    .position(|track| holds(track.state(*end), &named(fault)))
            });
            found.map(|i| left.remove(i))
        })
        .collect();
    for ((slot, fault), end) in given.iter_mut().zip(&truth.faults).zip(&ends) {
        let during = left.iter().rposition(|track| {
            let state = track.state(*end);
            state.t >= fault.start_s && state.t <= *end
        });
        if let (None, Some(i)) = (&slot, during) {
            *slot = Some(left.remove(i));
        }
    }
    let faults = truth
        .faults
        .iter()
        .zip(&ends)
        .zip(&given)
        .map(|((fault, end), track)| of_fault(truth, fault, *end, track.as_ref(), output))
        .collect();
    TrialScore {
        trial: truth.trial,
        healthy: truth.healthy,
        faults,
        unmatched: left.iter().map(|track| describe(track.state(until))).collect(),
        confidence,
    }
}

fn describe(line: &VerdictLine) -> String {
    format!(
        "{} [{}] {:.4} at {} s",
        line.region,
        line.members.join(", "),
        line.probability,
        line.t
    )
}

fn of_fault(
    truth: &TrialTruth,
    fault: &FaultTruth,
    end: f64,
    track: Option<&FindingTrack>,
    output: &TrialOutput,
) -> FaultScore {
    let region = named(fault);
    let first = output.verdicts.iter().find(|line| {
        line.t >= fault.start_s && line.t <= end && line.closed_t.is_none() && holds(line, &region)
    });
    let naming = track.map(|track| {
        let state = track.state(end);
        NamedFault {
            region: (state.region.clone(), state.members.clone()),
            exact: (&state.region, &state.members) == (&region.0, &region.1),
            class_right: holds(state, &region),
            separable_regions: state
                .class
                .iter()
                .filter(|other| !fault.equivalent.contains(other))
                .count(),
            wrong_subject: fault.subject.is_some()
                && state.subject.is_some()
                && fault.subject != state.subject,
        }
    });
    let closing = track.and_then(|track| {
        let over = fault.end_s?;
        Some(match track.closed() {
            Some(closed) if closed < over => FindingClosure::TooEarly,
            Some(closed) => FindingClosure::After(closed - over),
            None => FindingClosure::Never,
        })
    });
    FaultScore {
        cause: fault.cause.clone(),
        observable: fault.observable,
        evidence_nats: fault.evidence_nats,
        equivalent: fault.equivalent.len(),
        after_s: first.map(|line| line.t - fault.start_s),
        after_rounds: first.map(|line| (line.t - fault.start_s) / truth.interval_s),
        likeliest: naming.is_none()
            && output.likeliest.iter().any(|likeliest| {
                likeliest.class.contains(&region)
                    || (&likeliest.region, &likeliest.members) == (&region.0, &region.1)
            }),
        naming,
        closing,
    }
}
