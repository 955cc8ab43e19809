//! The engine: topology and observations in, a view out.

mod checkpoint;
mod conclusion;
mod departures;
mod expired_evidence;
mod folding;
mod inquiry;
mod interval_change;
mod judgement;
mod negative_cache;
mod node_witnesses;
mod orphans;
mod presence;
mod related_subjects;
mod state;
mod subjects;
mod topology_change;
mod unreadable_cluster;
mod usual_answers;

pub(crate) use conclusion::TentativeCause;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_model::{Channel, EventTime, Outcome, Placement, Recorded, Round, Vantage};

use self::{
    checkpoint::ResumePoint,
    state::{ClusterState, EvidenceState, HazardState, JudgementState, ProberPresence, TargetExperience},
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
    incident::{Event, IncidentLog, known_at},
    matrix::{CellPosition, Matrix, by_mesh},
    regions::paths::MeshNodes,
    requests::{OutstandingRequests, is_aside},
    settings::Settings,
    topology::Topology,
    view::{Counters, View},
};

/// Result of taking in one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationResult {
    /// Judged with its round.
    Counted {
        /// Placement of client and entry.
        placement: Placement,
    },
    /// Its round was already judged, or the same report was counted before; kept as history only.
    Late,
    /// A fault of the prober itself; no evidence about the target.
    OwnFault,
    /// The topology does not know the target or the vantage.
    Unknown,
    /// The times are impossible.
    Implausible,
}

/// Rules of judgement, which differ between the live mesh, on-demand runs and replays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgementRules {
    /// How the outcome of a probe is shared among subjects.
    pub(crate) split: OutcomeSplit,
    /// A subject that never worked opens no incident.
    pub(crate) must_have_worked: bool,
    /// The Service implementation is known and is not kube-proxy.
    pub(crate) foreign_proxy: bool,
    /// A client keeps its endpoint (`sessionAffinity: ClientIP`).
    pub(crate) affinity: bool,
}

impl Default for JudgementRules {
    fn default() -> Self {
        Self {
            split: OutcomeSplit::Phases,
            must_have_worked: true,
            foreign_proxy: false,
            affinity: false,
        }
    }
}

/// Rounds, cells, verdicts and incidents of one mesh.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    rules: JudgementRules,
    /// Interned names.
    world: NameRegistry,
    cluster: ClusterState,
    evidence: EvidenceState,
    experience: TargetExperience,
    attendance: ProberPresence,
    judgement: JudgementState,
    incidents: IncidentLog,
    asking: OutstandingRequests,
    matrix: Matrix,
    findings: Findings,
    hazards: HazardState,
    counters: Counters,
    /// Where the engine continued from another process's checkpoint.
    resumed: Option<ResumePoint>,
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
            must_have_worked: false,
            ..JudgementRules::default()
        };
        Self::with_rules(settings, topology, rules)
    }

    pub(crate) fn with_rules(settings: Settings, topology: Arc<Topology>, rules: JudgementRules) -> Self {
        let mut engine = Self {
            settings,
            rules,
            world: NameRegistry::default(),
            cluster: ClusterState::new(topology),
            evidence: EvidenceState::new(settings),
            experience: TargetExperience::default(),
            attendance: ProberPresence::default(),
            judgement: JudgementState::new(),
            incidents: IncidentLog::default(),
            asking: OutstandingRequests::default(),
            matrix: Matrix::default(),
            findings: Findings::default(),
            hazards: HazardState::default(),
            counters: Counters::default(),
            resumed: None,
        };
        engine.learn_names();
        let topology = Arc::clone(&engine.cluster.topology);
        engine.findings.learn(&topology);
        engine.show(&topology);
        engine.look_ahead(EventTime(i64::MIN), true);
        engine
    }

    /// Interns the names of the topology in their own order, before observations add theirs.
    fn learn_names(&mut self) {
        let topology = Arc::clone(&self.cluster.topology);
        self.cluster.nodes = Arc::new(MeshNodes::new(&topology, &mut self.world, &self.cluster.known));
        self.cluster.routes = Routes::new(&topology, &mut self.world);
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
    fn look_ahead(&mut self, now: EventTime, new_topology: bool) {
        let pulse = self.matrix.pulse(now, self.settings);
        let mut facts = if new_topology || pulse != self.hazards.pulse {
            ObservedFacts::of(
                &self.cluster.topology,
                &self.world,
                self.matrix.seen(now, self.settings),
            )
        } else {
            ObservedFacts {
                published: BTreeMap::new(),
                ..self.hazards.facts.clone()
            }
        };
        self.hazards.pulse = pulse;
        self.findings.teach(&mut facts, &self.world);
        if new_topology || facts != self.hazards.facts {
            self.hazards.found = hazards(&self.cluster.topology, &facts);
            self.hazards.facts = facts;
        }
    }

    /// Records an observation in its round.
    pub fn observe(&mut self, recorded: &Recorded) -> ObservationResult {
        self.observe_as(recorded).0
    }

    /// Like [`Self::observe`], but also returns the observation as it is judged if that differs from what the prober
    /// saw: a failure caused by an absent prober becomes a probe that was not made, and an answer worse than the
    /// baseline becomes a failure.
    pub fn observe_as(&mut self, recorded: &Recorded) -> (ObservationResult, Option<Recorded>) {
        let otherwise = if self.own_doing(recorded) {
            Some(presence::unasked(recorded))
        } else {
            self.unlike_before(recorded)
        };
        let booked = self.take(otherwise.as_ref().unwrap_or(recorded));
        if matches!(booked, ObservationResult::Counted { .. }) {
            self.note_answer(recorded);
        }
        (booked, otherwise)
    }

    fn take(&mut self, recorded: &Recorded) -> ObservationResult {
        let observation = &recorded.observation;
        let known_target = observation.channel == Channel::Mesh
            || self.cluster.topology.targets().contains_key(&observation.target)
            || self.cluster.topology.is_apart(&observation.target);
        if !known_target || !is_known(&self.cluster.known, &self.cluster.topology, &recorded.vantage) {
            self.counters.unknown += 1;
            return ObservationResult::Unknown;
        }
        // Vantages of the topology have ids already; others get one with their first report.
        let vantage = self.world.vantages.intern(&recorded.vantage);
        let (world, routes) = (&self.world, &self.cluster.routes);
        let row = || Row::of(recorded, vantage, world, routes);
        match self.evidence.rounds.put(vantage, recorded, row) {
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
        if !self.cluster.known.contains(&recorded.vantage) {
            // A second prober of a known node (for example on its host network) counts from its first report on.
            self.cluster.known.insert(recorded.vantage.clone());
            let node = recorded.vantage.node().map(|name| self.world.nodes.intern(name));
            Arc::make_mut(&mut self.cluster.nodes).add_client(vantage, node);
        }
        let front = front_of(&self.cluster.topology, observation);
        // Auxiliary probes (larger echoes, DNS over TCP) do not show what a user would meet, and a requested name
        // lookup says nothing about the host behind the name.
        let beside = observation
            .assignment
            .as_ref()
            .is_some_and(|id| is_aside(id) || (id.is_asked() && observation.channel == Channel::Dns));
        let asked = (&recorded.vantage, front.as_ref(), observation.entry.as_ref());
        let placement = self
            .cluster
            .former
            .placement(&self.cluster.topology, asked, observation.at);
        if !beside {
            let place = CellPosition {
                vantage,
                target: self.world.targets.get(&observation.target),
                front,
                placement,
                stale: self.is_stale(observation, front),
            };
            self.matrix.take(recorded, place, self.settings);
        }
        if let Some(ttl) = observation.ttl {
            self.evidence
                .ttl
                .insert((ttl.address, recorded.vantage.clone()), ttl);
        }
        if matches!(observation.outcome, Outcome::NotAsked { .. }) {
            self.counters.own_faults += 1;
            return ObservationResult::OwnFault;
        }
        self.counters.counted += 1;
        ObservationResult::Counted { placement }
    }

    /// Records that a vantage has reported everything it started before `complete`. A round may close early once
    /// every reporting vantage is past its end.
    pub fn progress(&mut self, vantage: &Vantage, complete: EventTime) {
        if let Some(vantage) = self.world.vantages.get(vantage) {
            self.evidence.rounds.progress(vantage, complete);
            self.fold_whole(vantage);
        }
    }

    /// Closes and judges every round that is over at `now`. Returns whether any round was judged.
    pub fn advance(&mut self, now: EventTime) -> bool {
        let mut judged = false;
        while self.judge_next(now) {
            judged = true;
            // The round that is now the oldest may already be complete for some vantages.
            for vantage in self.evidence.rounds.waiting() {
                self.fold_whole(vantage);
            }
        }
        judged
    }

    /// Closes and judges the next round that is over.
    pub(crate) fn judge_next(&mut self, now: EventTime) -> bool {
        let Some((round, waiting)) = self.evidence.rounds.close(now, &self.world) else {
            return false;
        };
        self.incidents.begin(round);
        self.cluster.withdrawals.take(round, &self.cluster.topology);
        let mut rows = self.numbered(waiting);
        let mut fold = self.evidence.folds.remove(&round).unwrap_or_default();
        let at = known_at(fold.known(round.end(self.settings.interval)), &rows);
        let names = (&self.cluster.routes, &self.world);
        self.findings.take(round, &mut rows, names.0, names.1);
        self.findings
            .judge(round, &self.cluster.topology, names, self.settings);
        self.evidence.resolvers.take(round, &rows);
        let asked = self.asking.hear(round, &mut rows, names, &fold);
        let clients: BTreeSet<VantageIx> = rows.iter().map(|row| row.client).chain(fold.clients()).collect();
        self.fold(&rows, &mut fold);
        let mut cells = fold.close();
        self.attend(round, &clients, &mut cells);
        if asked.contains(&true) {
            let unasked = self.unasked(&rows, &asked, &cells);
            self.asking.remember(round, unasked);
        }
        let interval = self.settings.interval;
        let mut touched = BTreeSet::new();
        for (block, cells) in cells {
            if !block.slow {
                self.note_successes(&block, &cells, round.end(interval));
            }
            touched.extend(self.units_of(&block));
            self.evidence
                .blocks
                .entry(block)
                .or_default()
                .push(round, cells, interval);
        }
        self.evidence
            .restarted
            .retain(|_, restarted| *restarted > round.end(interval));
        for unit in &touched {
            self.step(unit, round);
        }
        if self.was_judged(round) {
            self.judgement.beside.clear();
            self.learn_answers(round);
            self.settle_asks(round, at);
            return true;
        }
        self.mark_unvisited(round, at);
        let (known, topology, world) = (&self.cluster.known, &self.cluster.topology, &self.world);
        let freed = self.incidents.close(at, |client| {
            // No vantage is known before the topology has been read.
            topology.nodes().is_empty() || is_known(known, topology, world.vantages.name(client))
        });
        for unit in freed {
            if let Some(state) = self.judgement.units.get_mut(&unit) {
                state.streams.clear();
                state.healed.clear();
                state.floor = Some(Round(round.0 + 1));
            }
        }
        self.evidence.met = self.machines_met();
        for unit in &touched {
            self.judge_unit(unit, round, at);
        }
        self.judgement.beside.clear();
        self.learn_answers(round);
        self.settle_asks(round, at);
        self.look_ahead(round.end(self.settings.interval), false);
        true
    }

    /// Events of the round that was judged last.
    pub(crate) fn events(&self) -> &[Event] {
        self.incidents.events()
    }

    fn note_successes(&mut self, block: &CellBlock, cells: &ClosedCells, end: EventTime) {
        if cells.values().any(|c| c.n > c.f) {
            self.experience.worked.insert(*block);
        }
        let succeeded = cells.iter().filter(|(_, counts)| counts.n > counts.f);
        let dests = succeeded.map(|(key, _)| key.dest);
        match block.of {
            EvidenceKind::Mesh => self
                .experience
                .answered
                .extend(dests.filter_map(|dest| match dest {
                    Destination::Peer(node) => Some(node),
                    _ => None,
                })),
            EvidenceKind::Dns => {
                for dest in dests {
                    if let Destination::Name(name) = dest
                        && self.experience.resolved.insert(name)
                    {
                        self.note_first_answer(name, end);
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
        let world = &self.world;
        let vantages = self
            .matrix
            .vantages(&self.cluster.known, world, now, self.settings);
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
                    .all(|c| silent.contains(self.world.vantages.name(*c)));
            (all_silent || now - end > OpenRounds::patience(self.settings))
                .then(|| " (no fresh evidence: the vantages that saw it are silent)".to_owned())
        });
        let not_excluded = by_mesh(&self.cluster.topology, &vantages);
        View {
            at: now,
            interval: self.settings.interval,
            judged: self.evidence.rounds.judged(),
            matrix: self.matrix.rows(
                &self.cluster.topology,
                (world, &self.cluster.routes, &self.experience.answers.baselines),
                &vantages,
                now,
                self.settings,
            ),
            vantages,
            incidents,
            investigating: self.judgement.investigating.values().cloned().collect(),
            findings: self.all_findings(),
            hazards: self.hazards.found.clone(),
            not_excluded,
            names: self.findings.names(&self.cluster.topology, &self.world),
            exposures: self.findings.exposures(&self.cluster.topology),
            forbidden: self.findings.forbidden(&self.cluster.topology),
            asks: self.asking.asks().to_vec(),
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
