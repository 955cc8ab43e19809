//! Selects probes from the candidates: highest information gain per cost first, without duplicates.

use super::{ProbeVariant, candidates::ProbeCapabilities, information_gain::ExplanationWeights};
use crate::{evidence::cells::CellKey, regions::Region};
use parallax_model::Channel;

/// A probe that a subject proposes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedProbe {
    pub(crate) key: CellKey,
    pub(crate) variant: ProbeVariant,
    pub(crate) bits: f64,
    pub(crate) separates: Option<(Region, Region)>,
    /// Text of a rule; if absent, the reason is the pair of separated explanations.
    pub(crate) reason: Option<String>,
}

/// The proposed probes of a subject after a round, in descending order of value.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProbeRequests {
    /// Whether a fault is more likely than not; guarantees the subject at least one probe.
    pub(crate) is_suspect: bool,
    pub(crate) proposals: Vec<WantedProbe>,
}

/// Maximum number of probes per subject and round.
const MAX_PROBES: usize = 6;
/// Minimum expected information gain in bits.
const MIN_GAIN_BITS: f64 = 5e-4;
/// Number of leading explanations compared: probes with equal shares of all of them are duplicates.
const COMPARED_EXPLANATIONS: usize = 5;

/// Cost of a probe in ordinary probes. A server logs an error for an unexpected PROXY header.
const fn cost(channel: Channel) -> f64 {
    match channel {
        Channel::Proxied => 2.0,
        _ => 1.0,
    }
}

/// Returns the best probes for the undecided explanations.
pub(crate) fn choose(
    beliefs: &ExplanationWeights,
    keys: &[CellKey],
    ground: &ProbeCapabilities<'_>,
) -> Vec<WantedProbe> {
    let mut rated: Vec<(f64, f64, CellKey, Vec<f64>)> = keys
        .iter()
        .map(|key| {
            let shares = beliefs.shares(key, ground.paths);
            let bits = beliefs.expected_gain(&shares);
            (bits / cost(key.channel), bits, *key, shares)
        })
        .filter(|(_, bits, ..)| *bits >= MIN_GAIN_BITS)
        .collect();
    // Among equals, prefer the least observed path, so that evidence comes from many places.
    let seen = |key: &CellKey| ground.cells.get(key).map_or(0, |c| c.probes);
    rated.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| seen(&a.2).cmp(&seen(&b.2)))
            .then_with(|| a.2.cmp(&b.2))
    });
    let mut chosen: Vec<(WantedProbe, Vec<f64>)> = Vec::new();
    for (_, bits, key, shares) in rated {
        if chosen.len() == MAX_PROBES {
            break;
        }
        let same = |other: &Vec<f64>| {
            let differ = shares
                .iter()
                .zip(other)
                .take(COMPARED_EXPLANATIONS)
                .any(|(a, b)| (a - b).abs() > 5e-4);
            !differ
        };
        if chosen.iter().any(|(_, other)| same(other)) {
            continue;
        }
        let want = WantedProbe {
            key,
            variant: ProbeVariant::Plain,
            bits,
            separates: beliefs.best_separated_pair(&shares),
            reason: None,
        };
        chosen.push((want, shares));
    }
    chosen.into_iter().map(|(want, _)| want).collect()
}
