//! Collects what a verdict says besides the region: scope, facts and affected targets.

use parallax_model::{ServiceKey, TargetId};

use crate::{
    engine::Engine,
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::RoundCells,
        resolvers::ResolverView,
    },
    explanation::{RequestedProbes, VerdictContext},
    ids::class_index,
    incident::Scope,
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
        prior::PriorFact,
    },
    regions::{Region, share::alpha},
};

impl Engine {
    pub(super) fn scope(
        &self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        finding: &ExplainedRegion,
    ) -> Scope {
        if let JudgementUnit::Latency(inner) = unit {
            return Scope::Slow(Box::new(self.scope(inner, judgement, finding)));
        }
        if finding.region.is_cluster_wide() {
            return Scope::Cluster;
        }
        if let Region::Backend(pod) = finding.region
            && let Some(service) = self.workload_of_pod(self.registry.pods.name(pod))
        {
            // A broken Pod is the same fault behind whichever Service, and in whichever phase it shows.
            return Scope::Service(service);
        }
        match unit {
            JudgementUnit::Front(front) => self
                .cluster
                .topology
                .front(front)
                .map_or(Scope::Front(*front), |info| {
                    Scope::Service(self.workload(&info.service))
                }),
            JudgementUnit::Endpoints(service, _) => Scope::Service(self.workload(service)),
            JudgementUnit::Target(target) => {
                let placed = self.cluster.topology.targets().get(target);
                match placed.and_then(|p| p.entry.as_ref()) {
                    // A broken endpoint or front is the same fault in whichever phase it shows.
                    Some((service, _)) if !matches!(finding.region, Region::Target | Region::Vip) => {
                        Scope::Service(self.workload(service))
                    }
                    Some(entry) if finding.region == Region::Target && !self.forwards_requests(entry) => {
                        Scope::Service(self.workload(&entry.0))
                    }
                    Some((service, _)) => self.failing_origin(unit, finding.region).unwrap_or_else(|| {
                        Scope::Answers(
                            service.clone(),
                            self.dominant_failure_class(judgement, finding.region),
                        )
                    }),
                    None => Scope::Target(target.clone()),
                }
            }
            JudgementUnit::SingleTarget(target) => Scope::Target(target.clone()),
            JudgementUnit::Dns | JudgementUnit::Mesh | JudgementUnit::Latency(_) => Scope::Cluster,
        }
    }

    /// Returns the origin of a host as the scope of its failing answers: if the origin is known to fail, or if no host of
    /// another origin behind the same entry fails.
    fn failing_origin(&self, unit: &JudgementUnit, region: Region) -> Option<Scope> {
        let origin = self.origin_of_unit(unit).filter(|_| region == Region::Target)?;
        let scope = |origin: &ServiceKey| Scope::Service(self.workload(origin));
        let own = scope(&origin.key);
        if self.incidents.is_open_in(&own, Region::Target) {
            return Some(own);
        }
        let targets = self.cluster.topology.targets();
        let entry = match unit {
            JudgementUnit::Target(target) => targets.get(target)?.entry.as_ref()?,
            _ => return None,
        };
        let fails_too = |host: &TargetId| {
            let other = targets.get(host).and_then(|placed| placed.origin.as_ref());
            let state = self.judgement.units.get(&JudgementUnit::Target(host.clone()));
            state.is_some_and(|state| state.detectors.any_rising())
                && other.is_some_and(|other| {
                    let other = scope(other);
                    other != own && !self.incidents.is_open_in(&other, Region::Target)
                })
        };
        let mut hosts = self.cluster.hosts.get(entry).into_iter().flatten();
        (!hosts.any(fails_too)).then_some(own)
    }

    /// Returns the most frequent class of failures inside a region.
    fn dominant_failure_class(&self, judgement: &Judgement, region: Region) -> usize {
        let mut sums = [0_u64; 10];
        for (key, counts) in &judgement.input.cells {
            if alpha(&[region], key, &judgement.input.paths).is_zero() {
                continue;
            }
            for ((kind, status), (_, seen)) in &counts.kinds {
                sums[class_index(self.registry.class_of(*kind, *status))] += seen;
            }
        }
        let most = sums.iter().copied().max().unwrap_or(0);
        sums.iter().position(|s| *s == most).unwrap_or(0)
    }

    pub(super) fn verdict_context<'a>(
        &'a self,
        unit: &'a JudgementUnit,
        judgement: &'a Judgement,
        finding: &ExplainedRegion,
        facts: &[PriorFact],
    ) -> VerdictContext<'a> {
        let front = self.front_of_unit(unit);
        let start = judgement.input.start;
        let sum = |block: &CellBlock| {
            let mut cells = RoundCells::new();
            if let Some(ring) = self.evidence.blocks.get(block) {
                ring.sum_into(start, &mut cells);
            }
            cells
        };
        let siblings = match (unit, front.and_then(|f| self.cluster.topology.front(&f))) {
            (JudgementUnit::Front(own), Some(info)) => self
                .cluster
                .topology
                .fronts()
                .iter()
                .filter(|(other, i)| *other != own && i.service == info.service)
                .map(|(other, _)| (*other, sum(&CellBlock::failures(EvidenceKind::Vip(*other)))))
                .filter(|(_, cells)| !cells.is_empty())
                .collect(),
            _ => Vec::new(),
        };
        let all_fronts = (finding.region.is_global()
            && matches!(unit, JudgementUnit::Mesh | JudgementUnit::Dns))
        .then(|| {
            let mut cells = RoundCells::new();
            for (block, ring) in &self.evidence.blocks {
                if !block.slow && matches!(block.kind, EvidenceKind::Vip(_) | EvidenceKind::Direct(..)) {
                    ring.sum_into(start, &mut cells);
                }
            }
            cells
        });
        let ttl = front.map_or_else(Vec::new, |front| {
            let address = front.address.ip();
            self.evidence
                .ttl
                .iter()
                .filter(|((probed, _), _)| *probed == address)
                .map(|((_, vantage), evidence)| (vantage.clone(), *evidence))
                .collect()
        });
        let step = unit.is_latency().then(|| {
            let (own, _) = self.blocks_of(unit);
            own.iter()
                .filter_map(|block| {
                    self.evidence
                        .latency
                        .step(block.kind, finding.failing_clients.iter().copied())
                })
                .max_by_key(|step| step.duration)
        });
        VerdictContext {
            latency_step: step.flatten(),
            topology: &self.cluster.topology,
            registry: &self.registry,
            paths: &judgement.input.paths,
            unit,
            front,
            service: self.service_of_unit(unit),
            withdrawals: &self.cluster.withdrawals,
            resolver: match unit.without_latency() {
                JudgementUnit::Dns => {
                    self.evidence
                        .resolvers
                        .view(&self.cluster.topology, &finding.failing_clients, start)
                }
                _ => ResolverView::default(),
            },
            sibling_fronts: siblings,
            all_fronts,
            ttl,
            requested_probes: RequestedProbes::default(),
            facts: facts
                .iter()
                .filter(|fact| finding.class.iter().any(|region| fact.applies(*region)))
                .map(|fact| fact.fact.clone())
                .collect(),
            targets: self.targets_of(unit),
        }
    }
}
