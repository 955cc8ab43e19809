//! The regions that the table rules out, with the counts that rule them out.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Channel;

use super::VerdictContext;
use crate::{
    evidence::{cells::RoundCells, weights::whole},
    inference::judgement::{Finding, Judgement},
    regions::{Region, share::alpha},
    verdict::RuledOut,
};

/// Maximum number of regions that are listed as ruled out.
const RULED_OUT: usize = 6;

impl VerdictContext<'_> {
    pub(super) fn ruled_out(&self, judgement: &Judgement, finding: &Finding) -> Vec<RuledOut> {
        let mut scored: Vec<_> = judgement
            .posterior
            .scored
            .iter()
            .filter(|s| s.region != Region::Healthy && s.p < 0.05 && !finding.class.contains(&s.region))
            .filter(|s| !judgement.findings.iter().any(|f| f.class.contains(&s.region)))
            .filter(|s| self.failures_in(&judgement.case.cells, s.region) > 0)
            .collect();
        scored.sort_by(|a, b| b.score().total_cmp(&a.score()).then(a.region.cmp(&b.region)));
        let mut kinds = BTreeSet::new();
        scored
            .into_iter()
            .filter(|s| kinds.insert(s.region.kind()))
            .take(RULED_OUT)
            .map(|s| RuledOut {
                region: s.region.describe(self.world),
                because: self.against(&judgement.case.cells, s.region, finding.region),
            })
            .collect()
    }

    fn failures_in(&self, cells: &RoundCells, region: Region) -> u64 {
        cells
            .iter()
            .filter(|(key, counts)| counts.f > 0 && !alpha(&[region], key, self.scene).is_zero())
            .map(|(_, counts)| counts.seen_f)
            .sum()
    }

    /// Formats the evidence against a region: successes that it should have broken, by channel, and failures that it
    /// does not explain.
    fn against(&self, cells: &RoundCells, region: Region, named: Region) -> String {
        let mut inside: BTreeMap<Channel, (u64, u64)> = BTreeMap::new();
        let mut outside = 0;
        for (key, counts) in cells {
            let share = alpha(&[region], key, self.scene).get();
            if share >= 0.5 && alpha(&[named], key, self.scene).is_zero() {
                let sum = inside.entry(key.channel).or_default();
                sum.0 += counts.seen_n;
                sum.1 += counts.seen_f;
            } else if share <= 0.0 {
                outside += counts.seen_f;
            }
        }
        let mut reasons: Vec<String> = inside
            .into_iter()
            .map(|(channel, (n, f))| (channel, whole(n), whole(n.saturating_sub(f))))
            .filter(|(_, _, passed)| *passed > 0)
            .map(|(channel, all, passed)| {
                format!("{passed} of {all} {channel} probes that it would affect passed")
            })
            .collect();
        match whole(outside) {
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
