//! State of the engine, grouped by owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{EventTime, Front, Round, ServiceKey, TargetId, TtlEvidence, Vantage};

use super::{
    answer_baselines::AnswerBaselines,
    conclusion::{Suspicion, TentativeCause},
    expired_evidence::HealthyRounds,
    negative_cache::NegativeUntil,
    related_subjects::RelatedEvidence,
    withheld_echoes::WithheldEchoes,
};
use crate::{
    evidence::{
        attribution::RestartTimes,
        block::CellBlock,
        fold::RoundFold,
        latency::LatencyBaseline,
        resolvers::ResolverHistory,
        round_ring::RoundRing,
        rounds::OpenRounds,
        routes::Routes,
        stalls::StallHistory,
        weights::{ONE_PROBE, to_probes},
    },
    findings::{Hazard, ObservedFacts},
    ids::{NameIx, NodeIx},
    inference::{
        change_detectors::ChangeDetectors,
        judgement_unit::JudgementUnit,
        likelihood::{Likelihood, RateGrid},
        prior::PriorFact,
    },
    matrix::MatrixVersion,
    regions::{
        Region,
        paths::{MeshNodes, QuestionsPerLookup, UnhealthyNodes},
    },
    settings::Settings,
    topology::{EndpointWithdrawals, Topology, former_pods::FormerPods},
    view::Investigation,
};

/// A front and the Service behind it, as far as either is known.
pub(super) type ServedFront = (Option<Front>, Option<ServiceKey>);

/// What the cluster publishes, and data derived from it.
#[derive(Debug)]
pub(super) struct ClusterState {
    pub(super) topology: Arc<Topology>,
    /// Since when the source of the topology has been unreadable.
    pub(super) unreadable_since: Option<EventTime>,
    /// Vantages whose observations count.
    pub(super) known_vantages: BTreeSet<Vantage>,
    pub(super) nodes: Arc<MeshNodes>,
    pub(super) routes: Routes,
    /// Hosts behind each Service port.
    pub(super) hosts: BTreeMap<(ServiceKey, u16), Vec<TargetId>>,
    pub(super) former_pods: FormerPods,
    /// Services with an endpoint whose node left the cluster, and when it left.
    pub(super) orphans: BTreeMap<ServiceKey, EventTime>,
    pub(super) withdrawals: EndpointWithdrawals,
    /// Cached facts about causes from the topology, by front and Service.
    pub(super) prior_facts: BTreeMap<ServedFront, Arc<[PriorFact]>>,
}

impl ClusterState {
    pub(super) fn new(topology: Arc<Topology>) -> Self {
        Self {
            known_vantages: topology.vantages().into_iter().collect(),
            topology,
            unreadable_since: None,
            nodes: Arc::default(),
            routes: Routes::default(),
            hosts: BTreeMap::new(),
            former_pods: FormerPods::default(),
            orphans: BTreeMap::new(),
            withdrawals: EndpointWithdrawals::default(),
            prior_facts: BTreeMap::new(),
        }
    }
}

/// Observations and the counts made of them.
#[derive(Debug)]
pub(super) struct EvidenceState {
    pub(super) rounds: OpenRounds,
    pub(super) blocks: BTreeMap<CellBlock, RoundRing>,
    /// Partial folds of open rounds.
    pub(super) folds: BTreeMap<Round, RoundFold>,
    pub(super) restart_times: RestartTimes,
    pub(super) latency: LatencyBaseline,
    pub(super) resolvers: ResolverHistory,
    pub(super) ttl: BTreeMap<(IpAddr, Vantage), TtlEvidence>,
    pub(super) stalls: StallHistory,
    /// Number of node addresses that any client connected to.
    pub(super) visited_node_fronts: usize,
}

impl EvidenceState {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            rounds: OpenRounds::new(settings),
            blocks: BTreeMap::new(),
            folds: BTreeMap::new(),
            restart_times: BTreeMap::new(),
            latency: LatencyBaseline::default(),
            resolvers: ResolverHistory::default(),
            ttl: BTreeMap::new(),
            stalls: StallHistory::default(),
            visited_node_fronts: 0,
        }
    }
}

/// What has ever worked, and the usual answers of targets.
#[derive(Debug, Default)]
pub(super) struct TargetHistory {
    /// Blocks in which any probe ever succeeded.
    pub(super) worked_blocks: BTreeSet<CellBlock>,
    pub(super) resolved_names: BTreeSet<NameIx>,
    pub(super) negative_until: NegativeUntil,
    /// Nodes whose prober ever answered another prober's echo.
    pub(super) answering_nodes: BTreeSet<NodeIx>,
    pub(super) answers: AnswerBaselines,
}

/// Presence of the probers.
#[derive(Debug, Default)]
pub(super) struct ProberPresence {
    /// The last round in which the prober of a node was present.
    pub(super) present: BTreeMap<NodeIx, Round>,
    /// Nodes that were found dead since then.
    pub(super) dead: BTreeSet<NodeIx>,
    /// Nodes whose prober answers, or answered, others while its reports do not arrive.
    unheard: BTreeMap<NodeIx, UnheardRounds>,
    /// Rounds in a row in which the aggregator heard from its own node only.
    alone: u32,
    /// The last round of such an isolation that lasted long enough to be a fact.
    last_alone: Option<Round>,
    /// Echoes to probers that neither answer nor report.
    pub(super) withheld: WithheldEchoes,
}

/// Rounds in which a prober answered others, by whether its reports arrived.
#[derive(Debug, Clone, Copy, Default)]
struct UnheardRounds {
    unheard: u32,
    /// Since the last one without a report.
    heard: u32,
    /// The last round of a silence that lasted long enough to be a fact.
    last_silent: Option<Round>,
}

/// Rounds without reports of a prober that answers others, from which its silence is a fact: a report may be late.
const MIN_UNHEARD_ROUNDS: u32 = 2;
/// Rounds with reports after which it is none any more: of many lost reports, one gets through.
const MIN_HEARD_ROUNDS: u32 = 2;

impl ProberPresence {
    /// Counts a round for a prober: whether its reports arrived, or `None` if it does not answer others either. Returns whether
    /// its silence has just become a fact.
    pub(super) fn count_unheard(&mut self, node: NodeIx, heard: Option<bool>, round: Round) -> bool {
        match (heard, self.unheard.get_mut(&node)) {
            (Some(false), _) => {
                let rounds = self.unheard.entry(node).or_default();
                rounds.unheard = rounds.unheard.saturating_add(1);
                rounds.heard = 0;
                if rounds.unheard >= MIN_UNHEARD_ROUNDS {
                    rounds.last_silent = Some(round);
                }
                return rounds.unheard == MIN_UNHEARD_ROUNDS;
            }
            (Some(true), Some(rounds)) if rounds.heard + 1 < MIN_HEARD_ROUNDS => rounds.heard += 1,
            (Some(true), Some(rounds)) if rounds.last_silent.is_some() => rounds.unheard = 0,
            (Some(true) | None, _) => {
                self.unheard.remove(&node);
            }
        }
        false
    }

    /// Counts a round in which the aggregator heard from its own node only, or not.
    pub(super) fn count_alone(&mut self, is_alone: bool, round: Round) {
        self.alone = if is_alone { self.alone.saturating_add(1) } else { 0 };
        if self.alone >= MIN_UNHEARD_ROUNDS {
            self.last_alone = Some(round);
        }
    }

    /// Returns for how many rounds in a row the aggregator has heard from its own node only.
    pub(super) const fn alone_rounds(&self) -> u32 {
        self.alone
    }

    /// Reports whether the aggregator hears from its own node only, or did so in a round since `start`: with whether it still
    /// does.
    pub(super) fn alone_since(&self, start: Round) -> Option<bool> {
        let is_alone = self.alone >= MIN_UNHEARD_ROUNDS;
        let was_alone = self.last_alone.is_some_and(|last| last >= start);
        (is_alone || was_alone).then_some(is_alone)
    }

    /// Returns the nodes whose prober answers others while its reports do not arrive, or did so in a round since `start`: what
    /// failed in the silence still has the cause of the silence after it. Each with whether it is still silent.
    pub(super) fn unheard_nodes(&self, start: Round) -> Vec<(NodeIx, bool)> {
        let states = self.unheard.iter().map(|(node, rounds)| {
            let is_silent = rounds.unheard >= MIN_UNHEARD_ROUNDS;
            let was_silent = rounds.last_silent.is_some_and(|last| last >= start);
            (*node, is_silent, was_silent)
        });
        let unheard = states.filter(|(_, is_silent, was_silent)| *is_silent || *was_silent);
        unheard.map(|(node, is_silent, _)| (node, is_silent)).collect()
    }
}

/// The subjects, and the last conclusion about each.
#[derive(Debug)]
pub(super) struct JudgementState {
    pub(super) units: BTreeMap<JudgementUnit, UnitState>,
    pub(super) investigating: BTreeMap<JudgementUnit, Investigation>,
    /// The tentative cause of each subject under investigation that had no verdict at its last judgement.
    pub(super) tentative_causes: BTreeMap<JudgementUnit, Option<TentativeCause>>,
    /// The number of questions per lookup that fits the lookups best.
    pub(super) questions: QuestionsPerLookup,
    /// Regions that a subject suspects and has not named.
    pub(super) pending: BTreeMap<JudgementUnit, BTreeMap<Region, Suspicion>>,
    /// Subjects already reported as unexplained.
    pub(super) unexplained: BTreeSet<JudgementUnit>,
    pub(super) likelihoods: BTreeMap<RateGrid, Likelihood>,
    pub(super) related: RelatedEvidence,
}

impl JudgementState {
    pub(super) fn new() -> Self {
        Self {
            units: BTreeMap::new(),
            investigating: BTreeMap::new(),
            tentative_causes: BTreeMap::new(),
            questions: QuestionsPerLookup::default(),
            pending: BTreeMap::new(),
            unexplained: BTreeSet::new(),
            likelihoods: BTreeMap::new(),
            related: RelatedEvidence::default(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct UnitState {
    pub(super) detectors: ChangeDetectors,
    /// Evidence before this round belongs to a fault that is over.
    pub(super) evidence_floor: Option<Round>,
    pub(super) healthy_rounds: HealthyRounds,
    /// Since when a verdict waits for another subject.
    pub(super) held_since: Option<EventTime>,
    /// The first round since which the subject has had a finding that must hold for longer before it is named.
    pub(super) doubtful_since: Option<Round>,
    pub(super) background: BackgroundRates,
    /// The same as of the last round in which nothing failed and no change was suspected: a fault that lasts is not its own
    /// background.
    pub(super) background_at_rest: BackgroundRates,
    /// What fits the subject's evidence best if a balancer forwards its connections.
    pub(super) unhealthy_nodes: UnhealthyNodes,
}

impl UnitState {
    /// Returns the first round from `start` on whose evidence does not belong to a fault that is over.
    pub(super) fn evidence_from(&self, start: Round) -> Round {
        self.evidence_floor.map_or(start, |floor| floor.max(start))
    }
}

/// Failure rate of a subject while nothing is wrong with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BackgroundRates {
    failures: u64,
    probes: u64,
}

/// Probes needed before a subject's own background rate is used, and the number above which both sums are halved.
const MIN_BACKGROUND_PROBES: u64 = 2_000 * ONE_PROBE;
const MAX_BACKGROUND_PROBES: u64 = 200_000 * ONE_PROBE;

impl BackgroundRates {
    pub(super) fn learn(&mut self, failures: u64, probes: u64) {
        self.failures += failures;
        self.probes += probes;
        if self.probes > MAX_BACKGROUND_PROBES {
            self.failures /= 2;
            self.probes /= 2;
        }
    }

    /// Returns the measured rate, once there are enough probes.
    pub(super) fn rate(self) -> Option<f64> {
        (self.probes >= MIN_BACKGROUND_PROBES).then(|| to_probes(self.failures) / to_probes(self.probes))
    }

    /// Returns the median of the rates of several subjects, once they have enough probes together. A few noisy subjects do not
    /// change it.
    pub(super) fn median(all: impl Iterator<Item = Self>) -> Option<f64> {
        let mut rates: Vec<(f64, u64)> = all
            .filter(|rates| rates.probes > 0)
            .map(|rates| (to_probes(rates.failures) / to_probes(rates.probes), rates.probes))
            .collect();
        let total: u64 = rates.iter().map(|(_, probes)| probes).sum();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0;
        let half = rates.iter().find(|(_, probes)| {
            sum += probes;
            2 * sum >= total
        });
        half.map(|(rate, _)| *rate)
            .filter(|_| total >= MIN_BACKGROUND_PROBES)
    }
}

/// Hazards, and the facts they are derived from.
#[derive(Debug, Default)]
pub(super) struct HazardState {
    /// Facts about hazards from probes, as of the last judged round or topology change.
    pub(super) facts: ObservedFacts,
    /// State of the matrix when `facts` was derived from it.
    pub(super) matrix_version: MatrixVersion,
    pub(super) hazards: Vec<Hazard>,
}
