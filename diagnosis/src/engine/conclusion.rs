//! Turns a judgement into an incident, an investigation, or nothing.

use std::collections::BTreeSet;

use parallax_model::{EventTime, TargetId};

use super::{Engine, on_demand::OnDemandEvidence};
use crate::{
    catalogue::WITHDRAWN_ENDPOINTS,
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::RoundCells,
        resolvers::ResolverView,
        routes::default_front,
    },
    explanation::{RequestedProbes, VerdictContext},
    ids::class_index,
    incident::{IncidentEvent, Report, Scope},
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
        prior::PriorFact,
    },
    regions::{Region, share::alpha},
    verdict::{RegionRef, Subject},
    view::Investigation,
};

/// The likeliest explanation of a subject's failures while the evidence does not suffice for a verdict.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TentativeCause {
    /// Regions that the evidence cannot separate, likeliest first.
    pub(crate) class: Vec<RegionRef>,
    /// Probability of the whole class.
    pub(crate) probability: f64,
}

impl Engine {
    /// Turns a judgement into incidents or into an investigation.
    pub(super) fn conclude(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        inquiry: &OnDemandEvidence,
        facts: &[PriorFact],
        at: EventTime,
    ) {
        self.judgement.tentative_causes.remove(unit);
        let named: Vec<&ExplainedRegion> = judgement.findings.iter().filter(|f| f.is_verdict).collect();
        let mut reports = Vec::new();
        let mut waiting = None;
        let mut excused = false;
        for finding in &named {
            let verdict = {
                let mut desk = self.verdict_context(unit, judgement, finding, facts);
                desk.requested_probes = inquiry.requested_probes(self, judgement, finding);
                desk.verdict(judgement, finding)
            };
            let node_of = |pod| judgement.input.paths.mesh.pod_nodes.get(&pod).copied();
            if unit.is_latency() && self.incidents.explains_delay(unit, finding.region, at, node_of) {
                continue;
            }
            if self.rules.require_prior_success && !self.ever_worked_in_region(unit, finding.region) {
                waiting = Some(format!("never worked so far; {}", verdict.sentence));
                continue;
            }
            if let Some(node) = self.node_with_only_prober_down(unit, judgement, finding) {
                waiting = Some(format!(
                    "the prober on node {node} does not respond, but the other Pods on the node do: check the prober, not \
                     the node"
                ));
                excused = true;
                continue;
            }
            let doubt = self
                .orphan_explanation(unit, finding.region, at)
                .or_else(|| self.outdated_topology_explanation(unit, judgement, finding, at));
            if let Some(sentence) = doubt {
                waiting = Some(format!("{}; but {sentence}", verdict.sentence));
                excused = true;
                continue;
            }
            reports.push(Report {
                // Withdrawn endpoints are a fault of the nodes, whichever subject shows it.
                scope: match verdict.cause() {
                    Some(WITHDRAWN_ENDPOINTS) if !unit.is_latency() => Scope::Withdrawn,
                    _ => self.scope(unit, judgement, finding),
                },
                region: finding.region,
                class: finding.class.clone(),
                odds_over_next: finding.odds_over_next,
                failing_clients: finding.failing_clients.clone(),
                crossing_counts: finding.crossing,
                since: finding.first_failure.start(self.settings.interval),
                before_start: self.ended_before_start(finding.last_failure),
                verdict,
            });
        }
        let nothing_named = named.is_empty();
        let service = self.service_of_unit(unit);
        excused |=
            nothing_named && service.is_some_and(|service| self.orphan_age(&service.key, at).is_some());
        if !judgement.unexplained {
            self.judgement.unexplained.remove(unit);
        }
        self.incidents.report(unit, reports, at, &self.registry);
        let sentence = match waiting {
            Some(sentence) => Some(sentence),
            None if judgement.unexplained => {
                let cells = self.unexplained_cells(judgement);
                let sentence = if cells.is_empty() {
                    "no single cause explains the failures".to_owned()
                } else {
                    format!(
                        "no single cause explains the failures; left over: {}",
                        cells.join(", ")
                    )
                };
                if self.judgement.unexplained.insert(unit.clone()) {
                    self.incidents
                        .record_event(IncidentEvent::Unexplained { at, cells });
                }
                Some(sentence)
            }
            None if nothing_named
                && judgement.p_healthy < 0.5
                && !self.has_open_incident(unit, judgement) =>
            {
                self.judgement
                    .tentative_causes
                    .insert(unit.clone(), self.tentative_cause(judgement));
                Some(self.suspicion_sentence(judgement))
            }
            None => None,
        };
        match sentence {
            Some(sentence) => self.update_investigation(unit, judgement, sentence, excused),
            None => {
                self.judgement.investigating.remove(unit);
            }
        }
    }

    fn update_investigation(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        sentence: String,
        excused: bool,
    ) {
        let failing = judgement.findings.iter().map(|finding| finding.first_failure);
        let since = failing.min().unwrap_or(judgement.input.start);
        let investigation = self
            .judgement
            .investigating
            .entry(unit.clone())
            .or_insert(Investigation {
                subject: Self::subject_of(unit),
                sentence: String::new(),
                since: since.start(self.settings.interval),
                transient: excused,
            });
        investigation.sentence = sentence;
        investigation.transient = excused;
    }

    fn suspicion_sentence(&self, judgement: &Judgement) -> String {
        let Some(class) = judgement.posterior.classes.iter().find(|c| !c.contains_healthy) else {
            return "failing, cause not yet known".to_owned();
        };
        let names: Vec<String> = class
            .members
            .iter()
            .map(|i| {
                judgement.posterior.scored[*i]
                    .region
                    .describe(&self.registry)
                    .to_string()
            })
            .collect();
        format!(
            "failing, cause not yet known; likeliest so far: {} ({})",
            crate::wording::join_names(&names),
            crate::wording::format_probability(class.mass.min(1.0))
        )
    }

    /// Reports whether an open incident already names the tentative cause: an incident of a former process, which had
    /// more evidence.
    fn has_open_incident(&self, unit: &JudgementUnit, judgement: &Judgement) -> bool {
        let posterior = &judgement.posterior;
        let class = posterior.classes.iter().find(|class| !class.contains_healthy);
        let regions = class.map(|class| posterior.regions_of(class)).unwrap_or_default();
        regions.iter().any(|region| self.incidents.is_open(unit, *region))
    }

    /// Returns the heaviest class of all, "nothing is wrong" included.
    fn tentative_cause(&self, judgement: &Judgement) -> Option<TentativeCause> {
        let posterior = &judgement.posterior;
        let class = posterior
            .classes
            .first()
            .filter(|class| !class.contains_healthy)?;
        let regions = posterior.regions_of(class).into_iter();
        Some(TentativeCause {
            class: regions.map(|region| region.describe(&self.registry)).collect(),
            probability: class.mass.min(1.0),
        })
    }

    /// Tentative causes of the subjects that fail without a verdict, except "nothing is wrong".
    pub(crate) fn tentative_causes(&self) -> impl Iterator<Item = &TentativeCause> {
        let failing = self.judgement.tentative_causes.iter();
        failing
            .filter(|(unit, _)| self.judgement.investigating.contains_key(unit))
            .filter_map(|(_, leaning)| leaning.as_ref())
    }

    /// Returns the cells that fit the best explanation worst.
    fn unexplained_cells(&self, judgement: &Judgement) -> Vec<String> {
        let regions: Vec<Region> = judgement.findings.iter().map(|f| f.region).collect();
        let mut worst: Vec<(u64, String)> = judgement
            .input
            .cells
            .iter()
            .filter(|(key, counts)| {
                counts.unweighted_failures > 0 && alpha(&regions, key, &judgement.input.paths).is_zero()
            })
            .map(|(key, counts)| {
                let vantage = self.registry.vantages.name(key.client);
                (
                    counts.unweighted_failures,
                    format!("{} from {vantage}", key.channel),
                )
            })
            .collect();
        worst.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        worst
            .into_iter()
            .take(5)
            .map(|(failures, words)| {
                format!(
                    "{words} ({} failures)",
                    crate::evidence::weights::to_whole_probes(failures)
                )
            })
            .collect()
    }

    pub(super) fn subject_of(unit: &JudgementUnit) -> Subject {
        match unit {
            JudgementUnit::Front(front) => Subject::Front(*front),
            JudgementUnit::Endpoints(service, _) => Subject::Service(service.clone()),
            JudgementUnit::Target(target) | JudgementUnit::SingleTarget(target) => {
                Subject::Target(target.clone())
            }
            JudgementUnit::Dns => Subject::Name("every name".to_owned()),
            JudgementUnit::Mesh => Subject::Network,
            JudgementUnit::Latency(inner) => Self::subject_of(inner),
        }
    }

    fn ever_worked_in_region(&self, unit: &JudgementUnit, region: Region) -> bool {
        match (unit, region) {
            (_, Region::DnsName(name)) => self.history.resolved_names.contains(&name),
            // The prober of a joining node does not answer echoes before its first plan.
            (JudgementUnit::Mesh, Region::Bnode(node) | Region::BnodeRemote(node)) => {
                self.history.answering_nodes.contains(&node)
            }
            _ => self.ever_worked(unit),
        }
    }

    pub(super) fn ever_worked(&self, unit: &JudgementUnit) -> bool {
        match unit {
            JudgementUnit::Front(front) => {
                self.history
                    .worked_blocks
                    .contains(&CellBlock::failures(EvidenceKind::Vip(*front)))
                    || self
                        .targets_of(unit)
                        .iter()
                        .any(|target| self.matrix.ever_succeeded(target, &self.registry))
            }
            JudgementUnit::Endpoints(..) => {
                let (own, _) = self.blocks_of(unit);
                own.iter().any(|block| self.history.worked_blocks.contains(block))
            }
            JudgementUnit::Target(target) | JudgementUnit::SingleTarget(target) => {
                self.matrix.ever_succeeded(target, &self.registry)
            }
            JudgementUnit::Dns => self
                .history
                .worked_blocks
                .contains(&CellBlock::failures(EvidenceKind::Dns)),
            JudgementUnit::Mesh => self
                .history
                .worked_blocks
                .contains(&CellBlock::failures(EvidenceKind::Mesh)),
            // Only successes have a latency.
            JudgementUnit::Latency(_) => true,
        }
    }

    fn scope(&self, unit: &JudgementUnit, judgement: &Judgement, finding: &ExplainedRegion) -> Scope {
        if let JudgementUnit::Latency(inner) = unit {
            return Scope::Slow(Box::new(self.scope(inner, judgement, finding)));
        }
        if finding.region.is_global() {
            return Scope::Cluster;
        }
        match unit {
            JudgementUnit::Front(front) => self
                .cluster
                .topology
                .front(front)
                .map_or(Scope::Front(*front), |info| Scope::Service(info.service.clone())),
            JudgementUnit::Endpoints(service, _) => Scope::Service(service.clone()),
            JudgementUnit::Target(target) => {
                let placed = self.cluster.topology.targets().get(target);
                match placed.and_then(|p| p.entry.as_ref()) {
                    // A broken endpoint or front is the same fault in whichever phase it shows.
                    Some((service, _)) if !matches!(finding.region, Region::Target | Region::Vip) => {
                        Scope::Service(service.clone())
                    }
                    Some((service, _)) => Scope::Answers(
                        service.clone(),
                        self.dominant_failure_class(judgement, finding.region),
                    ),
                    None => Scope::Target(target.clone()),
                }
            }
            JudgementUnit::SingleTarget(target) => Scope::Target(target.clone()),
            JudgementUnit::Dns | JudgementUnit::Mesh | JudgementUnit::Latency(_) => Scope::Cluster,
        }
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

    /// Returns all targets that a failure of the subject affects.
    pub(super) fn targets_of(&self, unit: &JudgementUnit) -> Vec<TargetId> {
        match unit {
            JudgementUnit::Target(target) | JudgementUnit::SingleTarget(target) => vec![target.clone()],
            JudgementUnit::Front(front) => {
                let mut targets: BTreeSet<TargetId> =
                    self.matrix.targets_of(front, &self.registry).cloned().collect();
                if let Some(info) = self.cluster.topology.front(front) {
                    let entry = (info.service.clone(), info.target_port);
                    let hosts = self.cluster.hosts.get(&entry).into_iter().flatten();
                    targets.extend(
                        hosts
                            .filter(|id| default_front(&self.cluster.topology, id) == Some(*front))
                            .cloned(),
                    );
                }
                targets.into_iter().collect()
            }
            JudgementUnit::Endpoints(service, port) => {
                let hosts = self.cluster.hosts.get(&(service.clone(), *port));
                hosts.cloned().unwrap_or_default()
            }
            JudgementUnit::Latency(inner) => self.targets_of(inner),
            JudgementUnit::Dns | JudgementUnit::Mesh => Vec::new(),
        }
    }

    fn verdict_context<'a>(
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
        let everywhere = (finding.region.is_global()
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
                .filter(|((asked, _), _)| *asked == address)
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
            all_fronts: everywhere,
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
