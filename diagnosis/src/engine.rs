//! The one door: topology and observations in, a view out.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use parallax_model::{
    Channel, EventTime, Front, Micros, Outcome, Placement, Recorded, Round, ServiceKey, TargetId, TtlEvidence,
    Vantage,
};

use crate::{
    booking::{Block, Split, book, default_front, front_of},
    causes::facts,
    cells::{Ring, RoundCells},
    evidence::Desk,
    ids::{NameIx, World, class_position},
    incident::{Event, Incidents, Report, Scope, known_at},
    judge::{Case, FailingCells, Finding, Judgement, Other, Streams, Unit, judge, pool},
    likelihood::Likelihood,
    matrix::Matrix,
    prior::{PriorFact, hypotheses},
    region::{Region, alpha},
    rounds::{Refused, Rounds},
    scene::Scene,
    topology::{Topology, TrafficPolicy},
    verdict::Subject,
    view::{Counters, Investigation, View},
};

/// What holds for the whole mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Length of a round; not zero.
    pub interval: Micros,
    /// Longest timeout of any probe.
    pub timeout: Micros,
}

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
}

/// Rounds, cells, verdicts and incidents of one mesh.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    rules: Rules,
    topology: Arc<Topology>,
    known: BTreeSet<Vantage>,
    world: World,
    rounds: Rounds,
    blocks: BTreeMap<Block, Ring>,
    restarted: BTreeMap<Block, EventTime>,
    /// Blocks in which something once succeeded.
    worked: BTreeSet<Block>,
    resolved: BTreeSet<NameIx>,
    units: BTreeMap<Unit, UnitState>,
    incidents: Incidents,
    investigating: BTreeMap<Unit, Investigation>,
    /// Said to be unexplained already.
    unexplained: BTreeSet<Unit>,
    matrix: Matrix,
    ttl: BTreeMap<(IpAddr, Vantage), TtlEvidence>,
    likelihood: Likelihood,
    counters: Counters,
}

/// Other subjects that are asked about a cause that would concern all of them.
const POOLED: usize = 32;

impl Engine {
    /// An engine that knows nothing yet.
    #[must_use]
    pub fn new(settings: Settings, topology: Arc<Topology>) -> Self {
        Self::with_rules(settings, topology, Rules::default())
    }

    pub(crate) fn with_rules(settings: Settings, topology: Arc<Topology>, rules: Rules) -> Self {
        let mut engine = Self {
            settings,
            rules,
            known: topology.vantages().into_iter().collect(),
            topology,
            world: World::default(),
            rounds: Rounds::new(settings),
            blocks: BTreeMap::new(),
            restarted: BTreeMap::new(),
            worked: BTreeSet::new(),
            resolved: BTreeSet::new(),
            units: BTreeMap::new(),
            incidents: Incidents::default(),
            investigating: BTreeMap::new(),
            unexplained: BTreeSet::new(),
            matrix: Matrix::default(),
            ttl: BTreeMap::new(),
            likelihood: Likelihood::default(),
            counters: Counters::default(),
        };
        engine.learn_names();
        engine
    }

    /// Numbers the topology's names in their own order, before any observation does.
    fn learn_names(&mut self) {
        let topology = Arc::clone(&self.topology);
        Scene::of_nodes(&topology, &mut self.world, &self.known);
        let services: BTreeSet<&ServiceKey> = topology.fronts().values().map(|info| &info.service).collect();
        for service in services.into_iter().filter_map(|key| topology.service(key)) {
            for endpoint in &service.endpoints {
                let pod = self.world.pods.intern(&endpoint.pod);
                if let Some(node) = &endpoint.node {
                    let node = self.world.nodes.intern(node);
                    self.world.pod_nodes.insert(pod, node);
                }
            }
        }
    }

    /// Endpoints, nodes or targets changed at `at`. Only the cells they touch start over, with the probes that start
    /// from then on.
    pub fn replace_topology(&mut self, topology: Arc<Topology>, at: EventTime) {
        let old = std::mem::replace(&mut self.topology, topology);
        self.known = self.topology.vantages().into_iter().collect();
        self.learn_names();
        let touched: Vec<Block> = self
            .blocks
            .keys()
            .filter(|block| paths(&old, block) != paths(&self.topology, block))
            .cloned()
            .collect();
        for block in touched {
            self.restart(&block, at);
        }
        // A block without cells yet may have observations of before the change waiting in an open round.
        for front in self.topology.fronts().keys() {
            let block = Block::Vip(*front);
            if !self.blocks.contains_key(&block) && paths(&old, &block) != paths(&self.topology, &block) {
                self.restarted.insert(block, at);
            }
        }
        let topology = Arc::clone(&self.topology);
        let gone = |unit: &Unit| match unit {
            Unit::Target(target) => !topology.targets().contains_key(target),
            Unit::Front(front) => old.fronts().contains_key(front) && !topology.fronts().contains_key(front),
            Unit::Dns | Unit::Mesh | Unit::Whole(_) => false,
        };
        self.incidents.close_gone(at, gone);
        self.units.retain(|unit, _| !gone(unit));
        self.investigating.retain(|unit, _| !gone(unit));
        self.blocks.retain(|block, _| match block {
            Block::Target(target) => topology.targets().contains_key(target),
            Block::Vip(front) => !gone(&Unit::Front(*front)),
            Block::Direct(service, _) => topology.service(service).is_some(),
            Block::Dns | Block::Mesh => true,
        });
        let known = &self.known;
        self.matrix
            .retain(&topology, |vantage| is_known(known, &topology, vantage));
        self.ttl
            .retain(|(_, vantage), _| is_known(known, &topology, vantage));
    }

    fn restart(&mut self, block: &Block, at: EventTime) {
        if let Some(ring) = self.blocks.get_mut(block) {
            ring.clear();
        }
        self.restarted.insert(block.clone(), at);
        for unit in self.units_of(block) {
            if let Some(state) = self.units.get_mut(&unit) {
                state.streams.clear();
                state.floor = Some(at.round(self.settings.interval));
            }
        }
    }

    /// Books one observation into its round.
    pub fn observe(&mut self, recorded: &Recorded) -> Booked {
        let observation = &recorded.observation;
        let known_target =
            observation.channel == Channel::Mesh || self.topology.targets().contains_key(&observation.target);
        if !known_target || !is_known(&self.known, &self.topology, &recorded.vantage) {
            self.counters.unknown += 1;
            return Booked::Unknown;
        }
        match self.rounds.put(recorded) {
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
        self.matrix.take(recorded, &self.topology, self.settings);
        if let Some(ttl) = observation.ttl {
            self.ttl.insert((ttl.address, recorded.vantage.clone()), ttl);
        }
        if matches!(observation.outcome, Outcome::NotAsked { .. }) {
            self.counters.own_faults += 1;
            return Booked::OwnFault;
        }
        self.counters.counted += 1;
        let front = front_of(&self.topology, observation);
        let placement = self
            .topology
            .placement(&recorded.vantage, front.as_ref(), observation.entry.as_ref());
        Booked::Counted { placement }
    }

    /// A vantage says that everything it started before `complete` has been observed: the round may close early once
    /// every speaking vantage is past its end.
    pub fn progress(&mut self, vantage: &Vantage, complete: EventTime) {
        self.rounds.progress(vantage, complete);
    }

    /// Closes every round that is over at `now` and judges it. Returns whether anything was judged.
    pub fn advance(&mut self, now: EventTime) -> bool {
        let mut judged = false;
        while self.judge_next(now) {
            judged = true;
        }
        judged
    }

    /// Closes and judges the next round that is over.
    pub(crate) fn judge_next(&mut self, now: EventTime) -> bool {
        let Some((round, observations)) = self.rounds.close(now) else {
            return false;
        };
        self.incidents.begin();
        let at = known_at(round.end(self.settings.interval), &observations);
        let booked = book(
            &observations,
            &self.topology,
            &mut self.world,
            self.rules.split,
            &self.restarted,
        );
        let interval = self.settings.interval;
        self.restarted
            .retain(|_, restarted| *restarted > round.end(interval));
        let mut touched = BTreeSet::new();
        for (block, cells) in booked {
            self.note_successes(&block, &cells);
            touched.extend(self.units_of(&block));
            self.blocks.entry(block).or_default().push(round, cells, interval);
        }
        for unit in &touched {
            self.step(unit, round);
        }
        let (known, topology, world) = (&self.known, &self.topology, &self.world);
        let freed = self
            .incidents
            .close(at, |client| is_known(known, topology, world.vantages.name(client)));
        for unit in freed {
            if let Some(state) = self.units.get_mut(&unit) {
                state.streams.clear();
                state.floor = Some(Round(round.0 + 1));
            }
        }
        for unit in &touched {
            self.judge_unit(unit, round, at);
        }
        true
    }

    /// What changed with the round that was judged last.
    pub(crate) fn events(&self) -> &[Event] {
        self.incidents.events()
    }

    fn note_successes(&mut self, block: &Block, cells: &RoundCells) {
        if cells.values().any(|c| c.n > c.f) && !self.worked.contains(block) {
            self.worked.insert(block.clone());
        }
        if *block == Block::Dns {
            for (key, counts) in cells {
                if let crate::cells::Dest::Name(name) = key.dest
                    && counts.n > counts.f
                {
                    self.resolved.insert(name);
                }
            }
        }
    }

    /// The subjects that a block is evidence of.
    fn units_of(&self, block: &Block) -> Vec<Unit> {
        if self.rules.split == Split::Whole {
            // Names asked as a control are targets too, without an entry.
            let targets = self.topology.targets().iter();
            let main = targets.filter(|(_, placed)| placed.entry.is_some()).map(|(id, _)| id);
            return main.take(1).cloned().map(Unit::Whole).collect();
        }
        match block {
            Block::Dns => vec![Unit::Dns],
            Block::Mesh => vec![Unit::Mesh],
            Block::Vip(front) => vec![Unit::Front(*front)],
            Block::Target(target) => vec![Unit::Target(target.clone())],
            Block::Direct(service, port) => self
                .topology
                .fronts()
                .iter()
                .filter(|(_, info)| info.service == *service && info.target_port == *port)
                .map(|(front, _)| Unit::Front(*front))
                .collect(),
        }
    }

    /// A subject's own blocks, and those that serve it as controls.
    fn blocks_of(&self, unit: &Unit) -> (Vec<Block>, Vec<Block>) {
        match unit {
            Unit::Whole(_) => (self.blocks.keys().cloned().collect(), Vec::new()),
            Unit::Dns => (vec![Block::Dns], vec![Block::Mesh]),
            Unit::Mesh => (vec![Block::Mesh], Vec::new()),
            Unit::Target(target) => (vec![Block::Target(target.clone())], Vec::new()),
            Unit::Front(front) => {
                let mut own = vec![Block::Vip(*front)];
                if let Some(info) = self.topology.fronts().get(front) {
                    let direct = Block::Direct(info.service.clone(), info.target_port);
                    // Endpoints that never answered directly while the front works are forbidden to us, not broken.
                    if self.worked.contains(&direct) || !self.worked.contains(&own[0]) {
                        own.push(direct);
                    }
                }
                (own, vec![Block::Mesh])
            }
        }
    }

    /// Takes the subject's own cells of a round into its sums and into the tests that end its incidents.
    fn step(&mut self, unit: &Unit, round: Round) {
        let (own, _) = self.blocks_of(unit);
        let fails = own
            .iter()
            .filter_map(|b| self.blocks.get(b)?.at(round))
            .any(|cells| cells.values().any(|c| c.f > 0));
        let rising = self.units.get(unit).is_some_and(|state| state.streams.any());
        let concerned = self.incidents.concerns(unit);
        if !fails && !rising && !concerned {
            return;
        }
        let mut cells = RoundCells::new();
        for block in &own {
            if let Some(found) = self.blocks.get(block).and_then(|ring| ring.at(round)) {
                for (key, counts) in found {
                    cells.entry(*key).or_default().add(counts);
                }
            }
        }
        self.units.entry(unit.clone()).or_default().streams.step(round, &cells);
        if concerned {
            let scene = self.scene(unit, &cells);
            self.incidents.step(unit, &cells, &scene);
        }
    }

    /// The front whose paths a subject's probes take.
    fn front_of_unit(&self, unit: &Unit) -> Option<Front> {
        match unit {
            Unit::Front(front) => Some(*front),
            Unit::Target(target) | Unit::Whole(target) => default_front(&self.topology, target),
            Unit::Dns | Unit::Mesh => None,
        }
    }

    fn scene(&mut self, unit: &Unit, cells: &RoundCells) -> Scene {
        let topology = Arc::clone(&self.topology);
        let mut scene = Scene::of_nodes(&topology, &mut self.world, &self.known);
        let front = self.front_of_unit(unit);
        if let Some(service) = front.as_ref().and_then(|f| topology.service_of(f)) {
            scene = scene.with_service(&topology, &mut self.world, service, front.as_ref());
        }
        scene.learn_from(cells, self.rules.affinity);
        scene
    }

    fn judge_unit(&mut self, unit: &Unit, round: Round, at: EventTime) {
        let Some(state) = self.units.get(unit) else { return };
        let (own, controls) = self.blocks_of(unit);
        let first = own
            .iter()
            .filter_map(|b| self.blocks.get(b)?.first())
            .min()
            .unwrap_or(round);
        let floor = state.floor.map_or(first, |floor| floor.max(first));
        let fails = own
            .iter()
            .filter_map(|b| self.blocks.get(b))
            .any(|ring| ring.fails_since(floor));
        if !state.streams.any() || !fails {
            self.investigating.remove(unit);
            self.unexplained.remove(unit);
            return;
        }
        let windows = state.streams.windows(floor);
        let mut cells_of = BTreeMap::new();
        for start in &windows {
            let mut cells = RoundCells::new();
            for block in own.iter().chain(&controls) {
                if let Some(ring) = self.blocks.get(block) {
                    ring.sum_into(*start, &mut cells);
                }
            }
            cells_of.insert(*start, cells);
        }
        let Some(widest) = cells_of.values().next() else { return };
        let widest = widest.clone();
        let scene = self.scene(unit, &widest);
        let channels: BTreeSet<Channel> = widest.keys().map(|key| key.channel).collect();
        let kinds = unit.kinds(&scene, &channels);
        let front = self.front_of_unit(unit);
        let facts = facts(&self.topology, front.as_ref(), &self.world, self.rules.foreign_proxy);
        let mut cases = Vec::new();
        for (start, cells) in cells_of {
            let mut case = Case::new(start, cells, &scene, &self.world, &kinds, &facts);
            if matches!(unit, Unit::Front(_)) {
                let others = self.others(unit, start);
                pool(&mut case.hypotheses, &case.data, &scene, &others, &mut self.likelihood);
            }
            cases.push(case);
        }
        let (rounds, failing) = self.failing_cells(&own, &controls, floor);
        let Some(judgement) = judge(cases, &rounds, &failing, &scene, &mut self.likelihood) else {
            return;
        };
        self.conclude(unit, &judgement, &scene, &facts, at);
    }

    fn failing_cells(&self, own: &[Block], controls: &[Block], floor: Round) -> (BTreeSet<Round>, FailingCells) {
        let mut rounds = BTreeSet::new();
        let mut failing = FailingCells::new();
        for (i, block) in own.iter().chain(controls).enumerate() {
            let Some(ring) = self.blocks.get(block) else { continue };
            for (round, cells) in ring.since(floor) {
                if i < own.len() {
                    rounds.insert(round);
                }
                let keys = cells.iter().filter(|(_, c)| c.f > 0).map(|(key, _)| *key);
                let mut keys = keys.peekable();
                if keys.peek().is_some() {
                    failing.entry(round).or_default().extend(keys);
                }
            }
        }
        (rounds, failing)
    }

    /// What the other fronts saw since a round.
    fn others(&mut self, unit: &Unit, start: Round) -> Vec<Other> {
        let mut units: Vec<(bool, Unit)> = self
            .blocks
            .iter()
            .filter_map(|(block, ring)| match block {
                Block::Vip(front) if Unit::Front(*front) != *unit => {
                    Some((!ring.fails_since(start), Unit::Front(*front)))
                }
                _ => None,
            })
            .collect();
        // Failing ones first: they have more to say.
        units.sort();
        let own = self.blocks_of(unit).0;
        let mut others = Vec::new();
        for (_, other) in units.into_iter().take(POOLED) {
            let mut cells = RoundCells::new();
            for block in self.blocks_of(&other).0.iter().filter(|b| !own.contains(b)) {
                if let Some(ring) = self.blocks.get(block) {
                    ring.sum_into(start, &mut cells);
                }
            }
            let scene = self.scene(&other, &cells);
            let channels = cells.keys().map(|key| key.channel).collect();
            let front = self.front_of_unit(&other);
            let facts = facts(&self.topology, front.as_ref(), &self.world, self.rules.foreign_proxy);
            others.push(Other {
                data: crate::data::Data::new(&cells, &scene, |kind, status| self.world.class_of(kind, status)),
                hypotheses: hypotheses(&other.kinds(&scene, &channels), &scene, &facts),
                scene,
            });
        }
        others
    }

    /// Turns a judgement into incidents or into an investigation.
    fn conclude(&mut self, unit: &Unit, judgement: &Judgement, scene: &Scene, facts: &[PriorFact], at: EventTime) {
        let named: Vec<&Finding> = judgement.findings.iter().filter(|f| f.named).collect();
        let mut reports = Vec::new();
        let mut waiting = None;
        for finding in &named {
            let verdict = {
                let desk = self.desk(unit, judgement, finding, scene, facts);
                desk.verdict(judgement, finding)
            };
            if self.rules.must_have_worked && !self.has_worked(unit, finding.region) {
                waiting = Some(format!("never worked so far; {}", verdict.sentence));
                continue;
            }
            reports.push(Report {
                scope: self.scope(unit, judgement, finding, scene),
                region: finding.region,
                class: finding.class.clone(),
                failing: finding.failing.clone(),
                since: finding.first_failure.start(self.settings.interval),
                verdict,
            });
        }
        let nothing_named = named.is_empty();
        if !judgement.unexplained {
            self.unexplained.remove(unit);
        }
        self.incidents.report(unit, reports, at, &self.world);
        let sentence = match waiting {
            Some(sentence) => Some(sentence),
            None if judgement.unexplained => {
                let cells = self.residual(judgement, scene);
                let sentence = if cells.is_empty() {
                    "no single cause explains the failures".to_owned()
                } else {
                    format!("no single cause explains the failures; left over: {}", cells.join(", "))
                };
                if self.unexplained.insert(unit.clone()) {
                    self.incidents.note(Event::Unexplained { at, cells });
                }
                Some(sentence)
            }
            None if nothing_named && judgement.p_healthy < 0.5 => Some(self.suspicion(judgement)),
            None => None,
        };
        match sentence {
            Some(sentence) => {
                let since = judgement
                    .findings
                    .iter()
                    .map(|f| f.first_failure)
                    .min()
                    .unwrap_or(judgement.case.start)
                    .start(self.settings.interval);
                let subject = self.subject_of(unit);
                let investigation = self.investigating.entry(unit.clone()).or_insert(Investigation {
                    subject,
                    sentence: String::new(),
                    since,
                });
                investigation.sentence = sentence;
            }
            None => {
                self.investigating.remove(unit);
            }
        }
    }

    fn suspicion(&self, judgement: &Judgement) -> String {
        let Some(class) = judgement.posterior.classes.iter().find(|c| !c.unobserved) else {
            return "failing, cause not yet known".to_owned();
        };
        let names: Vec<String> = class
            .members
            .iter()
            .map(|i| judgement.posterior.scored[*i].region.describe(&self.world).to_string())
            .collect();
        format!(
            "failing, cause not yet known; likeliest so far: {} ({:.2})",
            crate::evidence::listed(&names),
            class.mass.min(1.0)
        )
    }

    /// The cells that fit the best explanation worst.
    fn residual(&self, judgement: &Judgement, scene: &Scene) -> Vec<String> {
        let regions: Vec<Region> = judgement.findings.iter().map(|f| f.region).collect();
        let mut worst: Vec<(u64, String)> = judgement
            .case
            .cells
            .iter()
            .filter(|(key, counts)| counts.seen_f > 0 && alpha(&regions, key, scene).is_zero())
            .map(|(key, counts)| {
                let vantage = self.world.vantages.name(key.client);
                (counts.seen_f, format!("{} from {vantage}", key.channel))
            })
            .collect();
        worst.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        worst
            .into_iter()
            .take(5)
            .map(|(failures, words)| format!("{words} ({} failures)", crate::weights::whole(failures)))
            .collect()
    }

    fn subject_of(&self, unit: &Unit) -> Subject {
        match unit {
            Unit::Front(front) => Subject::Front(*front),
            Unit::Target(target) | Unit::Whole(target) => Subject::Target(target.clone()),
            Unit::Dns => Subject::Name("every name".to_owned()),
            Unit::Mesh => Subject::Network,
        }
    }

    fn has_worked(&self, unit: &Unit, region: Region) -> bool {
        match (unit, region) {
            (_, Region::DnsName(name)) => self.resolved.contains(&name),
            (Unit::Front(front), _) => {
                self.worked.contains(&Block::Vip(*front))
                    || self.targets_of(unit).iter().any(|target| self.matrix.ever_ok(target))
            }
            (Unit::Target(target) | Unit::Whole(target), _) => self.matrix.ever_ok(target),
            (Unit::Dns, _) => self.worked.contains(&Block::Dns),
            (Unit::Mesh, _) => self.worked.contains(&Block::Mesh),
        }
    }

    fn scope(&self, unit: &Unit, judgement: &Judgement, finding: &Finding, scene: &Scene) -> Scope {
        if finding.region.is_global() {
            return Scope::Cluster;
        }
        match unit {
            Unit::Front(front) => self
                .topology
                .fronts()
                .get(front)
                .map_or(Scope::Front(*front), |info| Scope::Service(info.service.clone())),
            Unit::Target(target) => {
                let placed = self.topology.targets().get(target);
                match placed.and_then(|p| p.entry.as_ref()) {
                    // A broken endpoint is the same endpoint whatever the phase it breaks.
                    Some((service, _)) if matches!(finding.region, Region::Backend(_)) => {
                        Scope::Service(service.clone())
                    }
                    Some((service, _)) => {
                        Scope::Answers(service.clone(), self.main_class(judgement, finding.region, scene))
                    }
                    None => Scope::Target(target.clone()),
                }
            }
            Unit::Whole(target) => Scope::Target(target.clone()),
            Unit::Dns | Unit::Mesh => Scope::Cluster,
        }
    }

    /// The most frequent class of failure inside a region.
    fn main_class(&self, judgement: &Judgement, region: Region, scene: &Scene) -> usize {
        let mut sums = [0_u64; 10];
        for (key, counts) in &judgement.case.cells {
            if alpha(&[region], key, scene).is_zero() {
                continue;
            }
            for ((kind, status), (_, seen)) in &counts.kinds {
                sums[class_position(self.world.class_of(*kind, *status))] += seen;
            }
        }
        let most = sums.iter().copied().max().unwrap_or(0);
        sums.iter().position(|s| *s == most).unwrap_or(0)
    }

    /// Everything that a subject's failure keeps people from.
    fn targets_of(&self, unit: &Unit) -> Vec<TargetId> {
        match unit {
            Unit::Target(target) | Unit::Whole(target) => vec![target.clone()],
            Unit::Front(front) => {
                let mut targets: BTreeSet<TargetId> = self.matrix.targets_of(front).cloned().collect();
                if let Some(info) = self.topology.fronts().get(front) {
                    targets.extend(
                        self.topology
                            .targets()
                            .iter()
                            .filter(|(id, placed)| {
                                placed
                                    .entry
                                    .as_ref()
                                    .is_some_and(|(s, p)| *s == info.service && *p == info.target_port)
                                    && default_front(&self.topology, id) == Some(*front)
                            })
                            .map(|(id, _)| id.clone()),
                    );
                }
                targets.into_iter().collect()
            }
            Unit::Dns | Unit::Mesh => Vec::new(),
        }
    }

    fn desk<'a>(
        &'a self,
        unit: &'a Unit,
        judgement: &Judgement,
        finding: &Finding,
        scene: &'a Scene,
        facts: &[PriorFact],
    ) -> Desk<'a> {
        let front = self.front_of_unit(unit);
        let start = judgement.case.start;
        let sum = |block: &Block| {
            let mut cells = RoundCells::new();
            if let Some(ring) = self.blocks.get(block) {
                ring.sum_into(start, &mut cells);
            }
            cells
        };
        let siblings = match (unit, front.and_then(|f| self.topology.fronts().get(&f))) {
            (Unit::Front(own), Some(info)) => self
                .topology
                .fronts()
                .iter()
                .filter(|(other, i)| *other != own && i.service == info.service)
                .map(|(other, _)| (*other, sum(&Block::Vip(*other))))
                .filter(|(_, cells)| !cells.is_empty())
                .collect(),
            _ => Vec::new(),
        };
        let everywhere = (finding.region.is_global() && matches!(unit, Unit::Mesh | Unit::Dns)).then(|| {
            let mut cells = RoundCells::new();
            for (block, ring) in &self.blocks {
                if matches!(block, Block::Vip(_) | Block::Direct(..)) {
                    ring.sum_into(start, &mut cells);
                }
            }
            cells
        });
        let ttl = front.map_or_else(Vec::new, |front| {
            let address = front.address.ip();
            self.ttl
                .iter()
                .filter(|((asked, _), _)| *asked == address)
                .map(|((_, vantage), evidence)| (vantage.clone(), *evidence))
                .collect()
        });
        Desk {
            topology: &self.topology,
            world: &self.world,
            scene,
            unit,
            front,
            siblings,
            everywhere,
            ttl,
            facts: facts
                .iter()
                .filter(|fact| finding.class.iter().any(|region| fact.applies(*region)))
                .map(|fact| fact.fact.clone())
                .collect(),
            targets: self.targets_of(unit),
        }
    }

    /// What is known at `now`.
    #[must_use]
    pub fn view(&self, now: EventTime) -> View {
        let vantages = self.matrix.vantages(&self.known, now, self.settings);
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
                && clients.iter().all(|c| silent.contains(self.world.vantages.name(*c)));
            (all_silent || now - end > Rounds::patience(self.settings))
                .then(|| " (no fresh evidence: the vantages that saw it are silent)".to_owned())
        });
        View {
            at: now,
            interval: self.settings.interval,
            judged: self.rounds.judged(),
            matrix: self.matrix.rows(&self.topology, &vantages, now, self.settings),
            vantages,
            incidents,
            investigating: self.investigating.values().cloned().collect(),
            counters: self.counters,
        }
    }
}

fn is_known(known: &BTreeSet<Vantage>, topology: &Topology, vantage: &Vantage) -> bool {
    known.contains(vantage) || vantage.node().is_some_and(|node| topology.nodes().contains_key(node))
}

/// Everything of the topology that decides where a block's probes end up; a change of it starts the block over.
type Paths = (Vec<crate::topology::Endpoint>, Option<(TrafficPolicy, TrafficPolicy)>);

fn paths(topology: &Topology, block: &Block) -> Paths {
    let service = match block {
        Block::Dns | Block::Mesh => None,
        Block::Vip(front) => topology.service_of(front),
        Block::Direct(service, _) => topology.service(service),
        Block::Target(target) => topology
            .targets()
            .get(target)
            .and_then(|placed| placed.entry.as_ref())
            .and_then(|(service, _)| topology.service(service)),
    };
    service.map_or_else(Paths::default, |service| {
        (
            service.usable().into_iter().cloned().collect(),
            Some((service.external_traffic_policy, service.internal_traffic_policy)),
        )
    })
}
