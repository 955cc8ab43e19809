//! Which other subjects have a say in a judgement: fronts about what concerns every front, hosts of one Service about what
//! concerns every host. A subject that fails and never worked has none: its failures have a cause of their own.

use std::{collections::BTreeMap, sync::Arc};

use parallax_model::{Round, TargetId};

use super::Engine;
use crate::{
    catalogue::facts,
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::RoundCells,
    },
    inference::{
        data::ComparisonData,
        pool::{OtherSubject, SubjectPool},
        prior::{PriorFact, hypotheses},
        unit::JudgementUnit,
    },
    regions::Region,
};

/// Fronts that are asked about a cause that would concern all of them.
const FRONTS: usize = 32;
/// Hosts that are asked, of those that fail and of those that do not: the hosts of a large ingress fail by the hundred,
/// and a few say as much as all.
const HOSTS: usize = 3;

/// What subjects saw since a round, worked out once for all that are judged after one round: where a node fails, dozens of
/// fronts and hosts ask the same others.
pub(super) type RelatedEvidence = BTreeMap<(JudgementUnit, Round), Arc<OtherSubject>>;

impl Engine {
    /// What the other subjects of a kind saw since a round.
    pub(super) fn pool(&mut self, unit: &JudgementUnit, start: Round) -> SubjectPool {
        match unit.plain() {
            JudgementUnit::Front(_) | JudgementUnit::Endpoints(..) => SubjectPool::new(
                self.others(unit, self.fronts_beside(unit, start), start),
                Region::is_global,
            ),
            JudgementUnit::Target(_) => {
                let beside = |region: Region| region != Region::Target;
                SubjectPool::new(self.others(unit, self.hosts_beside(unit, start), start), beside)
            }
            JudgementUnit::Dns | JudgementUnit::Mesh | JudgementUnit::Whole(_) | JudgementUnit::Slow(_) => {
                SubjectPool::default()
            }
        }
    }

    /// What the topology says of the causes of a subject's failures, worked out once a topology.
    pub(super) fn facts(&mut self, unit: &JudgementUnit) -> Arc<[PriorFact]> {
        let front = self.front_of_unit(unit);
        let service = self.service_of_unit(unit).map(|service| service.key.clone());
        let about = (front, service);
        if let Some(known) = self.cluster.prior_facts.get(&about) {
            return Arc::clone(known);
        }
        let new: Arc<[PriorFact]> = facts(
            &self.cluster.topology,
            (about.0.as_ref(), about.1.as_ref()),
            &self.world,
            self.rules.foreign_proxy,
        )
        .into();
        self.cluster.prior_facts.insert(about, Arc::clone(&new));
        new
    }

    /// Whether the failures of another subject may support a cause that both would share.
    fn may_testify(&self, other: &JudgementUnit) -> bool {
        !self.rules.must_have_worked || self.ever_worked(other)
    }

    fn fronts_beside(&self, unit: &JudgementUnit, start: Round) -> Vec<JudgementUnit> {
        let mut units: Vec<(bool, JudgementUnit)> = self
            .evidence
            .blocks
            .iter()
            .filter_map(|(block, ring)| match block.of {
                EvidenceKind::Vip(front) if block.slow == unit.is_slow() => {
                    let other = JudgementUnit::Front(front);
                    Some((ring, if block.slow { other.slow() } else { other }))
                }
                _ => None,
            })
            .filter(|(_, other)| other != unit)
            .map(|(ring, other)| (!ring.fails_since(start), other))
            .filter(|(quiet, other)| *quiet || self.may_testify(other))
            .collect();
        // Failing ones first: they have more to say.
        units.sort();
        units.into_iter().take(FRONTS).map(|(_, unit)| unit).collect()
    }

    fn hosts_beside(&self, unit: &JudgementUnit, start: Round) -> Vec<JudgementUnit> {
        let JudgementUnit::Target(own) = unit.plain() else {
            return Vec::new();
        };
        let targets = self.cluster.topology.targets();
        let placed = targets.get(own);
        let entry = placed.and_then(|placed| placed.entry.as_ref());
        let Some(hosts) = entry.and_then(|entry| self.cluster.hosts.get(entry)) else {
            return Vec::new();
        };
        // Hosts of one application fail together because of it: that is one local cause, and no sign of a shared one.
        let origin = placed.and_then(|placed| placed.origin.as_ref());
        let kin = |host: &TargetId| {
            let other = targets.get(host).and_then(|placed| placed.origin.as_ref());
            origin.is_some() && other == origin
        };
        let (mut failing, mut quiet) = (Vec::new(), Vec::new());
        for host in hosts.iter().filter(|host| *host != own) {
            let Some(target) = self.world.targets.get(host) else {
                continue;
            };
            let block = CellBlock {
                slow: unit.is_slow(),
                of: EvidenceKind::Target(target),
            };
            let Some(ring) = self.evidence.blocks.get(&block) else {
                continue;
            };
            let other = JudgementUnit::Target(host.clone());
            let other = if unit.is_slow() { other.slow() } else { other };
            let list = if !ring.fails_since(start) {
                &mut quiet
            } else if self.may_testify(&other) && !kin(host) {
                &mut failing
            } else {
                continue;
            };
            if list.len() < HOSTS {
                list.push(other);
            }
            if failing.len() + quiet.len() == 2 * HOSTS {
                break;
            }
        }
        failing.append(&mut quiet);
        failing
    }

    fn others(
        &mut self,
        unit: &JudgementUnit,
        beside: Vec<JudgementUnit>,
        start: Round,
    ) -> Vec<Arc<OtherSubject>> {
        let own = self.blocks_of(unit).0;
        let mut others = Vec::new();
        for other in beside {
            let blocks = self.blocks_of(&other).0;
            if blocks.iter().any(|block| own.contains(block)) {
                let apart: Vec<CellBlock> = blocks.into_iter().filter(|block| !own.contains(block)).collect();
                others.push(Arc::new(self.other(&other, &apart, start)));
                continue;
            }
            let key = (other, start);
            if let Some(known) = self.judgement.beside.get(&key) {
                others.push(Arc::clone(known));
            } else {
                let new = Arc::new(self.other(&key.0, &blocks, start));
                self.judgement.beside.insert(key, Arc::clone(&new));
                others.push(new);
            }
        }
        others
    }

    fn other(&mut self, other: &JudgementUnit, blocks: &[CellBlock], start: Round) -> OtherSubject {
        let mut cells = RoundCells::new();
        for block in blocks {
            if let Some(ring) = self.evidence.blocks.get(block) {
                ring.sum_into(start, &mut cells);
            }
        }
        let scene = self.scene(other, &cells);
        let channels = cells.keys().map(|key| key.channel).collect();
        let facts = self.facts(other);
        let data = ComparisonData::new(&cells, &scene, |kind, status| self.world.class_of(kind, status));
        OtherSubject {
            hypotheses: hypotheses(&other.kinds(&scene, &channels), &scene, &data, &facts),
            data,
            scene,
        }
    }
}
