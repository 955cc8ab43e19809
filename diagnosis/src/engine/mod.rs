//! The engine: topology and observations in, a view out.

mod answer_baselines;
mod checkpoint;
mod conclusion;
mod departed_subjects;
mod expired_evidence;
mod folding;
mod interval_change;
mod judgement;
mod negative_cache;
mod node_evidence;
mod on_demand;
mod orphaned_endpoints;
mod prober_presence;
mod related_subjects;
mod state;
mod subjects;
mod topology_change;
mod unreadable_cluster;

pub(crate) use conclusion::TentativeCause;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_model::{Channel, EventTime, Outcome, Placement, Recorded, Round, Vantage};

use self::{
    checkpoint::ResumePoint,
    state::{ClusterState, EvidenceState, HazardState, JudgementState, ProberPresence, TargetHistory},
};
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{ClosedCells, Destination},
        ledger::OutcomeSplit,
        rounds::{OpenRounds, RefusalReason},
        routes::{Routes, front_of},
        row::Row,
    },
    findings::{Findings, ObservedFacts, hazards},
    ids::{NameRegistry, VantageIx},
    incident::{IncidentEvent, IncidentLog, outcomes_known_at},
    matrix::{CellPosition, Matrix, not_excluded_by_mesh},
    regions::paths::MeshNodes,
    requests::{OutstandingRequests, is_separate},
    settings::Settings,
    topology::Topology,
    view::{Counters, View},
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
}

/// Rules of judgement, which differ between the live mesh, on-demand runs and replays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgementRules {
    /// How the outcome of a probe is shared among subjects.
    pub(crate) outcome_split: OutcomeSplit,
    /// A subject that never worked opens no incident.
    pub(crate) require_prior_success: bool,
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

    /// Creates an engine for an on-demand run, which also names causes of subjects that never worked.
    #[must_use]
    pub fn on_demand(settings: Settings, topology: Arc<Topology>) -> Self {
        let rules = JudgementRules {
            require_prior_success: false,
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

    /// Records an observation in its round.
    pub fn observe(&mut self, recorded: &Recorded) -> ObservationResult {
        self.observe_and_reclassify(recorded).0
    }

    /// Like [`Self::observe`], but also returns the observation as it is judged if that differs from what the prober
    /// saw: a failure caused by an absent prober becomes a probe that was not made, and an answer worse than the
    /// baseline becomes a failure.
    pub fn observe_and_reclassify(&mut self, recorded: &Recorded) -> (ObservationResult, Option<Recorded>) {
        let otherwise = if self.is_prober_fault(recorded) {
            Some(prober_presence::as_not_made(recorded))
        } else {
            self.deviating_answer(recorded)
        };
        let booked = self.ingest(otherwise.as_ref().unwrap_or(recorded));
        if matches!(booked, ObservationResult::Accepted { .. }) {
            self.record_answer(recorded);
        }
        (booked, otherwise)
    }

    fn ingest(&mut self, recorded: &Recorded) -> ObservationResult {
        let observation = &recorded.observation;
        let known_target = observation.channel == Channel::Mesh
            || self.cluster.topology.targets().contains_key(&observation.target)
            || self.cluster.topology.is_separate(&observation.target);
        if !known_target
            || !is_known(
                &self.cluster.known_vantages,
                &self.cluster.topology,
                &recorded.vantage,
            )
        {
            self.counters.unknown += 1;
            return ObservationResult::Unknown;
        }
        // Vantages of the topology have ids already; others get one with their first report.
        let vantage = self.registry.vantages.intern(&recorded.vantage);
        let (world, routes) = (&self.registry, &self.cluster.routes);
        let row = || Row::of(recorded, vantage, world, routes);
        match self.evidence.rounds.add(vantage, recorded, row) {
            Err(RefusalReason::Implausible) => {
                self.counters.implausible += 1;
                return ObservationResult::Implausible;
            }
            Err(RefusalReason::Late) => {
                self.counters.late += 1;
                return ObservationResult::Late;
            }
            Err(RefusalReason::Duplicate) => return ObservationResult::Late,
            Ok(()) => {}
        }
        if !self.cluster.known_vantages.contains(&recorded.vantage) {
            // A second prober of a known node (for example on its host network) counts from its first report on.
            self.cluster.known_vantages.insert(recorded.vantage.clone());
            let node = recorded
                .vantage
                .node()
                .map(|name| self.registry.nodes.intern(name));
            Arc::make_mut(&mut self.cluster.nodes).add_client(vantage, node);
        }
        let front = front_of(&self.cluster.topology, observation);
        // Auxiliary probes (larger echoes, DNS over TCP) do not show what a user would meet, and a requested name
        // lookup says nothing about the host behind the name.
        let beside = observation
            .assignment
            .as_ref()
            .is_some_and(|id| is_separate(id) || (id.is_requested() && observation.channel == Channel::Dns));
        let asked = (&recorded.vantage, front.as_ref(), observation.entry.as_ref());
        let placement =
            self.cluster
                .former_pods
                .placement(&self.cluster.topology, asked, observation.started);
        if !beside {
            let place = CellPosition {
                vantage,
                target: self.registry.targets.get(&observation.target),
                front,
                placement,
                stale: self.is_stale(observation, front),
            };
            self.matrix.add(recorded, place, self.settings);
        }
        if let Some(ttl) = observation.ttl {
            self.evidence
                .ttl
                .insert((ttl.address, recorded.vantage.clone()), ttl);
        }
        if matches!(observation.outcome, Outcome::NotProbed { .. }) {
            self.counters.prober_faults += 1;
            return ObservationResult::ProberFault;
        }
        self.counters.accepted += 1;
        ObservationResult::Accepted { placement }
    }

    /// Records that a vantage has reported everything it started before `complete`. A round may close early once
    /// every reporting vantage is past its end.
    pub fn record_progress(&mut self, vantage: &Vantage, complete: EventTime) {
        if let Some(vantage) = self.registry.vantages.get(vantage) {
            self.evidence.rounds.progress(vantage, complete);
            self.fold_complete_client(vantage);
        }
    }

    /// Closes and judges every round that is over at `now`. Returns whether any round was judged.
    pub fn advance(&mut self, now: EventTime) -> bool {
        let mut judged = false;
        while self.judge_next(now) {
            judged = true;
            // The round that is now the oldest may already be complete for some vantages.
            for vantage in self.evidence.rounds.pending_vantages() {
                self.fold_complete_client(vantage);
            }
        }
        judged
    }

    /// Closes and judges the next round that is over.
    pub(crate) fn judge_next(&mut self, now: EventTime) -> bool {
        let Some((round, waiting)) = self.evidence.rounds.close_next(now, &self.registry) else {
            return false;
        };
        self.incidents.begin_round(round);
        self.cluster.withdrawals.update(round, &self.cluster.topology);
        let mut rows = self.intern_rows(waiting);
        let mut fold = self.evidence.folds.remove(&round).unwrap_or_default();
        let at = outcomes_known_at(fold.last_outcome(round.end(self.settings.interval)), &rows);
        let names = (&self.cluster.routes, &self.registry);
        self.findings.add_rows(round, &mut rows, names.0, names.1);
        self.findings
            .judge(round, &self.cluster.topology, names, self.settings);
        self.evidence.resolvers.add_round(round, &rows);
        let asked = self
            .outstanding_requests
            .process_results(round, &mut rows, names, &fold);
        let clients: BTreeSet<VantageIx> = rows.iter().map(|row| row.client).chain(fold.clients()).collect();
        self.fold(&rows, &mut fold);
        let mut cells = fold.close();
        self.apply_presence(round, &clients, &mut cells);
        if asked.contains(&true) {
            let unasked = self.blocks_without_requests(&rows, &asked, &cells);
            self.outstanding_requests.record_without_requests(round, unasked);
        }
        let interval = self.settings.interval;
        let mut touched = BTreeSet::new();
        for (block, cells) in cells {
            if !block.slow {
                self.record_successes(&block, &cells, round.end(interval));
            }
            touched.extend(self.units_of(&block));
            self.evidence
                .blocks
                .entry(block)
                .or_default()
                .push(round, cells, interval);
        }
        self.evidence
            .restart_times
            .retain(|_, restarted| *restarted > round.end(interval));
        for unit in &touched {
            self.update_detectors(unit, round);
        }
        if self.was_judged(round) {
            self.judgement.related.clear();
            self.learn_answers(round);
            self.settle_requests(round, at);
            return true;
        }
        self.mark_unvisited(round, at);
        let (known, topology, world) = (
            &self.cluster.known_vantages,
            &self.cluster.topology,
            &self.registry,
        );
        let freed = self.incidents.close_healthy(at, |client| {
            // No vantage is known before the topology has been read.
            topology.nodes().is_empty() || is_known(known, topology, world.vantages.name(client))
        });
        for unit in freed {
            if let Some(state) = self.judgement.units.get_mut(&unit) {
                state.detectors.clear();
                state.healthy_rounds.clear();
                state.evidence_floor = Some(Round(round.0 + 1));
            }
        }
        self.evidence.visited_node_fronts = self.visited_node_fronts();
        for unit in &touched {
            self.judge_unit(unit, round, at);
        }
        self.judgement.related.clear();
        self.learn_answers(round);
        self.settle_requests(round, at);
        self.update_hazards(round.end(self.settings.interval), false);
        true
    }

    /// Events of the round that was judged last.
    pub(crate) fn events(&self) -> &[IncidentEvent] {
        self.incidents.events()
    }

    fn record_successes(&mut self, block: &CellBlock, cells: &ClosedCells, end: EventTime) {
        if cells.values().any(|c| c.probes > c.failures) {
            self.history.worked_blocks.insert(*block);
        }
        let succeeded = cells.iter().filter(|(_, counts)| counts.probes > counts.failures);
        let dests = succeeded.map(|(key, _)| key.dest);
        match block.kind {
            EvidenceKind::Mesh => self
                .history
                .answering_nodes
                .extend(dests.filter_map(|dest| match dest {
                    Destination::Peer(node) => Some(node),
                    _ => None,
                })),
            EvidenceKind::Dns => {
                for dest in dests {
                    if let Destination::Name(name) = dest
                        && self.history.resolved_names.insert(name)
                    {
                        self.record_first_answer(name, end);
                    }
                }
            }
            EvidenceKind::Vip(_) | EvidenceKind::Direct(..) | EvidenceKind::Target(_) => {}
        }
    }

    fn all_findings(&self) -> Vec<crate::findings::Finding> {
        let mut all = self.findings.list();
        all.extend(self.changed_answers());
        all.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// Returns the state at `now`.
    #[must_use]
    pub fn view(&self, now: EventTime) -> View {
        let world = &self.registry;
        let vantages = self
            .matrix
            .vantages(&self.cluster.known_vantages, world, now, self.settings);
        let silent: BTreeSet<&Vantage> = vantages
            .iter()
            .filter(|v| v.state != crate::view::VantageState::Reporting)
            .map(|v| &v.vantage)
            .collect();
        let incidents = self.incidents.list(|unit, clients| {
            let own = self.blocks_of(unit).0;
            let last = own
                .iter()
                .filter_map(|b| self.evidence.blocks.get(b)?.last())
                .max()?;
            let end = last.end(self.settings.interval);
            let all_silent = !clients.is_empty()
                && clients
                    .iter()
                    .all(|c| silent.contains(self.registry.vantages.name(*c)));
            (all_silent || now - end > OpenRounds::silence_timeout(self.settings))
                .then(|| " (no fresh evidence: the vantages that saw it are silent)".to_owned())
        });
        let not_excluded = not_excluded_by_mesh(&self.cluster.topology, &vantages);
        View {
            at: now,
            interval: self.settings.interval,
            last_judged_round: self.evidence.rounds.last_judged(),
            matrix: self.matrix.rows(
                &self.cluster.topology,
                (world, &self.cluster.routes, &self.history.answers.baselines),
                &vantages,
                now,
                self.settings,
            ),
            vantages,
            incidents,
            investigations: self.judgement.investigating.values().cloned().collect(),
            findings: self.all_findings(),
            hazards: self.hazards.hazards.clone(),
            not_excluded,
            names: self.findings.names(&self.cluster.topology, &self.registry),
            exposures: self.findings.exposures(&self.cluster.topology),
            forbidden: self.findings.forbidden(&self.cluster.topology),
            probe_requests: self.outstanding_requests.probe_requests().to_vec(),
            counters: self.counters,
        }
    }
}

fn is_known(known: &BTreeSet<Vantage>, topology: &Topology, vantage: &Vantage) -> bool {
    known.contains(vantage)
        || vantage
            .node()
            .is_some_and(|node| topology.nodes().contains_key(node))
}
