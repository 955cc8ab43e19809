//! State of the engine, grouped by owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{EventTime, Front, Round, ServiceKey, TargetId, TtlEvidence, Vantage};

use super::{
    conclusion::TentativeCause, expired_evidence::HealthyRounds, negative_cache::NegativeUntil,
    related_subjects::RelatedEvidence, usual_answers::AnswerBaselines,
};
use crate::{
    evidence::{
        attribution::RestartTimes,
        block::CellBlock,
        cells::RoundRing,
        fold::RoundFold,
        latency::LatencyBaseline,
        resolvers::ResolverHistory,
        rounds::OpenRounds,
        routes::Routes,
        weights::{ONE, probes},
    },
    findings::{Hazard, ObservedFacts},
    ids::{NameIx, NodeIx},
    inference::{
        judgement::ChangeDetectors,
        likelihood::{BackgroundRate, Likelihood, RateGrid},
        prior::PriorFact,
        unit::JudgementUnit,
    },
    matrix::ChangeDetector,
    regions::paths::MeshNodes,
    settings::Settings,
    topology::{EndpointWithdrawals, Topology, former::FormerPods},
    view::Investigation,
};

/// A front and the Service behind it, as far as either is known.
pub(super) type ServedFront = (Option<Front>, Option<ServiceKey>);

/// What the cluster publishes, and data derived from it.
#[derive(Debug)]
pub(super) struct ClusterState {
    pub(super) topology: Arc<Topology>,
    /// Since when the source of the topology has been unreadable.
    pub(super) unread: Option<EventTime>,
    /// Vantages whose observations count.
    pub(super) known: BTreeSet<Vantage>,
    pub(super) nodes: Arc<MeshNodes>,
    pub(super) routes: Routes,
    /// Hosts behind each Service port.
    pub(super) hosts: BTreeMap<(ServiceKey, u16), Vec<TargetId>>,
    pub(super) former: FormerPods,
    /// Services with an endpoint whose node left the cluster, and when it left.
    pub(super) orphans: BTreeMap<ServiceKey, EventTime>,
    pub(super) withdrawals: EndpointWithdrawals,
    /// Cached facts about causes from the topology, by front and Service.
    pub(super) prior_facts: BTreeMap<ServedFront, Arc<[PriorFact]>>,
}

impl ClusterState {
    pub(super) fn new(topology: Arc<Topology>) -> Self {
        Self {
            known: topology.vantages().into_iter().collect(),
            topology,
            unread: None,
            nodes: Arc::default(),
            routes: Routes::default(),
            hosts: BTreeMap::new(),
            former: FormerPods::default(),
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
    pub(super) restarted: RestartTimes,
    pub(super) pace: LatencyBaseline,
    pub(super) resolvers: ResolverHistory,
    pub(super) ttl: BTreeMap<(IpAddr, Vantage), TtlEvidence>,
    /// Number of node addresses that any client connected to.
    pub(super) met: usize,
}

impl EvidenceState {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            rounds: OpenRounds::new(settings),
            blocks: BTreeMap::new(),
            folds: BTreeMap::new(),
            restarted: BTreeMap::new(),
            pace: LatencyBaseline::default(),
            resolvers: ResolverHistory::default(),
            ttl: BTreeMap::new(),
            met: 0,
        }
    }
}

/// What has ever worked, and the usual answers of targets.
#[derive(Debug, Default)]
pub(super) struct TargetExperience {
    /// Blocks in which any probe ever succeeded.
    pub(super) worked: BTreeSet<CellBlock>,
    pub(super) resolved: BTreeSet<NameIx>,
    pub(super) negative_until: NegativeUntil,
    /// Nodes whose prober ever answered another prober's echo.
    pub(super) answered: BTreeSet<NodeIx>,
    pub(super) answers: AnswerBaselines,
}

/// Presence of the probers.
#[derive(Debug, Default)]
pub(super) struct ProberPresence {
    /// The last round in which the prober of a node was present.
    pub(super) present: BTreeMap<NodeIx, Round>,
    /// Nodes that were found dead since then.
    pub(super) dead: BTreeSet<NodeIx>,
}

/// The subjects, and the last conclusion about each.
#[derive(Debug)]
pub(super) struct JudgementState {
    pub(super) units: BTreeMap<JudgementUnit, UnitState>,
    pub(super) investigating: BTreeMap<JudgementUnit, Investigation>,
    /// The tentative cause of each subject under investigation that had no verdict at its last judgement.
    pub(super) leanings: BTreeMap<JudgementUnit, Option<TentativeCause>>,
    /// Subjects already reported as unexplained.
    pub(super) unexplained: BTreeSet<JudgementUnit>,
    pub(super) likelihoods: BTreeMap<RateGrid, Likelihood>,
    pub(super) beside: RelatedEvidence,
}

impl JudgementState {
    pub(super) fn new() -> Self {
        Self {
            units: BTreeMap::new(),
            investigating: BTreeMap::new(),
            leanings: BTreeMap::new(),
            unexplained: BTreeSet::new(),
            likelihoods: BTreeMap::new(),
            beside: RelatedEvidence::new(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct UnitState {
    pub(super) streams: ChangeDetectors,
    /// Evidence before this round belongs to a fault that is over.
    pub(super) floor: Option<Round>,
    pub(super) healed: HealthyRounds,
    pub(super) quiet: BackgroundRates,
}

/// Failure rate of a subject while nothing is wrong with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BackgroundRates {
    failures: u64,
    probes: u64,
}

/// Probes needed before a subject's own background rate is used, and the number above which both sums are halved.
const QUIET_ENOUGH: u64 = 2_000 * ONE;
const QUIET_MOST: u64 = 200_000 * ONE;

impl BackgroundRates {
    pub(super) fn learn(&mut self, failures: u64, probes: u64) {
        self.failures += failures;
        self.probes += probes;
        if self.probes > QUIET_MOST {
            self.failures /= 2;
            self.probes /= 2;
        }
    }

    pub(super) fn background(self) -> BackgroundRate {
        if self.probes < QUIET_ENOUGH {
            BackgroundRate::default()
        } else {
            BackgroundRate::of(probes(self.failures) / probes(self.probes))
        }
    }
}

/// Hazards, and the facts they are derived from.
#[derive(Debug, Default)]
pub(super) struct HazardState {
    /// Facts about hazards from probes, as of the last judged round or topology change.
    pub(super) facts: ObservedFacts,
    /// State of the matrix when `facts` was derived from it.
    pub(super) pulse: ChangeDetector,
    pub(super) found: Vec<Hazard>,
}
