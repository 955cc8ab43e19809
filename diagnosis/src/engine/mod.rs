//! The engine: topology and observations in, a view out.

mod answer_baselines;
mod checkpoint;
mod conclusion;
mod consequences;
mod departed_subjects;
mod evidence_window;
mod expired_evidence;
mod folding;
mod interval_change;
mod judgement;
mod known_causes;
mod negative_cache;
mod node_evidence;
mod observation_ingest;
mod on_demand;
mod orphaned_endpoints;
mod prober_presence;
mod related_subjects;
mod round_judgement;
mod state;
mod subject_paths;
mod subjects;
mod topology_change;
mod unreadable_cluster;
mod view;
mod withheld_echoes;
mod workload;

pub(crate) use conclusion::TentativeCause;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_model::{EventTime, Placement, Vantage};

use self::{
    checkpoint::ResumePoint,
    state::{ClusterState, EvidenceState, HazardState, JudgementState, ProberPresence, TargetHistory},
};
use crate::{
    evidence::{ledger::OutcomeSplit, routes::Routes},
    findings::{Findings, ObservedFacts, hazards},
    ids::NameRegistry,
    incident::{IncidentEvent, IncidentLog},
    matrix::Matrix,
    regions::paths::MeshNodes,
    requests::OutstandingRequests,
    settings::Settings,
    topology::Topology,
    view::Counters,
};

/// Result of taking in one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationResult {
    /// Judged with its round.
    Accepted {
        /// Placement of client and entry.
        placement: Placement,
    },
    /// Its round was already judged, or the same report was counted before; kept as history only.
    Late,
    /// A fault of the prober itself; no evidence about the target.
    ProberFault,
    /// The topology does not know the target or the vantage.
    Unknown,
    /// The times are impossible.
    Implausible,
    /// The vantage has sent more than its share.
    OverBudget,
}

/// Rules of judgement, which differ between the live mesh, on-demand runs and replays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgementRules {
    /// How the outcome of a probe is shared among subjects.
    pub(crate) outcome_split: OutcomeSplit,
    /// A subject that never worked opens no incident.
    pub(crate) require_prior_success: bool,
    /// Rounds for which an uncertain finding must hold before it is named.
    pub(crate) confirming_rounds: i64,
    /// The Service implementation is known and is not kube-proxy.
    pub(crate) non_kube_proxy: bool,
    /// A client keeps its endpoint (`sessionAffinity: ClientIP`).
    pub(crate) client_ip_affinity: bool,
}

impl Default for JudgementRules {
    fn default() -> Self {
        Self {
            outcome_split: OutcomeSplit::PerPhase,
            require_prior_success: true,
            confirming_rounds: 1,
            non_kube_proxy: false,
            client_ip_affinity: false,
        }
    }
}

/// Rounds, cells, verdicts and incidents of one mesh.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    rules: JudgementRules,
    /// Interned names.
    registry: NameRegistry,
    cluster: ClusterState,
    evidence: EvidenceState,
    history: TargetHistory,
    presence: ProberPresence,
    judgement: JudgementState,
    incidents: IncidentLog,
    outstanding_requests: OutstandingRequests,
    matrix: Matrix,
    findings: Findings,
    hazards: HazardState,
    counters: Counters,
    /// Where the engine continued from another process's checkpoint.
    resume_point: Option<ResumePoint>,
}

impl Engine {
    /// Creates an engine without any evidence.
    #[must_use]
    pub fn new(settings: Settings, topology: Arc<Topology>) -> Self {
        Self::with_rules(settings, topology, JudgementRules::default())
    }

    /// Creates an engine for an on-demand run, which also names causes of subjects that never worked, and ends before a further
    /// round could confirm a finding.
    #[must_use]
    pub fn on_demand(settings: Settings, topology: Arc<Topology>) -> Self {
        let rules = JudgementRules {
            require_prior_success: false,
            confirming_rounds: 0,
            ..JudgementRules::default()
        };
        Self::with_rules(settings, topology, rules)
    }

    pub(crate) fn with_rules(settings: Settings, topology: Arc<Topology>, rules: JudgementRules) -> Self {
        let mut engine = Self {
            settings,
            rules,
            registry: NameRegistry::default(),
            cluster: ClusterState::new(topology),
            evidence: EvidenceState::new(settings),
            history: TargetHistory::default(),
            presence: ProberPresence::default(),
            judgement: JudgementState::new(),
            incidents: IncidentLog::default(),
            outstanding_requests: OutstandingRequests::default(),
            matrix: Matrix::default(),
            findings: Findings::default(),
            hazards: HazardState::default(),
            counters: Counters::default(),
            resume_point: None,
        };
        engine.intern_names();
        let topology = Arc::clone(&engine.cluster.topology);
        engine.findings.set_topology(&topology);
        engine.update_matrix(&topology);
        engine.update_hazards(EventTime(i64::MIN), true);
        engine
    }

    /// Interns the names of the topology in their own order, before observations add theirs.
    fn intern_names(&mut self) {
        let topology = Arc::clone(&self.cluster.topology);
        self.cluster.nodes = Arc::new(MeshNodes::new(
            &topology,
            &mut self.registry,
            &self.cluster.known_vantages,
        ));
        self.cluster.routes = Routes::new(&topology, &mut self.registry);
        self.cluster.prior_facts.clear();
        self.cluster.hosts.clear();
        for (target, placed) in topology.targets() {
            if let Some(entry) = &placed.entry {
                self.cluster
                    .hosts
                    .entry(entry.clone())
                    .or_default()
                    .push(target.clone());
            }
        }
    }

    /// Recomputes the hazards from the topology and from what probes have shown so far.
    fn update_hazards(&mut self, now: EventTime, new_topology: bool) {
        let pulse = self.matrix.version(now, self.settings);
        let mut facts = if new_topology || pulse != self.hazards.matrix_version {
            ObservedFacts::of(
                &self.cluster.topology,
                &self.registry,
                self.matrix.latest_outcomes(now, self.settings),
            )
        } else {
            ObservedFacts {
                published: BTreeMap::new(),
                ..self.hazards.facts.clone()
            }
        };
        self.hazards.matrix_version = pulse;
        self.findings.add_facts(&mut facts, &self.registry);
        if new_topology || facts != self.hazards.facts {
            self.hazards.hazards = hazards(&self.cluster.topology, &facts);
            self.hazards.facts = facts;
        }
    }

    /// Records that a vantage has reported everything it started before `complete`. A round may close early once
    /// every reporting vantage is past its end.
    pub fn record_progress(&mut self, vantage: &Vantage, complete: EventTime) {
        if let Some(vantage) = self.registry.vantages.get(vantage) {
            self.evidence.rounds.progress(vantage, complete);
            self.fold_complete_client(vantage);
        }
    }

    /// Events of the round that was judged last.
    pub(crate) fn events(&self) -> &[IncidentEvent] {
        self.incidents.events()
    }
}

fn is_known(known: &BTreeSet<Vantage>, topology: &Topology, vantage: &Vantage) -> bool {
    known.contains(vantage)
        || vantage
            .node()
            .is_some_and(|node| topology.nodes().contains_key(node))
}
