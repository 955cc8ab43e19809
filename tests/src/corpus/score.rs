//! Holding verdict lines against the truth of one trial.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::truth::{FaultTruth, NamedRegion, TrialTruth};

/// A verdict as printed; other fields are not judged.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct VerdictLine {
    /// The trial; 0 where the recording has only one.
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
    /// When it was over.
    #[serde(default)]
    pub closed_t: Option<f64>,
    /// The finding this line belongs to; without it, lines whose classes overlap are one finding.
    #[serde(default, alias = "incident")]
    pub id: Option<String>,
    /// What it is about, where the recording has more than one subject.
    #[serde(default)]
    pub subject: Option<serde_json::Value>,
}

/// What the engine leant to at the end of a trial, where it had too little evidence for a verdict.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TrialLeaning {
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
    likeliest: Vec<TrialLeaning>,
}

/// Everything said of one trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrialOutput {
    /// Verdicts, oldest first.
    pub verdicts: Vec<VerdictLine>,
    /// What is likeliest of what got no verdict.
    pub likeliest: Vec<TrialLeaning>,
}

/// What was said of each trial in a JSON stream. Lines of other types are skipped.
///
/// # Errors
/// Where a line is no JSON or a verdict lacks a field: the engine's output is at fault, not the truth.
pub fn read<'a>(
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

/// How one injected fault was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultScore {
    /// The region's name.
    pub cause: String,
    /// Anybody could have named it.
    pub observable: bool,
    /// How strongly the outcomes speak for it, in nats.
    pub evidence_nats: f64,
    /// Regions that no observer could tell from it, itself included.
    pub equivalent: usize,
    /// The finding that was given for it.
    pub naming: Option<NamedFault>,
    /// No finding was given for it, but it was in the class that the engine thought likeliest at the end.
    pub leant_to: bool,
    /// Seconds from its start to the first verdict whose class holds it.
    pub after_s: Option<f64>,
    /// The same in rounds.
    pub after_rounds: Option<f64>,
    /// Seconds from its end to the closing of its finding; absent where it did not end or was not named.
    pub closing: Option<FindingClosure>,
}

/// What became of a finding after its fault was over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FindingClosure {
    /// Closed so many seconds after the end.
    After(f64),
    /// Closed though the fault was still there.
    TooEarly,
    /// Open at the end of the recording.
    Never,
}

/// The finding given for a fault.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedFault {
    /// The region as named.
    pub said: NamedRegion,
    /// Region and members are the injected ones.
    pub exact: bool,
    /// The class holds the injected one.
    pub class_right: bool,
    /// Regions in the class that an observer could have told apart.
    pub over_wide: usize,
    /// It is about another front or target than the injected one.
    pub wrong_subject: bool,
}

/// How one trial was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialScore {
    /// The trial.
    pub trial: usize,
    /// Nothing was injected.
    pub healthy: bool,
    /// One entry a fault.
    pub faults: Vec<FaultScore>,
    /// Findings that belong to no fault, in words.
    pub wrong: Vec<String>,
    /// Confidence of each finding, and whether its class held an injected fault.
    pub confidence: Vec<(f64, bool)>,
}

impl TrialScore {
    /// All faults were named, by class.
    #[must_use]
    pub fn all_named(&self) -> bool {
        self.faults
            .iter()
            .all(|fault| fault.naming.as_ref().is_some_and(|n| n.class_right))
    }

    /// One at least was named, by class.
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
    /// The last state that was told before a time, and the first where all came later.
    fn state(&self, until: f64) -> &'a VerdictLine {
        let told = self
            .lines
            .iter()
            .rev()
            .find(|line| line.t <= until && line.closed_t.is_none());
        told.unwrap_or(&self.lines[0])
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

/// Judges the verdicts of one trial. What counts is how a finding stood when its fault ended (or the recording did),
/// two rounds of grace included.
#[must_use]
pub fn score(truth: &TrialTruth, said: &TrialOutput) -> TrialScore {
    let lines = &said.verdicts[..];
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
    // First the findings that are right, then what is left for what is left: the newest one.
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
        .map(|((fault, end), track)| of_fault(truth, fault, *end, track.as_ref(), said))
        .collect();
    TrialScore {
        trial: truth.trial,
        healthy: truth.healthy,
        faults,
        wrong: left.iter().map(|track| in_words(track.state(until))).collect(),
        confidence,
    }
}

fn in_words(line: &VerdictLine) -> String {
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
    said: &TrialOutput,
) -> FaultScore {
    let region = named(fault);
    let first = said.verdicts.iter().find(|line| {
        line.t >= fault.start_s && line.t <= end && line.closed_t.is_none() && holds(line, &region)
    });
    let naming = track.map(|track| {
        let state = track.state(end);
        NamedFault {
            said: (state.region.clone(), state.members.clone()),
            exact: (&state.region, &state.members) == (&region.0, &region.1),
            class_right: holds(state, &region),
            over_wide: state
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
        leant_to: naming.is_none()
            && said.likeliest.iter().any(|likeliest| {
                likeliest.class.contains(&region)
                    || (&likeliest.region, &likeliest.members) == (&region.0, &region.1)
            }),
        naming,
        closing,
    }
}
