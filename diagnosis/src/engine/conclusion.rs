//! Turns a judgement into an incident, an investigation, or nothing.

use std::collections::BTreeSet;

use parallax_model::{EventTime, TargetId};

use super::{Engine, inquiry::Inquiry};
use crate::{
    catalogue::WITHDRAWN,
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::RoundCells,
        resolvers::ResolverView,
        routes::default_front,
    },
    explanation::{RequestedProbes, VerdictContext},
    ids::class_position,
    incident::{Event, Report, Scope},
    inference::{
        judgement::{Finding, Judgement},
        prior::PriorFact,
        unit::JudgementUnit,
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
        inquiry: &Inquiry,
        facts: &[PriorFact],
        at: EventTime,
    ) {
        self.judgement.leanings.remove(unit);
        let named: Vec<&Finding> = judgement.findings.iter().filter(|f| f.named).collect();
        let mut reports = Vec::new();
        let mut waiting = None;
        let mut excused = false;
        for finding in &named {
            let verdict = {
                let mut desk = self.desk(unit, judgement, finding, facts);
                desk.asked = inquiry.of(self, judgement, finding);
                desk.verdict(judgement, finding)
            };
            let node_of = |pod| judgement.case.scene.nodes.pods.get(&pod).copied();
            if unit.is_slow() && self.incidents.explains_delay(unit, finding.region, at, node_of) {
                continue;
            }
            if self.rules.must_have_worked && !self.has_worked(unit, finding.region) {
                waiting = Some(format!("never worked so far; {}", verdict.sentence));
                continue;
            }
            if let Some(node) = self.only_its_prober(unit, judgement, finding) {
                waiting = Some(format!(
                    "the prober on node {node} does not respond, but the other Pods on the node do: check the prober, not \
                     the node"
                ));
                excused = true;
                continue;
            }
            let doubt = self
                .may_be_orphan(unit, finding.region, at)
                .or_else(|| self.may_be_gone(unit, judgement, finding, at));
            if let Some(sentence) = doubt {
                waiting = Some(format!("{}; but {sentence}", verdict.sentence));
                excused = true;
                continue;
            }
            reports.push(Report {
                // Withdrawn endpoints are a fault of the nodes, whichever subject shows it.
                scope: match verdict.cause() {
                    Some(WITHDRAWN) if !unit.is_slow() => Scope::Withdrawn,
                    _ => self.scope(unit, judgement, finding),
                },
                region: finding.region,
                class: finding.class.clone(),
                lead: finding.lead,
                failing: finding.failing.clone(),
                crossed: finding.crossed,
                since: finding.first_failure.start(self.settings.interval),
                past: self.is_past(finding.last_failure),
                verdict,
            });
        }
        let nothing_named = named.is_empty();
        let service = self.service_of_unit(unit);
        excused |=
            nothing_named && service.is_some_and(|service| self.orphaned_for(&service.key, at).is_some());
        if !judgement.unexplained {
            self.judgement.unexplained.remove(unit);
        }
        self.incidents.report(unit, reports, at, &self.world);
        let sentence = match waiting {
            Some(sentence) => Some(sentence),
            None if judgement.unexplained => {
                let cells = self.residual(judgement);
                let sentence = if cells.is_empty() {
                    "no single cause explains the failures".to_owned()
                } else {
                    format!(
                        "no single cause explains the failures; left over: {}",
                        cells.join(", ")
                    )
                };
                if self.judgement.unexplained.insert(unit.clone()) {
                    self.incidents.note(Event::Unexplained { at, cells });
                }
                Some(sentence)
            }
            None if nothing_named && judgement.p_healthy < 0.5 && !self.is_named(unit, judgement) => {
                self.judgement
                    .leanings
                    .insert(unit.clone(), self.leaning(judgement));
                Some(self.suspicion(judgement))
            }
            None => None,
        };
        match sentence {
            Some(sentence) => self.investigate(unit, judgement, sentence, excused),
            None => {
                self.judgement.investigating.remove(unit);
            }
        }
    }

    fn investigate(&mut self, unit: &JudgementUnit, judgement: &Judgement, sentence: String, excused: bool) {
        let failing = judgement.findings.iter().map(|finding| finding.first_failure);
        let since = failing.min().unwrap_or(judgement.case.start);
        let investigation = self
            .judgement
            .investigating
            .entry(unit.clone())
            .or_insert(Investigation {
                subject: Self::subject_of(unit),
                sentence: String::new(),
                since: since.start(self.settings.interval),
                excused,
            });
        investigation.sentence = sentence;
        investigation.excused = excused;
    }

    fn suspicion(&self, judgement: &Judgement) -> String {
        let Some(class) = judgement.posterior.classes.iter().find(|c| !c.unobserved) else {
            return "failing, cause not yet known".to_owned();
        };
        let names: Vec<String> = class
            .members
            .iter()
            .map(|i| {
                judgement.posterior.scored[*i]
                    .region
                    .describe(&self.world)
                    .to_string()
            })
            .collect();
        format!(
            "failing, cause not yet known; likeliest so far: {} ({})",
            crate::wording::listed(&names),
            crate::wording::likelihood(class.mass.min(1.0))
        )
    }

    /// Reports whether an open incident already names the tentative cause: an incident of a former process, which had
    /// more evidence.
    fn is_named(&self, unit: &JudgementUnit, judgement: &Judgement) -> bool {
        let posterior = &judgement.posterior;
        let class = posterior.classes.iter().find(|class| !class.unobserved);
        let regions = class.map(|class| posterior.regions_of(class)).unwrap_or_default();
        regions.iter().any(|region| self.incidents.is_open(unit, *region))
    }

    /// Returns the heaviest class of all, "nothing is wrong" included.
    fn leaning(&self, judgement: &Judgement) -> Option<TentativeCause> {
        let posterior = &judgement.posterior;
        let class = posterior.classes.first().filter(|class| !class.unobserved)?;
        let regions = posterior.regions_of(class).into_iter();
        Some(TentativeCause {
            class: regions.map(|region| region.describe(&self.world)).collect(),
            probability: class.mass.min(1.0),
        })
    }

    /// Tentative causes of the subjects that fail without a verdict, except "nothing is wrong".
    pub(crate) fn leanings(&self) -> impl Iterator<Item = &TentativeCause> {
        let failing = self.judgement.leanings.iter();
        failing
            .filter(|(unit, _)| self.judgement.investigating.contains_key(unit))
            .filter_map(|(_, leaning)| leaning.as_ref())
    }

    /// Returns the cells that fit the best explanation worst.
    fn residual(&self, judgement: &Judgement) -> Vec<String> {
        let regions: Vec<Region> = judgement.findings.iter().map(|f| f.region).collect();
        let mut worst: Vec<(u64, String)> = judgement
            .case
            .cells
            .iter()
            .filter(|(key, counts)| {
                counts.seen_f > 0 && alpha(&regions, key, &judgement.case.scene).is_zero()
            })
            .map(|(key, counts)| {
                let vantage = self.world.vantages.name(key.client);
                (counts.seen_f, format!("{} from {vantage}", key.channel))
            })
            .collect();
        worst.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        worst
            .into_iter()
            .take(5)
            .map(|(failures, words)| {
                format!("{words} ({} failures)", crate::evidence::weights::whole(failures))
            })
            .collect()
    }

    pub(super) fn subject_of(unit: &JudgementUnit) -> Subject {
        match unit {
            JudgementUnit::Front(front) => Subject::Front(*front),
            JudgementUnit::Endpoints(service, _) => Subject::Service(service.clone()),
            JudgementUnit::Target(target) | JudgementUnit::Whole(target) => Subject::Target(target.clone()),
            JudgementUnit::Dns => Subject::Name("every name".to_owned()),
            JudgementUnit::Mesh => Subject::Network,
            JudgementUnit::Slow(inner) => Self::subject_of(inner),
        }
    }

    fn has_worked(&self, unit: &JudgementUnit, region: Region) -> bool {
        match (unit, region) {
            (_, Region::DnsName(name)) => self.experience.resolved.contains(&name),
            // The prober of a joining node does not answer echoes before its first plan.
            (JudgementUnit::Mesh, Region::Bnode(node) | Region::BnodeRemote(node)) => {
                self.experience.answered.contains(&node)
            }
            _ => self.ever_worked(unit),
        }
    }

    pub(super) fn ever_worked(&self, unit: &JudgementUnit) -> bool {
        match unit {
            JudgementUnit::Front(front) => {
                self.experience
                    .worked
                    .contains(&CellBlock::plain(EvidenceKind::Vip(*front)))
                    || self
                        .targets_of(unit)
                        .iter()
                        .any(|target| self.matrix.ever_ok(target, &self.world))
            }
            JudgementUnit::Endpoints(..) => {
                let (own, _) = self.blocks_of(unit);
                own.iter().any(|block| self.experience.worked.contains(block))
            }
            JudgementUnit::Target(target) | JudgementUnit::Whole(target) => {
                self.matrix.ever_ok(target, &self.world)
            }
            JudgementUnit::Dns => self
                .experience
                .worked
                .contains(&CellBlock::plain(EvidenceKind::Dns)),
            JudgementUnit::Mesh => self
                .experience
                .worked
                .contains(&CellBlock::plain(EvidenceKind::Mesh)),
            // Only successes have a latency.
            JudgementUnit::Slow(_) => true,
        }
    }

    fn scope(&self, unit: &JudgementUnit, judgement: &Judgement, finding: &Finding) -> Scope {
        if let JudgementUnit::Slow(inner) = unit {
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
                    Some((service, _)) => {
                        Scope::Answers(service.clone(), self.main_class(judgement, finding.region))
                    }
                    None => Scope::Target(target.clone()),
                }
            }
            JudgementUnit::Whole(target) => Scope::Target(target.clone()),
            JudgementUnit::Dns | JudgementUnit::Mesh | JudgementUnit::Slow(_) => Scope::Cluster,
        }
    }

    /// Returns the most frequent class of failures inside a region.
    fn main_class(&self, judgement: &Judgement, region: Region) -> usize {
        let mut sums = [0_u64; 10];
        for (key, counts) in &judgement.case.cells {
            if alpha(&[region], key, &judgement.case.scene).is_zero() {
                continue;
            }
            for ((kind, status), (_, seen)) in &counts.kinds {
                sums[class_position(self.world.class_of(*kind, *status))] += seen;
            }
        }
        let most = sums.iter().copied().max().unwrap_or(0);
        sums.iter().position(|s| *s == most).unwrap_or(0)
    }

    /// Returns all targets that a failure of the subject affects.
    pub(super) fn targets_of(&self, unit: &JudgementUnit) -> Vec<TargetId> {
        match unit {
            JudgementUnit::Target(target) | JudgementUnit::Whole(target) => vec![target.clone()],
            JudgementUnit::Front(front) => {
                let mut targets: BTreeSet<TargetId> =
                    self.matrix.targets_of(front, &self.world).cloned().collect();
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
            JudgementUnit::Slow(inner) => self.targets_of(inner),
            JudgementUnit::Dns | JudgementUnit::Mesh => Vec::new(),
        }
    }

    fn desk<'a>(
        &'a self,
        unit: &'a JudgementUnit,
        judgement: &'a Judgement,
        finding: &Finding,
        facts: &[PriorFact],
    ) -> VerdictContext<'a> {
        let front = self.front_of_unit(unit);
        let start = judgement.case.start;
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
                .map(|(other, _)| (*other, sum(&CellBlock::plain(EvidenceKind::Vip(*other)))))
                .filter(|(_, cells)| !cells.is_empty())
                .collect(),
            _ => Vec::new(),
        };
        let everywhere = (finding.region.is_global()
            && matches!(unit, JudgementUnit::Mesh | JudgementUnit::Dns))
        .then(|| {
            let mut cells = RoundCells::new();
            for (block, ring) in &self.evidence.blocks {
                if !block.slow && matches!(block.of, EvidenceKind::Vip(_) | EvidenceKind::Direct(..)) {
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
        let step = unit.is_slow().then(|| {
            let (own, _) = self.blocks_of(unit);
            own.iter()
                .filter_map(|block| self.evidence.pace.step(block.of, finding.failing.iter().copied()))
                .max_by_key(|step| step.took)
        });
        VerdictContext {
            step: step.flatten(),
            topology: &self.cluster.topology,
            world: &self.world,
            scene: &judgement.case.scene,
            unit,
            front,
            service: self.service_of_unit(unit),
            withdrawals: &self.cluster.withdrawals,
            resolver: match unit.plain() {
                JudgementUnit::Dns => {
                    self.evidence
                        .resolvers
                        .view(&self.cluster.topology, &finding.failing, start)
                }
                _ => ResolverView::default(),
            },
            siblings,
            everywhere,
            ttl,
            asked: RequestedProbes::default(),
            facts: facts
                .iter()
                .filter(|fact| finding.class.iter().any(|region| fact.applies(*region)))
                .map(|fact| fact.fact.clone())
                .collect(),
            targets: self.targets_of(unit),
        }
    }
}
