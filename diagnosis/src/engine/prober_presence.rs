//! Presence of the probers in a round. Failures that only an absent prober explains are unknown, not failures.
//!
//! The mesh observes a node through the prober on it, and probers restart more often than anything else: on rollouts,
//! upgrades and drains. If an echo is *refused*, reset or answered with an error status, a packet came back and only
//! the process is away. If an echo gets *no response* while the prober does not report either, a dead node and a dead
//! prober look alike. Other Pods on the node tell them apart in the same round. If no other Pod is probed, only
//! silence longer than any restart does, and on a cordoned node not even that: a drained node no longer runs other
//! Pods and is often about to reboot.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, FailureKind, KindClass, Micros, Outcome, OwnFault, Recorded, Round, Vantage};

use super::Engine;
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{ClosedCells, Destination},
        ledger::OutcomeSplit,
    },
    ids::{NodeIx, PodIx, VantageIx},
    topology::NodeReadiness,
};

/// Longest in-place restart of a container, including image pull and the back-off after a first crash.
const MAX_RESTART_TIME: Micros = Micros::from_secs(30);

/// Number of probers that do not fall silent together because they restart.
const MIN_ABSENT_PROBERS: usize = 2;
/// Rounds within which probers fall silent together: a cut in the middle of a round leaves some of them an answer in it.
const MAX_SILENCE_SPREAD: i64 = 2;

/// Maximum number of rounds of which a prober's reports are forgotten when it falls silent.
const MAX_UNFINISHED_ROUNDS: i64 = 4;

/// Results of the direct connections of a round to a node.
#[derive(Debug, Clone, Copy)]
struct NodeEvidence {
    /// Most connections to one of its Pods succeeded.
    passed: bool,
    /// At least half of those to one of its Pods failed.
    failed: bool,
}

impl Engine {
    /// Reports whether a failure is our own doing: the echo or another port of a prober that is restarting.
    pub(super) fn is_prober_fault(&self, recorded: &Recorded) -> bool {
        let seen = &recorded.observation;
        let Outcome::Failed { kind, status, .. } = &seen.outcome else {
            return false;
        };
        if self.rules.outcome_split == OutcomeSplit::PerChannel || !got_response(kind, *status) {
            return false;
        }
        match seen.channel {
            Channel::Mesh => true,
            Channel::Dns => false,
            _ => {
                let placed = self.cluster.topology.targets().get(&seen.target);
                let entry = placed.and_then(|placed| placed.entry.as_ref());
                let service = entry.and_then(|(service, _)| self.cluster.topology.service(service));
                service.is_some_and(|service| service.echo)
            }
        }
    }

    /// Removes the cells of a closed round that only an absent prober made fail, and records which probers were
    /// present.
    pub(super) fn apply_presence(
        &mut self,
        round: Round,
        speaking: &BTreeSet<VantageIx>,
        cells: &mut BTreeMap<CellBlock, ClosedCells>,
    ) {
        if self.rules.outcome_split == OutcomeSplit::PerChannel {
            return;
        }
        let end = round.end(self.settings.interval);
        let (mut absent, mut unwatched, mut silenced) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut reporting = BTreeSet::new();
        let answering = answering_probers(cells);
        for (name, node) in self.cluster.topology.nodes() {
            let Some(number) = self.registry.nodes.get(name) else {
                continue;
            };
            if node.prober.is_none() {
                unwatched.insert(number);
                continue;
            }
            let vantage = self.registry.vantages.get(&Vantage::pod(name.clone()));
            let answers = answering.contains(&number);
            let heard = vantage.is_some_and(|vantage| {
                speaking.contains(&vantage)
                    || self
                        .evidence
                        .rounds
                        .complete_until(vantage)
                        .is_some_and(|at| at >= end)
            });
            // A prober that never reported has not been set up yet.
            let reported =
                vantage.is_some_and(|vantage| self.evidence.rounds.complete_until(vantage).is_some());
            if self
                .presence
                .count_unheard(number, (answers && reported).then_some(heard), round)
            {
                silenced.insert(number);
            }
            if heard && self.presence.withheld.silent_from(number).is_some() {
                reporting.insert(number);
            }
            let present = answers || heard;
            if present {
                self.presence.present.insert(number, round);
                self.presence.dead.remove(&number);
            } else {
                absent.insert(number);
            }
        }
        self.drop_unfinished_rounds(&silenced, round);
        self.release_echoes_of_reporting(&reporting, round);
        let is_alone = self.hears_itself_only(&absent, &unwatched, round);
        self.presence.count_alone(is_alone, round);
        if absent.is_empty() && unwatched.is_empty() {
            return;
        }
        let (dead, away): (BTreeSet<NodeIx>, BTreeSet<NodeIx>) = absent
            .iter()
            .copied()
            .partition(|node| self.is_dead(*node, round, is_alone, cells));
        let (answering, mute): (BTreeSet<NodeIx>, BTreeSet<NodeIx>) = away
            .into_iter()
            .partition(|node| self.node_evidence(*node, cells).passed);
        let mut doubtful = unwatched;
        doubtful.extend(answering);
        if let Some(mesh) = cells.get_mut(&CellBlock::failures(EvidenceKind::Mesh)) {
            mesh.retain(|key, _| !matches!(key.dest, Destination::Peer(node) if doubtful.contains(&node)));
            self.withhold_echoes(&mute, round, mesh);
        }
        self.drop_echo_failures(&absent, cells);
        for node in &dead {
            self.release_echoes(*node);
        }
        self.drop_last_rounds(dead);
    }

    /// Forgets what newly dead nodes reported of the round in which they died. Those reports are from before the
    /// death; next to what other clients saw in the rest of that round, they would look like a node that only reaches
    /// itself.
    fn drop_last_rounds(&mut self, dead: BTreeSet<NodeIx>) {
        let mut last_of: BTreeMap<Round, BTreeSet<VantageIx>> = BTreeMap::new();
        for node in dead {
            if !self.presence.dead.insert(node) {
                continue;
            }
            let (Some(client), Some(last)) = (self.prober_on(node), self.presence.present.get(&node)) else {
                continue;
            };
            let end = last.end(self.settings.interval);
            if self
                .evidence
                .rounds
                .complete_until(client)
                .is_none_or(|complete| complete < end)
            {
                last_of.entry(*last).or_default().insert(client);
            }
        }
        for (round, clients) in last_of {
            for ring in self.evidence.blocks.values_mut() {
                ring.drop_clients(round, &clients);
            }
        }
    }

    /// Forgets what newly silent probers reported of the rounds that they did not report whole. What failed in these rounds
    /// did not arrive, so that the rest would speak against the fault that silences them.
    fn drop_unfinished_rounds(&mut self, silenced: &BTreeSet<NodeIx>, round: Round) {
        for node in silenced {
            let Some(client) = self.prober_on(*node) else {
                continue;
            };
            let Some(complete) = self.evidence.rounds.complete_until(client) else {
                continue;
            };
            let first = complete
                .round(self.settings.interval)
                .0
                .max(round.0 - MAX_UNFINISHED_ROUNDS);
            let clients = BTreeSet::from([client]);
            for ring in self.evidence.blocks.values_mut() {
                for unfinished in first..=round.0 {
                    ring.drop_clients(Round(unfinished), &clients);
                }
            }
        }
    }

    pub(super) fn prober_on(&self, node: NodeIx) -> Option<VantageIx> {
        let name = self.registry.nodes.name(node).clone();
        self.registry.vantages.get(&Vantage::pod(name))
    }

    /// Reports whether the aggregator hears from its own node only, this node reaches no other prober, and all others fell silent
    /// together: the node of the aggregator is cut off. Probers that restart, or are being installed, are absent one by one.
    fn hears_itself_only(
        &self,
        absent: &BTreeSet<NodeIx>,
        unwatched: &BTreeSet<NodeIx>,
        round: Round,
    ) -> bool {
        let nodes = self.cluster.topology.nodes().keys();
        let mut present = nodes
            .filter_map(|name| self.registry.nodes.get(name))
            .filter(|node| !absent.contains(node) && !unwatched.contains(node));
        let only = (present.next(), present.next());
        absent.len() >= MIN_ABSENT_PROBERS
            && only.0.is_some()
            && only == (self.aggregator_node(), None)
            && self.fell_silent_together(absent, round)
    }

    /// Reports whether all absent probers were present until the same time, and the aggregator has been alone since then. If its
    /// own prober was absent too, all of them restart.
    fn fell_silent_together(&self, absent: &BTreeSet<NodeIx>, round: Round) -> bool {
        let last = |node: &NodeIx| self.presence.present.get(node).copied();
        let Some(last) = absent.iter().map(last).collect::<Option<BTreeSet<Round>>>() else {
            return false;
        };
        let (Some(first), Some(last)) = (last.first(), last.last()) else {
            return false;
        };
        last.0 - first.0 <= MAX_SILENCE_SPREAD
            && round.0 - last.0 - 1 <= i64::from(self.presence.alone_rounds())
    }

    /// Reports whether the node itself is dead, rather than only its prober absent. All nodes count as dead for an aggregator
    /// that is alone: what its node tells about them is evidence about its node.
    fn is_dead(
        &self,
        node: NodeIx,
        round: Round,
        is_alone: bool,
        cells: &BTreeMap<CellBlock, ClosedCells>,
    ) -> bool {
        let evidence = self.node_evidence(node, cells);
        if evidence.passed || evidence.failed {
            return !evidence.passed;
        }
        let known = self.cluster.topology.nodes().get(self.registry.nodes.name(node));
        if known.is_none_or(|node| node.cordoned) {
            return false;
        }
        let not_ready = known.is_some_and(|node| node.readiness == NodeReadiness::NotReady);
        let rounds = |last: &Round| u64::try_from(round.0 - last.0).unwrap_or(0);
        let away = self.presence.present.get(&node).map(rounds);
        not_ready
            || is_alone
            || away.is_some_and(|rounds| self.settings.interval.0.saturating_mul(rounds) > MAX_RESTART_TIME.0)
    }

    /// Collects the evidence about a node from connections of other nodes to Pods that are not probers.
    fn node_evidence(&self, node: NodeIx, cells: &BTreeMap<CellBlock, ClosedCells>) -> NodeEvidence {
        // By Pod: one of several may be broken on a node that works, and one connection in ten may get through to a node that does
        // not.
        let mut pods: BTreeMap<PodIx, (u64, u64)> = BTreeMap::new();
        for (block, cells) in cells {
            if block.slow || !matches!(block.kind, EvidenceKind::Direct(..)) {
                continue;
            }
            for (key, counts) in cells.iter() {
                let Destination::Entry(pod) = key.dest else {
                    continue;
                };
                let on_node = self.cluster.nodes.pod_nodes.get(&pod) == Some(&node)
                    && self.cluster.nodes.prober_pods.get(&pod).is_none()
                    && self.cluster.nodes.client_node(key.client) != Some(node);
                if on_node {
                    let (failures, probes) = pods.entry(pod).or_default();
                    *failures += counts.unweighted_failures;
                    *probes += counts.unweighted_probes;
                }
            }
        }
        let answers = |(failures, probes): &(u64, u64)| 2 * failures < *probes;
        let mut evidence = NodeEvidence {
            passed: pods.values().any(answers),
            failed: pods.values().any(|counts| !answers(counts)),
        };
        // An established connection without a response shows that the node accepted the connection.
        let echoes = cells.get(&CellBlock::failures(EvidenceKind::Mesh)).into_iter();
        let mut echoes = echoes.flat_map(ClosedCells::iter);
        evidence.passed |= echoes.any(|(key, counts)| {
            let stands = |kind| {
                matches!(
                    self.registry.kinds.name(kind),
                    FailureKind::FirstByteTimeout | FailureKind::BodyStalled
                )
            };
            key.dest == Destination::Peer(node) && counts.kinds.keys().any(|(kind, _)| stands(*kind))
        });
        evidence
    }

    /// Drops failures of our own echo Services while some of the probers behind them are absent.
    fn drop_echo_failures(&self, absent: &BTreeSet<NodeIx>, cells: &mut BTreeMap<CellBlock, ClosedCells>) {
        if absent.is_empty() {
            return;
        }
        for (block, cells) in cells {
            let service = match block.kind {
                EvidenceKind::Vip(front) => self.cluster.topology.service_of(&front),
                EvidenceKind::Direct(service, _) => self
                    .cluster
                    .topology
                    .service(self.registry.services.name(service)),
                EvidenceKind::Target(target) => {
                    let placed = self
                        .cluster
                        .topology
                        .targets()
                        .get(self.registry.targets.name(target));
                    let entry = placed.and_then(|placed| placed.entry.as_ref());
                    entry.and_then(|(service, _)| self.cluster.topology.service(service))
                }
                EvidenceKind::Dns | EvidenceKind::Mesh => None,
            };
            if service.is_some_and(|service| service.echo) {
                cells.retain(|_, counts| counts.failures == 0);
            }
        }
    }
}

/// Returns the nodes whose prober answered another prober: it runs, even if its reports do not arrive.
fn answering_probers(cells: &BTreeMap<CellBlock, ClosedCells>) -> BTreeSet<NodeIx> {
    let echoes = cells.get(&CellBlock::failures(EvidenceKind::Mesh)).into_iter();
    let answered = echoes
        .flat_map(ClosedCells::iter)
        .filter(|(_, counts)| counts.unweighted_probes > counts.unweighted_failures);
    let nodes = answered.filter_map(|(key, _)| match key.dest {
        Destination::Peer(node) => Some(node),
        _ => None,
    });
    nodes.collect()
}

/// Reports whether something came back: a refusal, or bytes that are not an echo.
fn got_response(kind: &FailureKind, status: Option<u16>) -> bool {
    matches!(
        kind.class(status),
        KindClass::Refused | KindClass::Reset | KindClass::Tls | KindClass::Http4xx | KindClass::Http5xx
    )
}

/// Returns the observation as a probe that was not made.
pub(super) fn as_not_made(recorded: &Recorded) -> Recorded {
    let mut recorded = recorded.clone();
    recorded.observation.outcome = Outcome::NotProbed {
        fault: OwnFault::PeerUnavailable,
    };
    recorded
}
