//! The one door: topology and observations in, a view out.

mod absence;
mod answers;
mod asking;
mod changing;
mod concluding;
mod departed;
mod folding;
mod healed;
mod judging;
mod orphans;
mod pacing;
mod pooling;
mod presence;
mod remembering;
mod subjects;
mod unread;
mod vouching;

pub(crate) use concluding::Leaning;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{
    Channel, EventTime, Front, Outcome, Placement, Recorded, Round, ServiceKey, TargetId, TtlEvidence,
    Vantage,
};

use self::{absence::NegativeUntil, answers::Answers, healed::Healed, pooling::Beside, remembering::Resumed};
use crate::{
    evidence::{
        block::{Block, Of},
        booking::Restarted,
        cells::{ClosedCells, Dest, Ring},
        fold::Fold,
        latency::Pace,
        ledger::Split,
        resolvers::Resolvers,
        rounds::{Refused, Rounds},
        routes::{Routes, front_of},
        row::Row,
        weights::{ONE, probes},
    },
    findings::{Facts, Findings, Hazard, hazards},
    ids::{NameIx, NodeIx, VantageIx, World},
    incident::{Event, Incidents, known_at},
    inference::{
        judgement::Streams,
        likelihood::{Background, Grid, Likelihood},
        prior::PriorFact,
        unit::Unit,
    },
    matrix::{Matrix, Place, Pulse, by_mesh},
    regions::paths::Nodes,
    requests::{Asking, is_aside},
    settings::Settings,
    topology::{Topology, Withdrawals, former::FormerPods},
    view::{Counters, Investigation, View},
};

/// What became of one observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Booked {
    /// It will be judged with its round.
    Counted {
        /// Where client and entry sit.
        placement: Placement,
    },
    /// Its round was judged already, or the same report was counted before; history only.
    Late,
    /// The prober's own fault; says nothing about the target.
    OwnFault,
    /// Target or vantage are not in the topology.
    Unknown,
    /// The times cannot be.
    Implausible,
}

/// How a stream is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// How a probe's outcome is shared among subjects.
    pub(crate) split: Split,
    /// What never worked opens no incident.
    pub(crate) must_have_worked: bool,
    /// The Service implementation is known and is not kube-proxy.
    pub(crate) foreign_proxy: bool,
    /// A client keeps the endpoint it once had (`sessionAffinity: ClientIP`).
    pub(crate) affinity: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            split: Split::Phases,
            must_have_worked: true,
            foreign_proxy: false,
            affinity: false,
        }
    }
}

#[derive(Debug, Default)]
struct UnitState {
    streams: Streams,
    /// Evidence before this round belongs to something that is over.
    floor: Option<Round>,
    healed: Healed,
    quiet: Quiet,
}

/// How often a subject fails while nothing is wrong with it.
#[derive(Debug, Clone, Copy, Default)]
struct Quiet {
    failures: u64,
    probes: u64,
}

/// Probes before a subject's own background is believed, and those after which the older half is forgotten.
const QUIET_ENOUGH: u64 = 2_000 * ONE;
const QUIET_MOST: u64 = 200_000 * ONE;

impl Quiet {
    fn learn(&mut self, failures: u64, probes: u64) {
        self.failures += failures;
        self.probes += probes;
        if self.probes > QUIET_MOST {
            self.failures /= 2;
            self.probes /= 2;
        }
    }

    fn background(self) -> Background {
        if self.probes < QUIET_ENOUGH {
            Background::default()
        } else {
            Background::of(probes(self.failures) / probes(self.probes))
        }
    }
}

/// A front and the Service behind it, as far as either is known.
type ServedFront = (Option<Front>, Option<ServiceKey>);

/// Rounds, cells, verdicts and incidents of one mesh.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    rules: Rules,
    topology: Arc<Topology>,
    /// Since when its source could not be read, while that is so.
    unread: Option<EventTime>,
    known: BTreeSet<Vantage>,
    world: World,
    nodes: Arc<Nodes>,
    routes: Routes,
    /// Hosts behind each port of each Service.
    hosts: BTreeMap<(ServiceKey, u16), Vec<TargetId>>,
    rounds: Rounds,
    blocks: BTreeMap<Block, Ring>,
    /// What is folded of rounds that are open.
    folds: BTreeMap<Round, Fold>,
    restarted: Restarted,
    former: FormerPods,
    /// Services with an endpoint whose node left the cluster, and when.
    orphans: BTreeMap<ServiceKey, EventTime>,
    /// Blocks in which something once succeeded.
    worked: BTreeSet<Block>,
    resolved: BTreeSet<NameIx>,
    negative_until: NegativeUntil,
    /// Nodes whose prober ever answered another's echo.
    answered: BTreeSet<NodeIx>,
    /// The last round in which the prober of a node was there.
    present: BTreeMap<NodeIx, Round>,
    /// Nodes that were found dead since then.
    dead: BTreeSet<NodeIx>,
    units: BTreeMap<Unit, UnitState>,
    incidents: Incidents,
    investigating: BTreeMap<Unit, Investigation>,
    /// What those among them lean to that had no verdict at their last judgement.
    leanings: BTreeMap<Unit, Option<Leaning>>,
    /// Said to be unexplained already.
    unexplained: BTreeSet<Unit>,
    asking: Asking,
    matrix: Matrix,
    pace: Pace,
    ttl: BTreeMap<(IpAddr, Vantage), TtlEvidence>,
    likelihoods: BTreeMap<Grid, Likelihood>,
    beside: Beside,
    /// Addresses of nodes that anybody went to.
    met: usize,
    /// What the topology says of causes, by front and Service, as far as it was asked for.
    prior_facts: BTreeMap<ServedFront, Arc<[PriorFact]>>,
    counters: Counters,
    answers: Answers,
    /// Where it took up what another process left.
    resumed: Option<Resumed>,
    findings: Findings,
    resolvers: Resolvers,
    withdrawals: Withdrawals,
    /// What probes have shown that bears on hazards, as of the last judged round or change of topology.
    facts: Facts,
    /// The matrix as it was when these were taken from it.
    pulse: Pulse,
    hazards: Vec<Hazard>,
}

impl Engine {
    /// An engine that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings, topology: Arc<Topology>) -> Self {
        Self::with_rules(settings, topology, Rules::default())
    }

    /// An engine for a run that somebody asked for: what never worked is named too.
    #[must_use]
    pub fn on_demand(settings: Settings, topology: Arc<Topology>) -> Self {
        let rules = Rules {
            must_have_worked: false,
            ..Rules::default()
        };
        Self::with_rules(settings, topology, rules)
    }

    pub(crate) fn with_rules(settings: Settings, topology: Arc<Topology>, rules: Rules) -> Self {
        let mut engine = Self {
            settings,
            rules,
            known: topology.vantages().into_iter().collect(),
            topology,
            unread: None,
            world: World::default(),
            nodes: Arc::default(),
            routes: Routes::default(),
            hosts: BTreeMap::new(),
            rounds: Rounds::new(settings),
            blocks: BTreeMap::new(),
            folds: BTreeMap::new(),
            restarted: BTreeMap::new(),
            former: FormerPods::default(),
            orphans: BTreeMap::new(),
            worked: BTreeSet::new(),
            resolved: BTreeSet::new(),
            negative_until: BTreeMap::new(),
            answered: BTreeSet::new(),
            present: BTreeMap::new(),
            dead: BTreeSet::new(),
            units: BTreeMap::new(),
            incidents: Incidents::default(),
            investigating: BTreeMap::new(),
            leanings: BTreeMap::new(),
            unexplained: BTreeSet::new(),
            asking: Asking::default(),
            matrix: Matrix::default(),
            pace: Pace::default(),
            ttl: BTreeMap::new(),
            likelihoods: BTreeMap::new(),
            beside: Beside::new(),
            met: 0,
            prior_facts: BTreeMap::new(),
            counters: Counters::default(),
            answers: Answers::default(),
            resumed: None,
            findings: Findings::default(),
            resolvers: Resolvers::default(),
            withdrawals: Withdrawals::default(),
            facts: Facts::default(),
            pulse: Pulse::default(),
            hazards: Vec::new(),
        };
        engine.learn_names();
        let topology = Arc::clone(&engine.topology);
        engine.findings.learn(&topology);
        engine.show(&topology);
        engine.look_ahead(EventTime(i64::MIN), true);
        engine
    }

    /// Numbers the topology's names in their own order, before any observation does.
    fn learn_names(&mut self) {
        let topology = Arc::clone(&self.topology);
        self.nodes = Arc::new(Nodes::new(&topology, &mut self.world, &self.known));
        self.routes = Routes::new(&topology, &mut self.world);
        self.prior_facts.clear();
        self.hosts.clear();
        for (target, placed) in topology.targets() {
            if let Some(entry) = &placed.entry {
                self.hosts.entry(entry.clone()).or_default().push(target.clone());
            }
        }
    }

    /// Works out who would fail, from the topology and from what probes have shown by now.
    fn look_ahead(&mut self, now: EventTime, new_topology: bool) {
        let pulse = self.matrix.pulse(now, self.settings);
        let mut facts = if new_topology || pulse != self.pulse {
            Facts::of(&self.topology, &self.world, self.matrix.seen(now, self.settings))
        } else {
            Facts {
                published: BTreeMap::new(),
                ..self.facts.clone()
            }
        };
        self.pulse = pulse;
        self.findings.teach(&mut facts, &self.world);
        if new_topology || facts != self.facts {
            self.hazards = hazards(&self.topology, &facts);
            self.facts = facts;
        }
    }

    /// Books one observation into its round.
    pub fn observe(&mut self, recorded: &Recorded) -> Booked {
        self.observe_as(recorded).0
    }

    /// The same, and the observation as it is judged where that is not what its prober saw: what our own parts caused was
    /// never asked, and an answer unlike all before is a failure.
    pub fn observe_as(&mut self, recorded: &Recorded) -> (Booked, Option<Recorded>) {
        let otherwise = if self.own_doing(recorded) {
            Some(presence::unasked(recorded))
        } else {
            self.unlike_before(recorded)
        };
        let booked = self.take(otherwise.as_ref().unwrap_or(recorded));
        if matches!(booked, Booked::Counted { .. }) {
            self.note_answer(recorded);
        }
        (booked, otherwise)
    }

    fn take(&mut self, recorded: &Recorded) -> Booked {
        let observation = &recorded.observation;
        let known_target = observation.channel == Channel::Mesh
            || self.topology.targets().contains_key(&observation.target)
            || self.topology.is_apart(&observation.target);
        if !known_target || !is_known(&self.known, &self.topology, &recorded.vantage) {
            self.counters.unknown += 1;
            return Booked::Unknown;
        }
        // Known vantages are numbered with the topology, others as soon as they speak.
        let vantage = self.world.vantages.intern(&recorded.vantage);
        let (world, routes) = (&self.world, &self.routes);
        let row = || Row::of(recorded, vantage, world, routes);
        match self.rounds.put(vantage, recorded, row) {
            Err(Refused::Implausible) => {
                self.counters.implausible += 1;
                return Booked::Implausible;
            }
            Err(Refused::Late) => {
                self.counters.late += 1;
                return Booked::Late;
            }
            Err(Refused::Duplicate) => return Booked::Late,
            Ok(()) => {}
        }
        if !self.known.contains(&recorded.vantage) {
            // A second prober of a known node (its host network, say) counts from its first word on.
            self.known.insert(recorded.vantage.clone());
            let node = recorded.vantage.node().map(|name| self.world.nodes.intern(name));
            Arc::make_mut(&mut self.nodes).add_client(vantage, node);
        }
        let front = front_of(&self.topology, observation);
        // What only stands beside the evidence says nothing of what a user would meet; nor does a name that answers of
        // the host behind it.
        let beside = observation
            .assignment
            .as_ref()
            .is_some_and(|id| is_aside(id) || (id.is_asked() && observation.channel == Channel::Dns));
        let asked = (&recorded.vantage, front.as_ref(), observation.entry.as_ref());
        let placement = self.former.placement(&self.topology, asked, observation.at);
        if !beside {
            let place = Place {
                vantage,
                target: self.world.targets.get(&observation.target),
                front,
                placement,
                stale: self.is_stale(observation, front),
            };
            self.matrix.take(recorded, place, self.settings);
        }
        if let Some(ttl) = observation.ttl {
            self.ttl.insert((ttl.address, recorded.vantage.clone()), ttl);
        }
        if matches!(observation.outcome, Outcome::NotAsked { .. }) {
            self.counters.own_faults += 1;
            return Booked::OwnFault;
        }
        self.counters.counted += 1;
        Booked::Counted { placement }
    }

    /// A vantage says that everything it started before `complete` has been observed: the round may close early once
    /// every speaking vantage is past its end.
    pub fn progress(&mut self, vantage: &Vantage, complete: EventTime) {
        if let Some(vantage) = self.world.vantages.get(vantage) {
            self.rounds.progress(vantage, complete);
            self.fold_whole(vantage);
        }
    }

    /// Closes every round that is over at `now` and judges it. Returns whether anything was judged.
    pub fn advance(&mut self, now: EventTime) -> bool {
        let mut judged = false;
        while self.judge_next(now) {
            judged = true;
            // The round that is the oldest now may be whole for some already.
            for vantage in self.rounds.waiting() {
                self.fold_whole(vantage);
            }
        }
        judged
    }

    /// Closes and judges the next round that is over.
    pub(crate) fn judge_next(&mut self, now: EventTime) -> bool {
        let Some((round, waiting)) = self.rounds.close(now, &self.world) else {
            return false;
        };
        self.incidents.begin(round);
        self.withdrawals.take(round, &self.topology);
        let mut rows = self.numbered(waiting);
        let mut fold = self.folds.remove(&round).unwrap_or_default();
        let at = known_at(fold.known(round.end(self.settings.interval)), &rows);
        let names = (&self.routes, &self.world);
        self.findings.take(round, &mut rows, names.0, names.1);
        self.findings.judge(round, &self.topology, names, self.settings);
        self.resolvers.take(round, &rows);
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
            self.blocks.entry(block).or_default().push(round, cells, interval);
        }
        self.restarted
            .retain(|_, restarted| *restarted > round.end(interval));
        for unit in &touched {
            self.step(unit, round);
        }
        if self.was_judged(round) {
            self.beside.clear();
            self.learn_answers(round);
            self.settle_asks(round, at);
            return true;
        }
        self.mark_unvisited(round, at);
        let (known, topology, world) = (&self.known, &self.topology, &self.world);
        let freed = self.incidents.close(at, |client| {
            // Before the topology is read nobody is known.
            topology.nodes().is_empty() || is_known(known, topology, world.vantages.name(client))
        });
        for unit in freed {
            if let Some(state) = self.units.get_mut(&unit) {
                state.streams.clear();
                state.healed.clear();
                state.floor = Some(Round(round.0 + 1));
            }
        }
        self.met = self.machines_met();
        for unit in &touched {
            self.judge_unit(unit, round, at);
        }
        self.beside.clear();
        self.learn_answers(round);
        self.settle_asks(round, at);
        self.look_ahead(round.end(self.settings.interval), false);
        true
    }

    /// What changed with the round that was judged last.
    pub(crate) fn events(&self) -> &[Event] {
        self.incidents.events()
    }

    fn note_successes(&mut self, block: &Block, cells: &ClosedCells, end: EventTime) {
        if cells.values().any(|c| c.n > c.f) {
            self.worked.insert(*block);
        }
        let succeeded = cells.iter().filter(|(_, counts)| counts.n > counts.f);
        let dests = succeeded.map(|(key, _)| key.dest);
        match block.of {
            Of::Mesh => self.answered.extend(dests.filter_map(|dest| match dest {
                Dest::Peer(node) => Some(node),
                _ => None,
            })),
            Of::Dns => {
                for dest in dests {
                    if let Dest::Name(name) = dest
                        && self.resolved.insert(name)
                    {
                        self.note_first_answer(name, end);
                    }
                }
            }
            Of::Vip(_) | Of::Direct(..) | Of::Target(_) => {}
        }
    }

    fn all_findings(&self) -> Vec<crate::findings::Finding> {
        let mut all = self.findings.list();
        all.extend(self.changed_answers());
        all.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.id.cmp(&b.id)));
        all
    }

    /// What is known at `now`.
    #[must_use]
    pub fn view(&self, now: EventTime) -> View {
        let world = &self.world;
        let vantages = self.matrix.vantages(&self.known, world, now, self.settings);
        let silent: BTreeSet<&Vantage> = vantages
            .iter()
            .filter(|v| v.state != crate::view::VantageState::Reporting)
            .map(|v| &v.vantage)
            .collect();
        let incidents = self.incidents.list(|unit, clients| {
            let own = self.blocks_of(unit).0;
            let last = own.iter().filter_map(|b| self.blocks.get(b)?.last()).max()?;
            let end = last.end(self.settings.interval);
            let all_silent = !clients.is_empty()
                && clients
                    .iter()
                    .all(|c| silent.contains(self.world.vantages.name(*c)));
            (all_silent || now - end > Rounds::patience(self.settings))
                .then(|| " (no fresh evidence: the vantages that saw it are silent)".to_owned())
        });
        let not_excluded = by_mesh(&self.topology, &vantages);
        View {
            at: now,
            interval: self.settings.interval,
            judged: self.rounds.judged(),
            matrix: self.matrix.rows(
                &self.topology,
                (world, &self.routes, &self.answers.baselines),
                &vantages,
                now,
                self.settings,
            ),
            vantages,
            incidents,
            investigating: self.investigating.values().cloned().collect(),
            findings: self.all_findings(),
            hazards: self.hazards.clone(),
            not_excluded,
            names: self.findings.names(&self.topology, &self.world),
            exposures: self.findings.exposures(&self.topology),
            forbidden: self.findings.forbidden(&self.topology),
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
