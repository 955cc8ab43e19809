//! Other subjects that contribute evidence to a judgement: fronts for a cause that affects all fronts, hosts of one
//! Service for a cause that affects all its hosts, and the front of a host for a cause that affects both. A failing subject that never worked contributes nothing, because
//! its failures have a cause of their own.

use std::{collections::BTreeMap, sync::Arc};

use parallax_model::{Round, TargetId};

use super::{Engine, state::JudgementState};
use crate::{
    catalogue::facts,
    evidence::block::{CellBlock, EvidenceKind},
    ids::NodeIx,
    incident::OpenCause,
    inference::{
        candidates::candidates,
        comparison_data::ComparisonData,
        judgement_unit::JudgementUnit,
        likelihood::Likelihood,
        prior::{FactScope, PriorFact, hypotheses},
        subject_pool::{OtherSubject, OtherSubjectNumber, SubjectPool},
        window::{CausePeriods, KnownSpans},
    },
    regions::{
        Region, RegionKind,
        paths::{SubjectPaths, UnhealthyNodes},
    },
    verdict::Fact,
};

/// How much likelier a fault of all that leaves a node is if the reports of its prober do not arrive. They always get lost
/// then; otherwise a prober that runs is silent for two rounds once in thousands.
const UNHEARD_MULTIPLIER: f64 = 100.0;

/// Maximum number of fronts that contribute to a cause shared by all fronts.
const MAX_FRONTS: usize = 32;
/// Maximum number of hosts that contribute, for failing and for healthy hosts each. The hosts of a large ingress fail
/// by the hundred, and a few are as informative as all of them.
const MAX_HOSTS: usize = 3;

/// Evidence of other subjects since a round, computed once for all subjects that are judged after the same round: if
/// a node fails, dozens of fronts and hosts use the same others.
#[derive(Debug, Default)]
pub(super) struct RelatedEvidence {
    subjects: BTreeMap<(JudgementUnit, Round, UnhealthyNodes, KnownSpans), Arc<OtherSubject>>,
    /// Number of subjects so far, including those of earlier rounds.
    count: u64,
}

impl JudgementState {
    /// Forgets the evidence of other subjects, at the end of a round.
    pub(super) fn clear_related(&mut self) {
        self.related.subjects.clear();
        for likelihood in self.likelihoods.values_mut() {
            likelihood.clear_pooled();
        }
    }
}

impl Engine {
    /// Returns the pool of evidence from other subjects of the same kind since a round.
    pub(super) fn subject_pool(
        &mut self,
        unit: &JudgementUnit,
        start: Round,
        known: &KnownSpans,
        likelihood: &mut Likelihood,
    ) -> SubjectPool {
        let pool = self.unexplained_pool(unit, start, known);
        if pool.is_empty() {
            return pool;
        }
        let known = known.keys().copied().filter(|region| pool.shares(*region));
        let known: Vec<Region> = known.collect();
        pool.with_known(&known, likelihood)
    }

    fn unexplained_pool(&mut self, unit: &JudgementUnit, start: Round, known: &KnownSpans) -> SubjectPool {
        match unit.without_latency() {
            JudgementUnit::Front(_) | JudgementUnit::Endpoints(..) => SubjectPool::new(
                self.related_subjects(unit, self.related_fronts(unit, start), start, known),
                |region| region.is_cluster_wide() || matches!(region, Region::Backend(_)),
                |region| !region.is_global(),
            ),
            JudgementUnit::Target(_) => {
                let beside = |region: Region| region != Region::Target;
                let pool = SubjectPool::new(
                    self.related_subjects(unit, self.related_hosts(unit, start), start, known),
                    beside,
                    |region| region == Region::Target,
                );
                let front = self.failing_front(unit, start).into_iter().collect();
                let front = self.related_subjects(unit, front, start, known);
                front.into_iter().fold(pool, SubjectPool::with_front)
            }
            JudgementUnit::Dns
            | JudgementUnit::Mesh
            | JudgementUnit::SingleTarget(_)
            | JudgementUnit::Latency(_) => SubjectPool::default(),
        }
    }

    /// Returns the facts from the topology about the causes of a subject's failures, computed once per topology.
    pub(super) fn prior_facts(&mut self, unit: &JudgementUnit) -> Arc<[PriorFact]> {
        let front = self.front_of_unit(unit);
        let service = self.service_of_unit(unit).map(|service| service.key.clone());
        let about = (front, service);
        if let Some(known) = self.cluster.prior_facts.get(&about) {
            return Arc::clone(known);
        }
        let new: Arc<[PriorFact]> = facts(
            &self.cluster.topology,
            (about.0.as_ref(), about.1.as_ref()),
            &self.registry,
            self.rules.non_kube_proxy,
        )
        .into();
        self.cluster.prior_facts.insert(about, Arc::clone(&new));
        new
    }

    /// Returns the facts about a subject, with those that hold only in the rounds since `start`.
    pub(super) fn facts_since(&mut self, unit: &JudgementUnit, start: Round) -> Arc<[PriorFact]> {
        let lasting = self.prior_facts(unit);
        let mut silence = self.silence_facts(start);
        silence.extend(self.isolation_fact(start));
        silence.extend(self.absence_facts(start));
        if silence.is_empty() {
            return lasting;
        }
        lasting.iter().cloned().chain(silence).collect()
    }

    /// Returns facts about nodes whose prober answers others while its reports do not arrive: what leaves these nodes gets lost.
    /// A silence that another open incident explains says nothing.
    fn silence_facts(&self, start: Round) -> Vec<PriorFact> {
        let nodes = self.presence.unheard_nodes(start);
        if nodes.is_empty() {
            return Vec::new();
        }
        let paths = SubjectPaths::of_mesh(&self.cluster.nodes);
        let causes = self.incidents.open_causes();
        nodes
            .into_iter()
            .filter(|(node, _)| !self.is_silence_explained(*node, *node, &causes, &paths))
            .map(|(node, is_silent)| PriorFact {
                scope: FactScope::Node(RegionKind::Client, node),
                fact: Fact {
                    text: format!(
                        "the prober on {} {}",
                        self.registry.nodes.name(node),
                        if is_silent {
                            "answers other probers, but its reports do not arrive"
                        } else {
                            "answered other probers while its reports did not arrive"
                        }
                    ),
                    multiplier: UNHEARD_MULTIPLIER,
                    cause: None,
                },
            })
            .collect()
    }

    /// Reports whether an open cause other than those of the node `suspect` may silence a node. An incident that cannot tell a
    /// cause of that node from others does not explain the silence by it either: the silence is what tells them apart.
    pub(super) fn is_silence_explained(
        &self,
        node: NodeIx,
        suspect: NodeIx,
        causes: &[OpenCause<'_>],
        paths: &SubjectPaths,
    ) -> bool {
        let others = causes.iter().filter(|cause| cause.region.node() != Some(suspect));
        let regions = others.flat_map(|cause| &cause.possible_regions);
        let mut regions = regions.filter(|region| region.node() != Some(suspect));
        regions.any(|region| self.may_silence(*region, node, paths))
    }

    /// Returns the fact that the aggregator hears from its own node only: what leaves this node gets lost, including what the
    /// aggregator sends to the probers of others. It says nothing if other open incidents explain every silence.
    fn isolation_fact(&self, start: Round) -> Option<PriorFact> {
        let is_alone = self.presence.alone_since(start)?;
        let own = self.aggregator_node()?;
        let paths = SubjectPaths::of_mesh(&self.cluster.nodes);
        let causes = self.incidents.open_causes();
        let mut silent = paths.mesh.node_set.iter().filter(|node| **node != own);
        let verb = if is_alone { "hears" } else { "heard" };
        let unexplained = silent.any(|node| !self.is_silence_explained(*node, own, &causes, &paths));
        unexplained.then(|| PriorFact {
            scope: FactScope::Node(RegionKind::Client, own),
            fact: Fact {
                text: format!(
                    "the aggregator on {} {verb} from no other node",
                    self.registry.nodes.name(own)
                ),
                multiplier: UNHEARD_MULTIPLIER,
                cause: None,
            },
        })
    }

    /// Returns the round from which evidence of another subject counts: what an incident that is over has explained supports no
    /// other cause.
    fn start_beside(&self, other: &JudgementUnit, start: Round) -> Round {
        let state = self.judgement.units.get(other);
        state.map_or(start, |state| state.evidence_from(start))
    }

    /// Reports whether the failures of another subject may support a cause that both would share.
    fn may_support(&self, other: &JudgementUnit) -> bool {
        !self.rules.require_prior_success || self.ever_worked(other)
    }

    fn related_fronts(&self, unit: &JudgementUnit, start: Round) -> Vec<JudgementUnit> {
        let mut units: Vec<(bool, JudgementUnit)> = self
            .evidence
            .blocks
            .iter()
            .filter_map(|(block, ring)| match block.kind {
                EvidenceKind::Vip(front) if block.slow == unit.is_latency() => {
                    Some((ring, JudgementUnit::Front(front).judged_like(unit)))
                }
                _ => None,
            })
            .filter(|(_, other)| other != unit)
            .map(|(ring, other)| (!ring.fails_since(self.start_beside(&other, start)), other))
            .filter(|(quiet, other)| *quiet || self.may_support(other))
            .collect();
        // Failing ones first: they are more informative.
        units.sort();
        units.into_iter().take(MAX_FRONTS).map(|(_, unit)| unit).collect()
    }

    /// Returns the front of a host, if connections to it failed since a round.
    pub(super) fn failing_front(&self, unit: &JudgementUnit, start: Round) -> Option<JudgementUnit> {
        if !matches!(unit.without_latency(), JudgementUnit::Target(_)) {
            return None;
        }
        let front = self.front_of_unit(unit)?;
        let other = JudgementUnit::Front(front).judged_like(unit);
        let block = CellBlock {
            slow: unit.is_latency(),
            kind: EvidenceKind::Vip(front),
        };
        let ring = self.evidence.blocks.get(&block)?;
        let fails = ring.fails_since(self.start_beside(&other, start));
        (fails && self.may_support(&other)).then_some(other)
    }

    fn related_hosts(&self, unit: &JudgementUnit, start: Round) -> Vec<JudgementUnit> {
        let JudgementUnit::Target(own) = unit.without_latency() else {
            return Vec::new();
        };
        let targets = self.cluster.topology.targets();
        let placed = targets.get(own);
        let entry = placed.and_then(|placed| placed.entry.as_ref());
        let Some(hosts) = entry.and_then(|entry| self.cluster.hosts.get(entry)) else {
            return Vec::new();
        };
        // Hosts of one application fail together because of it: that is one local cause, not evidence for a shared
        // one.
        let origin = placed.and_then(|placed| placed.origin.as_ref());
        let has_same_origin = |host: &TargetId| {
            let other = targets.get(host).and_then(|placed| placed.origin.as_ref());
            origin.is_some() && other == origin
        };
        let (mut failing, mut quiet) = (Vec::new(), Vec::new());
        for host in hosts.iter().filter(|host| *host != own) {
            let Some(target) = self.registry.targets.get(host) else {
                continue;
            };
            let block = CellBlock {
                slow: unit.is_latency(),
                kind: EvidenceKind::Target(target),
            };
            let Some(ring) = self.evidence.blocks.get(&block) else {
                continue;
            };
            let other = JudgementUnit::Target(host.clone()).judged_like(unit);
            let list = if !ring.fails_since(self.start_beside(&other, start)) {
                &mut quiet
            } else if self.may_support(&other) && !has_same_origin(host) {
                &mut failing
            } else {
                continue;
            };
            if list.len() < MAX_HOSTS {
                list.push(other);
            }
            if failing.len() + quiet.len() == 2 * MAX_HOSTS {
                break;
            }
        }
        failing.append(&mut quiet);
        failing
    }

    fn related_subjects(
        &mut self,
        unit: &JudgementUnit,
        beside: Vec<JudgementUnit>,
        start: Round,
        known: &KnownSpans,
    ) -> Vec<Arc<OtherSubject>> {
        let own = self.blocks_of(unit).0;
        // One cause has the same effect on every balancer.
        let unhealthy_nodes = self.judgement.units.get(unit).map(|state| state.unhealthy_nodes);
        let unhealthy_nodes = unhealthy_nodes.unwrap_or_default();
        // Only these divide the window, and subjects with the same ones share the others' evidence.
        let mut spans = known.clone();
        spans.retain(|_, span| span.first > start || span.last.is_some());
        let mut others = Vec::new();
        for other in beside {
            let blocks = self.blocks_of(&other).0;
            if blocks.iter().any(|block| own.contains(block)) {
                let apart: Vec<CellBlock> = blocks.into_iter().filter(|block| !own.contains(block)).collect();
                let new = self.related_subject(&other, &apart, start, unhealthy_nodes, &spans);
                others.push(Arc::new(new));
                continue;
            }
            let key = (other, start, unhealthy_nodes, spans.clone());
            if let Some(known) = self.judgement.related.subjects.get(&key) {
                others.push(Arc::clone(known));
            } else {
                let new = Arc::new(self.related_subject(&key.0, &blocks, start, unhealthy_nodes, &spans));
                self.judgement.related.subjects.insert(key, Arc::clone(&new));
                others.push(new);
            }
        }
        others
    }

    fn related_subject(
        &mut self,
        other: &JudgementUnit,
        blocks: &[CellBlock],
        start: Round,
        unhealthy_nodes: UnhealthyNodes,
        known: &KnownSpans,
    ) -> OtherSubject {
        let start = self.start_beside(other, start);
        let periods = CausePeriods::of_known(known.clone());
        let window = self.cells_since((blocks, &[]), start, &periods, false);
        let mut paths = self.subject_paths(other, &window.all);
        paths.unhealthy_nodes = unhealthy_nodes;
        let channels = window.all.keys().map(|key| key.channel).collect();
        let facts = self.prior_facts(other);
        let data = ComparisonData::new(&window, &paths, |kind, status| {
            self.registry.class_of(kind, status)
        });
        self.judgement.related.count += 1;
        OtherSubject {
            number: OtherSubjectNumber(self.judgement.related.count),
            candidates: candidates(
                &hypotheses(&other.region_kinds(&paths, &channels), &paths, &data, &facts),
                &data,
                &paths,
            ),
            data,
            paths,
        }
    }
}
