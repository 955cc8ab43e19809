//! Turns a judgement into an incident, an investigation, or nothing.

mod attribution;
mod finding;
mod investigation;
mod pending_explanation;
mod persistence;
mod verdict_context;

use std::collections::BTreeSet;

use parallax_model::{EventTime, TargetId};

use super::{Engine, on_demand::OnDemandEvidence};
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        routes::default_front,
    },
    ids::NodeIx,
    incident::IncidentEvent,
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
        prior::PriorFact,
    },
    regions::Region,
    verdict::Subject,
};
use finding::WeighedFinding;
pub(crate) use investigation::TentativeCause;
pub(super) use pending_explanation::Suspicion;

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
        self.forget_doubtful(unit, judgement);
        let mut reports = Vec::new();
        let mut waiting = None;
        let mut excused = false;
        let mut is_over = false;
        for finding in &named {
            match self.weigh_finding(unit, judgement, finding, inquiry, facts, at) {
                WeighedFinding::Reported(report) => reports.push(*report),
                WeighedFinding::Over => is_over = true,
                WeighedFinding::Consequence => {}
                WeighedFinding::Waiting { sentence, is_excused } => {
                    waiting = Some(sentence);
                    excused |= is_excused;
                }
            }
        }
        let nothing_named = named.is_empty();
        let service = self.service_of_unit(unit);
        excused |=
            nothing_named && service.is_some_and(|service| self.orphan_age(&service.key, at).is_some());
        if !judgement.unexplained {
            self.judgement.unexplained.remove(unit);
        }
        let reported = self.incidents.report(unit, reports, at, &self.registry);
        if !is_over {
            self.attribute_to_incidents(unit, judgement, &reported);
        }
        self.record_pending(unit, judgement, reported.is_empty(), at);
        let sentence = match waiting {
            Some(sentence) => Some(sentence),
            None if judgement.unexplained && !self.has_ceased(unit, judgement) => {
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
                && !self.has_open_incident(unit, judgement)
                && !self.has_ceased(unit, judgement) =>
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
            (_, Region::Link(a, b) | Region::Pair(a, b)) => self.network_ever_worked(&[a, b], unit),
            (_, Region::NodeLink(node)) => self.network_ever_worked(&[node], unit),
            (_, Region::Cross | Region::Zone(..) | Region::ZoneLink(..)) => {
                self.network_ever_worked(&[], unit)
            }
            _ => self.ever_worked(unit),
        }
    }

    /// Reports whether the network between nodes ever worked: every one of `nodes` answered an echo of another, or some node
    /// did. That a subject worked shows nothing about it, because some of its paths may stay on a node. Without echoes, there is
    /// only the subject.
    fn network_ever_worked(&self, nodes: &[NodeIx], unit: &JudgementUnit) -> bool {
        let echoes = CellBlock::failures(EvidenceKind::Mesh);
        if !self.evidence.blocks.contains_key(&echoes) {
            return self.ever_worked(unit);
        }
        let answering = &self.history.answering_nodes;
        let has_prober = |node: &NodeIx| {
            let known = self.cluster.topology.nodes().get(self.registry.nodes.name(*node));
            known.is_some_and(|node| node.prober.is_some())
        };
        let mut probed = nodes.iter().filter(|node| has_prober(node));
        !answering.is_empty() && probed.all(|node| answering.contains(node))
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
}
