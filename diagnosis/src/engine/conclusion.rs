//! Turns a judgement into an incident, an investigation, or nothing.

mod investigation;
mod verdict_context;

use std::collections::BTreeSet;

use parallax_model::{EventTime, TargetId};

use super::{Engine, on_demand::OnDemandEvidence};
use crate::{
    catalogue::WITHDRAWN_ENDPOINTS,
    evidence::{
        block::{CellBlock, EvidenceKind},
        routes::default_front,
    },
    incident::{IncidentEvent, Report, Scope},
    inference::{
        judgement::{ExplainedRegion, Judgement},
        judgement_unit::JudgementUnit,
        prior::PriorFact,
    },
    regions::Region,
    verdict::Subject,
};
pub(crate) use investigation::TentativeCause;

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
                let mut context = self.verdict_context(unit, judgement, finding, facts);
                context.requested_probes = inquiry.requested_probes(self, judgement, finding);
                context.verdict(judgement, finding)
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
