//! The regions that the table rules out, with the counts that rule them out.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Channel;

use super::VerdictContext;
use crate::{
    evidence::{cells::RoundCells, weights::to_whole_probes},
    inference::judgement::{ExplainedRegion, Judgement},
    regions::{Region, share::alpha},
    verdict::RuledOut,
};

/// Maximum number of regions that are listed as ruled out.
const MAX_RULED_OUT: usize = 6;

impl VerdictContext<'_> {
    pub(super) fn ruled_out(&self, judgement: &Judgement, finding: &ExplainedRegion) -> Vec<RuledOut> {
        let mut scored: Vec<_> = judgement
            .posterior
            .scored
            .iter()
            .filter(|s| {
                s.region != Region::Healthy && s.probability < 0.05 && !finding.class.contains(&s.region)
            })
            .filter(|s| !judgement.findings.iter().any(|f| f.class.contains(&s.region)))
            .filter(|s| self.failures_in(&judgement.input.cells, s.region) > 0)
            .collect();
        scored.sort_by(|a, b| b.score().total_cmp(&a.score()).then(a.region.cmp(&b.region)));
        let mut kinds = BTreeSet::new();
        scored
            .into_iter()
            .filter(|s| kinds.insert(s.region.kind()))
            .take(MAX_RULED_OUT)
            .map(|s| RuledOut {
                region: s.region.describe(self.registry),
                reason: self.evidence_against(&judgement.input.cells, s.region, finding.region),
            })
            .collect()
    }

    fn failures_in(&self, cells: &RoundCells, region: Region) -> u64 {
        cells
            .iter()
            .filter(|(key, counts)| counts.failures > 0 && !alpha(&[region], key, self.paths).is_zero())
            .map(|(_, counts)| counts.unweighted_failures)
            .sum()
    }

    /// Formats the evidence against a region: successes that it should have broken, by channel, and failures that it
    /// does not explain.
    fn evidence_against(&self, cells: &RoundCells, region: Region, named: Region) -> String {
        let mut inside: BTreeMap<Channel, (u64, u64)> = BTreeMap::new();
        let mut outside = 0;
        for (key, counts) in cells {
            let share = alpha(&[region], key, self.paths).as_f64();
            if share >= 0.5 && alpha(&[named], key, self.paths).is_zero() {
                let sum = inside.entry(key.channel).or_default();
                sum.0 += counts.unweighted_probes;
                sum.1 += counts.unweighted_failures;
            } else if share <= 0.0 {
                outside += counts.unweighted_failures;
            }
        }
        let mut reasons: Vec<String> = inside
            .into_iter()
            .map(|(channel, (n, f))| (channel, to_whole_probes(n), to_whole_probes(n.saturating_sub(f))))
            .filter(|(_, _, passed)| *passed > 0)
            .map(|(channel, all, passed)| {
                format!("{passed} of {all} {channel} probes that it would affect passed")
            })
            .collect();
        match to_whole_probes(outside) {
            0 => {}
            1 => reasons.push("1 failure lies outside it".to_owned()),
            more => reasons.push(format!("{more} failures lie outside it")),
        }
        if reasons.is_empty() {
            "it fits the counts less well".to_owned()
        } else {
            reasons.join("; ")
        }
    }
}
