//! The contingency table, and what it rules out.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, Front, Placement};

use super::Desk;
use crate::{
    cells::{CellKey, Counts, Dest, RoundCells, is_through_front},
    judge::{Finding, Judgement},
    region::{Region, alpha},
    verdict::{EvidenceRow, RuledOut},
    weights::whole,
};

/// Regions that are listed as ruled out.
const RULED_OUT: usize = 6;

impl Desk<'_> {
    /// Rows by channel and by whether the region predicts failure; fronts by placement too.
    pub(super) fn rows(
        &self,
        cells: &RoundCells,
        region: Region,
        sibling: Option<Front>,
    ) -> Vec<EvidenceRow> {
        let mut rows: BTreeMap<(Channel, bool, Option<Placement>), Counts> = BTreeMap::new();
        for (key, counts) in cells {
            let predicted = sibling.is_none() && !alpha(&[region], key, self.scene).is_zero();
            let placement = self.placement(key);
            rows.entry((key.channel, !predicted, placement))
                .or_default()
                .add(counts);
        }
        rows.into_iter()
            .map(|((channel, unpredicted, placement), counts)| EvidenceRow {
                who: self.row_words(channel, !unpredicted, placement, region, sibling),
                channel,
                placement,
                probes: whole(counts.seen_n),
                failures: whole(counts.seen_f),
                kinds: self.kind_list(&counts),
                predicted: !unpredicted,
            })
            .collect()
    }

    /// Placement matters for probes through an address.
    fn placement(&self, key: &CellKey) -> Option<Placement> {
        if !is_through_front(key.channel) {
            return None;
        }
        let Some(node) = self.scene.node_of_client(key.client) else {
            return Some(Placement::Outside);
        };
        if self.scene.local.is_empty() {
            return None;
        }
        if !self.scene.local.contains(&node) {
            return Some(Placement::NoLocal);
        }
        let entry_node = if let Dest::Entry(pod) = key.dest {
            self.scene.nodes.pods.get(&pod).copied()
        } else {
            let eligible = self.scene.eligible(key.client);
            let all_local = !eligible.is_empty()
                && eligible
                    .iter()
                    .all(|pod| self.scene.nodes.pods.get(pod) == Some(&node));
            all_local.then_some(node)
        };
        match entry_node {
            Some(entry) if entry == node => Some(Placement::SameNode),
            Some(_) => Some(Placement::CrossNode),
            None => Some(Placement::Unknown),
        }
    }

    fn kind_list(&self, counts: &Counts) -> Vec<(String, u64)> {
        let mut by_label: BTreeMap<String, u64> = BTreeMap::new();
        for ((kind, status), (_, seen)) in &counts.kinds {
            let kind = self.world.kinds.name(*kind);
            let label = match status {
                Some(status) => format!("{kind} {status}"),
                None => kind.to_string(),
            };
            *by_label.entry(label).or_default() += seen;
        }
        let mut list: Vec<(String, u64)> = by_label
            .into_iter()
            .map(|(label, seen)| (label, whole(seen).max(1)))
            .collect();
        list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        list
    }

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

    /// Successes it would have to break, by channel, and failures it would leave unexplained.
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
            .filter(|(_, (n, f))| n > f)
            .map(|(channel, (n, f))| {
                format!(
                    "{} of {} {channel} probes it would break succeed",
                    whole(n - f),
                    whole(n)
                )
            })
            .collect();
        match whole(outside) {
            0 => {}
            1 => reasons.push("1 failure lies outside of it".to_owned()),
            more => reasons.push(format!("{more} failures lie outside of it")),
        }
        if reasons.is_empty() {
            "it fits the counts less well".to_owned()
        } else {
            reasons.join("; ")
        }
    }
}
