//! From candidates to a short list: most bits for its cost first, nothing twice.

use super::{ProbeVariant, candidates::ProbeCapabilities, gain::ExplanationWeights};
use crate::{evidence::cells::CellKey, regions::Region};
use parallax_model::Channel;

/// A probe that one subject would like to have made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedProbe {
    pub(crate) key: CellKey,
    pub(crate) variant: ProbeVariant,
    pub(crate) bits: f64,
    pub(crate) separates: Option<(Region, Region)>,
    /// A rule's own words; otherwise the two explanations are the reason.
    pub(crate) reason: Option<String>,
}

/// What one subject asks for after a round, the most wanted first.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProbeRequests {
    /// Something is wrong, more likely than not: it gets at least one probe.
    pub(crate) suspect: bool,
    pub(crate) wants: Vec<WantedProbe>,
}

/// Probes chosen for one question and round.
const BATCH: usize = 6;
/// Below this an answer is not worth a probe.
const LEAST_BITS: f64 = 5e-4;
/// Two probes that tell the same of this many explanations are one.
const TOP: usize = 5;

/// What a probe costs, in ordinary probes. A header that a server does not expect is an error in its log.
const fn cost(channel: Channel) -> f64 {
    match channel {
        Channel::Proxied => 2.0,
        _ => 1.0,
    }
}

/// The best probes for a question.
pub(crate) fn choose(
    beliefs: &ExplanationWeights,
    keys: &[CellKey],
    ground: &ProbeCapabilities<'_>,
) -> Vec<WantedProbe> {
    let mut rated: Vec<(f64, f64, CellKey, Vec<f64>)> = keys
        .iter()
        .map(|key| {
            let shares = beliefs.shares(key, ground.scene);
            let bits = beliefs.bits(&shares);
            (bits / cost(key.channel), bits, *key, shares)
        })
        .filter(|(_, bits, ..)| *bits >= LEAST_BITS)
        .collect();
    // Among equals: what was seen least, so that answers come from many places.
    let seen = |key: &CellKey| ground.cells.get(key).map_or(0, |c| c.n);
    rated.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| seen(&a.2).cmp(&seen(&b.2)))
            .then_with(|| a.2.cmp(&b.2))
    });
    let mut chosen: Vec<(WantedProbe, Vec<f64>)> = Vec::new();
    for (_, bits, key, shares) in rated {
        if chosen.len() == BATCH {
            break;
        }
        let same = |other: &Vec<f64>| {
            let differ = shares
                .iter()
                .zip(other)
                .take(TOP)
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
            separates: beliefs.separated(&shares),
            reason: None,
        };
        chosen.push((want, shares));
    }
    chosen.into_iter().map(|(want, _)| want).collect()
}
