//! Findings and hazards that are new after the event, and when they were shown.

use serde::Serialize;

use super::incidents::TimeSpan;
use crate::observe::{FindingOrHazard, Timeline};

/// Findings and hazards that were shown this long before the event are not new, in seconds.
const KNOWN_BEFORE_S: f64 = 15.0;

/// A finding or hazard that is new after the event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewHint {
    /// As it was shown first.
    #[serde(flatten)]
    pub hint: FindingOrHazard,
    /// From the first to the last sample with it.
    pub shown: TimeSpan,
}

/// Returns the findings and hazards between two times that were not shown before.
pub(super) fn new_hints(timeline: &Timeline, from: f64, until: f64) -> Vec<NewHint> {
    let samples = |from: f64, until: f64| {
        let samples = timeline.samples.iter();
        samples
            .filter(move |sample| sample.at >= from && sample.at < until)
            .filter_map(|sample| Some((sample.at, sample.state.as_ref().ok()?)))
            .flat_map(|(at, state)| state.hints.iter().map(move |hint| (at, hint)))
    };
    let is_same = |one: &FindingOrHazard, other: &FindingOrHazard| {
        (&one.kind, &one.subject) == (&other.kind, &other.subject)
    };
    let before: Vec<&FindingOrHazard> = samples(from - KNOWN_BEFORE_S, from)
        .map(|(_, hint)| hint)
        .collect();
    let mut new: Vec<NewHint> = Vec::new();
    for (at, hint) in samples(from, until) {
        if before.iter().any(|known| is_same(known, hint)) {
            continue;
        }
        match new.iter_mut().find(|known| is_same(&known.hint, hint)) {
            Some(known) => known.shown.until = at,
            None => new.push(NewHint {
                hint: hint.clone(),
                shown: TimeSpan { from: at, until: at },
            }),
        }
    }
    new
}
