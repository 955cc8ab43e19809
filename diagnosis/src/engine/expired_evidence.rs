//! Expired evidence: failures from before a region proved healthy do not count against it now.
//!
//! The longest window of a subject covers faults that have been fixed since, including those of other subjects. If a
//! region passes the recovery test after its last failure, its evidence restarts there, for every subject.

use std::collections::BTreeMap;

use parallax_model::Round;

use super::Engine;
use crate::{
    evidence::{block::CellBlock, cells::CellKey},
    inference::{
        judgement::Judgement,
        judgement_unit::JudgementUnit,
        recovery::{RegionCrossing, healthy_until},
    },
    regions::{
        Region,
        paths::SubjectPaths,
        share::{PathShare, alpha},
    },
};

/// The last round in which each region of a subject proved healthy.
pub(super) type HealthyRounds = BTreeMap<Region, Round>;

impl Engine {
    /// Finds the named regions that proved healthy within the window of a judgement, and records the round. Returns
    /// the first round whose evidence still counts for all of them, or `None` if the whole window counts.
    pub(super) fn expire_evidence(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        (own, controls): (&[CellBlock], &[CellBlock]),
    ) -> Option<Round> {
        let case = &judgement.input;
        let mut latest = None;
        for finding in judgement.findings.iter().filter(|finding| finding.is_verdict) {
            let region = finding.region;
            let known = self
                .judgement
                .units
                .get(unit)
                .and_then(|state| state.healthy_rounds.get(&region))
                .copied();
            let start = known.map_or(case.start, |round| case.start.max(Round(round.0 + 1)));
            let since = healthy_until(
                self.crossings(own, controls, region, &case.paths, start)
                    .into_iter(),
            );
            let healed = since.or(known.filter(|round| *round >= case.start));
            let Some(healed) = healed else { continue };
            if let Some(state) = self.judgement.units.get_mut(unit) {
                state.healthy_rounds.insert(region, healed);
            }
            latest = latest.max(Some(healed));
        }
        latest.map(|round: Round| Round(round.0 + 1))
    }

    /// Counts the probes that crossed a region, by round, from `start` on.
    fn crossings(
        &self,
        own: &[CellBlock],
        controls: &[CellBlock],
        region: Region,
        paths: &SubjectPaths,
        start: Round,
    ) -> BTreeMap<Round, RegionCrossing> {
        let mut shares: BTreeMap<CellKey, PathShare> = BTreeMap::new();
        let mut rounds: BTreeMap<Round, RegionCrossing> = BTreeMap::new();
        for block in own.iter().chain(controls) {
            let Some(ring) = self.evidence.blocks.get(block) else {
                continue;
            };
            for (round, cells) in ring.since(start) {
                let crossing = rounds.entry(round).or_default();
                for (key, counts) in cells.iter() {
                    let share = *shares.entry(*key).or_insert_with(|| alpha(&[region], key, paths));
                    if !share.is_zero() {
                        crossing.add(
                            share,
                            counts.unweighted_failures,
                            counts.unweighted_probes - counts.unweighted_failures,
                        );
                    }
                }
            }
        }
        rounds
    }
}
