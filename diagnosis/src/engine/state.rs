//! What an engine holds, by owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{EventTime, Front, Round, ServiceKey, TargetId, TtlEvidence, Vantage};

use super::{
    conclusion::Leaning, expired_evidence::Healed, negative_cache::NegativeUntil, related_subjects::Beside,
    usual_answers::Answers,
};
use crate::{
    evidence::{
        block::Block,
        booking::Restarted,
        cells::Ring,
        fold::Fold,
        latency::Pace,
        resolvers::Resolvers,
        rounds::Rounds,
        routes::Routes,
        weights::{ONE, probes},
    },
    findings::{Facts, Hazard},
    ids::{NameIx, NodeIx},
    inference::{
        judgement::Streams,
        likelihood::{Background, Grid, Likelihood},
        prior::PriorFact,
        unit::Unit,
    },
    matrix::Pulse,
    regions::paths::Nodes,
    settings::Settings,
    topology::{Topology, Withdrawals, former::FormerPods},
    view::Investigation,
};

/// A front and the Service behind it, as far as either is known.
pub(super) type ServedFront = (Option<Front>, Option<ServiceKey>);

/// What the cluster publishes, and what follows from it.
#[derive(Debug)]
pub(super) struct ClusterState {
    pub(super) topology: Arc<Topology>,
    /// Since when its source could not be read, while that is so.
    pub(super) unread: Option<EventTime>,
    /// Vantages whose observations count.
    pub(super) known: BTreeSet<Vantage>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) routes: Routes,
    /// Hosts behind each port of each Service.
    pub(super) hosts: BTreeMap<(ServiceKey, u16), Vec<TargetId>>,
    pub(super) former: FormerPods,
    /// Services with an endpoint whose node left the cluster, and when.
    pub(super) orphans: BTreeMap<ServiceKey, EventTime>,
    pub(super) withdrawals: Withdrawals,
    /// What the topology says of causes, by front and Service, as far as it was asked for.
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
            withdrawals: Withdrawals::default(),
            prior_facts: BTreeMap::new(),
        }
    }
}

/// What was observed, and what is counted of it.
#[derive(Debug)]
pub(super) struct EvidenceState {
    pub(super) rounds: Rounds,
    pub(super) blocks: BTreeMap<Block, Ring>,
    /// What is folded of rounds that are open.
    pub(super) folds: BTreeMap<Round, Fold>,
    pub(super) restarted: Restarted,
    pub(super) pace: Pace,
    pub(super) resolvers: Resolvers,
    pub(super) ttl: BTreeMap<(IpAddr, Vantage), TtlEvidence>,
    /// Addresses of nodes that anybody went to.
    pub(super) met: usize,
}

impl EvidenceState {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            rounds: Rounds::new(settings),
            blocks: BTreeMap::new(),
            folds: BTreeMap::new(),
            restarted: BTreeMap::new(),
            pace: Pace::default(),
            resolvers: Resolvers::default(),
            ttl: BTreeMap::new(),
            met: 0,
        }
    }
}

/// What ever worked, and what it answers while it does.
#[derive(Debug, Default)]
pub(super) struct Experience {
    /// Blocks in which something once succeeded.
    pub(super) worked: BTreeSet<Block>,
    pub(super) resolved: BTreeSet<NameIx>,
    pub(super) negative_until: NegativeUntil,
    /// Nodes whose prober ever answered another's echo.
    pub(super) answered: BTreeSet<NodeIx>,
    pub(super) answers: Answers,
}

/// Which probers are there.
#[derive(Debug, Default)]
pub(super) struct Attendance {
    /// The last round in which the prober of a node was there.
    pub(super) present: BTreeMap<NodeIx, Round>,
    /// Nodes that were found dead since then.
    pub(super) dead: BTreeSet<NodeIx>,
}

/// The subjects, and what was last concluded of each.
#[derive(Debug)]
pub(super) struct JudgementState {
    pub(super) units: BTreeMap<Unit, UnitState>,
    pub(super) investigating: BTreeMap<Unit, Investigation>,
    /// What those among them lean to that had no verdict at their last judgement.
    pub(super) leanings: BTreeMap<Unit, Option<Leaning>>,
    /// Said to be unexplained already.
    pub(super) unexplained: BTreeSet<Unit>,
    pub(super) likelihoods: BTreeMap<Grid, Likelihood>,
    pub(super) beside: Beside,
}

impl JudgementState {
    pub(super) fn new() -> Self {
        Self {
            units: BTreeMap::new(),
            investigating: BTreeMap::new(),
            leanings: BTreeMap::new(),
            unexplained: BTreeSet::new(),
            likelihoods: BTreeMap::new(),
            beside: Beside::new(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct UnitState {
    pub(super) streams: Streams,
    /// Evidence before this round belongs to something that is over.
    pub(super) floor: Option<Round>,
    pub(super) healed: Healed,
    pub(super) quiet: Quiet,
}

/// How often a subject fails while nothing is wrong with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Quiet {
    failures: u64,
    probes: u64,
}

/// Probes before a subject's own background is believed, and those after which the older half is forgotten.
const QUIET_ENOUGH: u64 = 2_000 * ONE;
const QUIET_MOST: u64 = 200_000 * ONE;

impl Quiet {
    pub(super) fn learn(&mut self, failures: u64, probes: u64) {
        self.failures += failures;
        self.probes += probes;
        if self.probes > QUIET_MOST {
            self.failures /= 2;
            self.probes /= 2;
        }
    }

    pub(super) fn background(self) -> Background {
        if self.probes < QUIET_ENOUGH {
            Background::default()
        } else {
            Background::of(probes(self.failures) / probes(self.probes))
        }
    }
}

/// Who would fail though nobody does yet, and what that rests on.
#[derive(Debug, Default)]
pub(super) struct HazardState {
    /// What probes have shown that bears on hazards, as of the last judged round or change of topology.
    pub(super) facts: Facts,
    /// The matrix as it was when these were taken from it.
    pub(super) pulse: Pulse,
    pub(super) found: Vec<Hazard>,
}
