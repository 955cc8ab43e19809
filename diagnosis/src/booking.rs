//! Each phase judges its own subject: one closed round of observations becomes cells.
//!
//! | phase | subject |
//! |---|---|
//! | resolve | the name |
//! | connect | the front, once per client and round however many hosts share it; `direct`: the endpoint |
//! | TLS, request, first byte | the front (or endpoint) when nine in ten probes through it failed before the first byte; else the target |
//! | body, check | the target |
//!
//! The third line is how a fault of the front that shows after the handshake (a PROXY header that is missing) is told
//! from one host whose application hangs or whose certificate is wrong: a front strikes all of its hosts alike. A
//! certificate is thereby a matter of its host; server names are no subject of their own in this edition.
//!
//! A phase that was not reached is not observed.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{
    Channel, EventTime, FailureKind, Front, Observation, Outcome, Phase, ProbeSpec, Recorded, ServiceKey,
    TargetId,
};

use crate::{
    cells::{CellKey, Dest, RoundCells},
    ids::{KindIx, VantageIx, World},
    topology::Topology,
    weights::{ClientRound, ONE},
};

/// Cells that belong together: the smallest thing that a change of endpoints can touch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Block {
    /// Resolvers.
    Dns,
    /// The control group.
    Mesh,
    /// Connections through a front.
    Vip(Front),
    /// Connections to the endpoints of a Service's port.
    Direct(ServiceKey, u16),
    /// Answers of a target, through its front and directly.
    Target(TargetId),
    /// How long the successes of one of the others took.
    Slow(Box<Block>),
}

impl Block {
    /// The cells that this is about, whether they count failures or slowness.
    pub(crate) fn plain(&self) -> &Self {
        match self {
            Self::Slow(inner) => inner,
            other => other,
        }
    }
}

/// How much of a probe's outcome is booked where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    /// Each phase on its own subject.
    Phases,
    /// The whole outcome on the channel: a recording of a single target, whose front has no other host that could tell
    /// front and target apart.
    Whole,
}

type Failure = (KindIx, Option<u16>);

/// One phase group of one probe.
#[derive(Debug, Clone)]
struct Entry {
    dest: Dest,
    channel: Channel,
    failure: Option<Failure>,
}

/// A probe that got past resolving, before it is known whose failure a missing first byte is.
#[derive(Debug, Clone)]
struct Reached {
    dest: Dest,
    channel: Channel,
    target: TargetId,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Failed while connecting.
    Connecting(Failure),
    /// Connected, and failed before the first byte.
    Silent(Failure),
    /// Got an answer that is wrong.
    Wrong(Failure),
    /// All well.
    Fine,
}

impl Stage {
    const fn failure(self) -> Option<Failure> {
        match self {
            Self::Connecting(failure) | Self::Silent(failure) | Self::Wrong(failure) => Some(failure),
            Self::Fine => None,
        }
    }
}

/// Of many probes one in ten may have got through: few faults strike without any exception.
fn mostly_silent<'p>(probes: impl Iterator<Item = &'p Reached>) -> bool {
    let (mut silent, mut all) = (0, 0);
    for probe in probes {
        silent += usize::from(matches!(probe.stage, Stage::Connecting(_) | Stage::Silent(_)));
        all += 1;
    }
    silent * 10 >= all * 9
}

/// The refusal among a client's attempts at one front, if any was refused.
///
/// The kernel limits how many ICMP errors it sends to one address (`net.ipv4.icmp_ratelimit`, about one a second after
/// a burst of six): where fifty hosts share a front, a few attempts are told that the port is unreachable and the rest
/// hear nothing. One refusal says what the silence of the others is.
fn refusal_of(probes: &[Reached], world: &World) -> Option<Failure> {
    probes.iter().find_map(|probe| match probe.stage {
        Stage::Connecting(failure) if *world.kinds.name(failure.0) == FailureKind::Refused => Some(failure),
        _ => None,
    })
}

/// Cells of a client in one round, grouped by what is counted once.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    reached: BTreeMap<(VantageIx, Block), Vec<Reached>>,
    entries: BTreeMap<(VantageIx, Block, Option<Dest>), Vec<Entry>>,
}

/// The front a probe went to or would have gone to: what it says, else what the topology says of its target.
pub(crate) fn front_of(topology: &Topology, observation: &Observation) -> Option<Front> {
    observation
        .front
        .or_else(|| default_front(topology, &observation.target))
}

/// Where a user's connection for a target goes, as far as the topology knows.
pub(crate) fn default_front(topology: &Topology, target: &TargetId) -> Option<Front> {
    let placed = topology.targets().get(target)?;
    if let Some(address) = placed.dial {
        return Some(Front::tcp(address));
    }
    topology.usual_front(placed.entry.as_ref()?)
}

/// Folds a closed round into cells. Observations that started before their block was restarted are left out.
pub(crate) fn book(
    observations: &[Recorded],
    topology: &Topology,
    world: &mut World,
    split: Split,
    restarted: &BTreeMap<Block, EventTime>,
) -> BTreeMap<Block, RoundCells> {
    let mut ledger = Ledger::default();
    for recorded in observations {
        let client = world.vantages.intern(&recorded.vantage);
        let observation = &recorded.observation;
        let fresh = |block: &Block| restarted.get(block).is_none_or(|at| observation.at >= *at);
        ledger.take(client, observation, topology, world, split, &fresh);
    }
    ledger.settle(world, topology);
    ledger.weigh(split)
}

impl Ledger {
    fn take(
        &mut self,
        client: VantageIx,
        observation: &Observation,
        topology: &Topology,
        world: &mut World,
        split: Split,
        fresh: &dyn Fn(&Block) -> bool,
    ) {
        let failure = match &observation.outcome {
            Outcome::NotAsked { .. } => return,
            Outcome::Ok { .. } => None,
            Outcome::Failed { phase, kind, status } => Some((*phase, (world.kinds.intern(kind), *status))),
        };
        match observation.channel {
            Channel::Mesh => {
                let Some(peer) = peer_of(observation) else { return };
                let dest = Dest::Peer(world.nodes.intern(&peer));
                self.once(client, Block::Mesh, Channel::Mesh, dest, failure.map(|f| f.1));
            }
            Channel::Dns => {
                let name = asked_name(observation, topology);
                let dest = Dest::Name(world.names.intern(&name));
                self.once(client, Block::Dns, Channel::Dns, dest, failure.map(|f| f.1));
            }
            Channel::Vip | Channel::Proxied | Channel::NodePort | Channel::Direct => {
                let resolved = observation.dns.is_some() || observation.times.resolve.is_some();
                let stuck = failure.filter(|(phase, _)| *phase == Phase::Resolve && split == Split::Phases);
                if resolved || stuck.is_some() {
                    let name = asked_name(observation, topology);
                    let dest = Dest::Name(world.names.intern(&name));
                    self.once(client, Block::Dns, Channel::Dns, dest, stuck.map(|f| f.1));
                }
                if stuck.is_none() {
                    self.reach(client, observation, topology, world, failure, split, fresh);
                }
            }
        }
    }

    fn once(
        &mut self,
        client: VantageIx,
        block: Block,
        channel: Channel,
        dest: Dest,
        failure: Option<Failure>,
    ) {
        self.enter(client, block, channel, dest, failure, Some(dest));
    }

    /// Books an outcome. All of one group share one vote; without a destination the whole block is a group.
    pub(crate) fn enter(
        &mut self,
        client: VantageIx,
        block: Block,
        channel: Channel,
        dest: Dest,
        failure: Option<Failure>,
        group: Option<Dest>,
    ) {
        self.entries
            .entry((client, block, group))
            .or_default()
            .push(Entry {
                dest,
                channel,
                failure,
            });
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one probe in its context, taken apart nowhere else"
    )]
    fn reach(
        &mut self,
        client: VantageIx,
        observation: &Observation,
        topology: &Topology,
        world: &mut World,
        failure: Option<(Phase, Failure)>,
        split: Split,
        fresh: &dyn Fn(&Block) -> bool,
    ) {
        let entry = observation
            .entry
            .as_ref()
            .or_else(|| observation.echo.as_ref().map(|echo| &echo.pod))
            .map(|pod| Dest::Entry(world.pods.intern(pod)));
        let (block, dest) = if observation.channel == Channel::Direct {
            let Some(dest) = entry else { return };
            let Some(block) = direct_of(observation, topology) else {
                return;
            };
            (block, dest)
        } else {
            // A node's own port is another way to the same entries: its cells belong beside those of the front.
            let front = match observation.channel {
                Channel::NodePort => default_front(topology, &observation.target),
                _ => front_of(topology, observation),
            };
            let Some(front) = front else {
                return;
            };
            (Block::Vip(front), entry.unwrap_or(Dest::Unknown))
        };
        // Front, endpoints and answers of one target change together.
        if !fresh(&block) || !fresh(&Block::Target(observation.target.clone())) {
            return;
        }
        if split == Split::Whole {
            self.once(client, block, observation.channel, dest, failure.map(|f| f.1));
            return;
        }
        let stage = match failure {
            None => Stage::Fine,
            Some((Phase::Resolve | Phase::Connect | Phase::ProxyHeader, failure)) => {
                Stage::Connecting(failure)
            }
            Some((Phase::Tls, failure)) => Stage::Silent(failure),
            Some((Phase::Request | Phase::FirstByte, failure)) => {
                if matches!(
                    world.kinds.name(failure.0),
                    FailureKind::Eof | FailureKind::Reset | FailureKind::FirstByteTimeout
                ) {
                    Stage::Silent(failure)
                } else {
                    Stage::Wrong(failure)
                }
            }
            Some((Phase::Body | Phase::Check, failure)) => Stage::Wrong(failure),
        };
        self.reached.entry((client, block)).or_default().push(Reached {
            dest,
            channel: observation.channel,
            target: observation.target.clone(),
            stage,
        });
    }

    /// Decides whose failure a missing first byte is, and books every probe on its subjects.
    fn settle(&mut self, world: &World, topology: &Topology) {
        let reached = std::mem::take(&mut self.reached);
        // Who met a front that is silent, through whatever address of its Service.
        let mut silenced = BTreeSet::new();
        for ((client, block), probes) in &reached {
            if let Block::Vip(front) = block
                && mostly_silent(probes.iter())
                && let Some(info) = topology.fronts().get(front)
            {
                silenced.insert((*client, Block::Direct(info.service.clone(), info.target_port)));
            }
        }
        for ((client, block), probes) in reached {
            let direct = matches!(block, Block::Direct(..));
            // An endpoint is compared with itself only: another endpoint's silence is not its own. Nor is a front less
            // silent because it answers with a PROXY header, or through another port.
            let silent_throughout = |probe: &Reached| {
                let compared = |p: &&Reached| p.channel == probe.channel && (!direct || p.dest == probe.dest);
                mostly_silent(probes.iter().filter(compared))
            };
            // What users see of a silent endpoint, where the front leads them to others too, is answers that fail.
            let shows = direct && !silenced.contains(&(client, block.clone()));
            let refusal = if direct { None } else { refusal_of(&probes, world) };
            for probe in &probes {
                let (front, target) = match probe.stage {
                    Stage::Connecting((kind, _))
                        if *world.kinds.name(kind) == FailureKind::ConnectTimeout =>
                    {
                        (refusal.or(probe.stage.failure()), None)
                    }
                    Stage::Connecting(failure) => (Some(failure), None),
                    Stage::Silent(failure) if silent_throughout(probe) => {
                        (Some(failure), shows.then_some(Some(failure)))
                    }
                    Stage::Silent(failure) | Stage::Wrong(failure) => (None, Some(Some(failure))),
                    Stage::Fine => (None, Some(None)),
                };
                let group = direct.then_some(probe.dest);
                self.entries
                    .entry((client, block.clone(), group))
                    .or_default()
                    .push(Entry {
                        dest: probe.dest,
                        channel: probe.channel,
                        failure: front,
                    });
                if let Some(failure) = target {
                    let block = Block::Target(probe.target.clone());
                    self.entries
                        .entry((client, block, Some(probe.dest)))
                        .or_default()
                        .push(Entry {
                            dest: probe.dest,
                            channel: probe.channel,
                            failure,
                        });
                }
            }
        }
    }

    /// Shares each group's one vote among its probes, and each stall's one vote among its failures.
    pub(crate) fn weigh(self, split: Split) -> BTreeMap<Block, RoundCells> {
        let mut clients: BTreeMap<VantageIx, ClientRound> = BTreeMap::new();
        for ((client, block, _), group) in &self.entries {
            let round = clients.entry(*client).or_default();
            let failed = group.iter().any(|entry| entry.failure.is_some());
            round.failures += u64::from(failed);
            if *block == Block::Mesh {
                round.controls += 1;
                round.failed_controls += u64::from(failed);
            }
        }
        let mut blocks: BTreeMap<Block, RoundCells> = BTreeMap::new();
        for ((client, block, _), group) in self.entries {
            let share = match split {
                Split::Phases => ONE / u64::try_from(group.len()).unwrap_or(u64::MAX),
                Split::Whole => ONE,
            };
            let divisor = clients.get(&client).map_or(1, |round| round.divisor());
            let cells = blocks.entry(block).or_default();
            for entry in group {
                let key = CellKey {
                    channel: entry.channel,
                    client,
                    dest: entry.dest,
                };
                let counts = cells.entry(key).or_default();
                counts.seen_n += share;
                if let Some(kind) = entry.failure {
                    let weight = share / divisor;
                    counts.n += weight;
                    counts.f += weight;
                    counts.seen_f += share;
                    let sum = counts.kinds.entry(kind).or_default();
                    sum.0 += weight;
                    sum.1 += share;
                } else {
                    counts.n += share;
                }
            }
        }
        blocks
    }
}

/// The endpoints that a direct probe is evidence of.
///
/// A prober dials an endpoint that is gone until its plan catches up. Nobody is sent there any more, so what it finds is
/// no evidence about those that are left.
pub(crate) fn direct_of(observation: &Observation, topology: &Topology) -> Option<Block> {
    let (service, port) = topology.targets().get(&observation.target)?.entry.clone()?;
    let gone = observation.entry.as_ref().is_some_and(|pod| {
        topology
            .service(&service)
            .is_none_or(|s| !s.usable().iter().any(|e| e.pod == *pod))
    });
    (!gone).then_some(Block::Direct(service, port))
}

/// The node of a mesh probe's peer.
pub(crate) fn peer_of(observation: &Observation) -> Option<parallax_model::NodeName> {
    observation
        .dst_node
        .clone()
        .or_else(|| observation.echo.as_ref().map(|echo| echo.node.clone()))
        .or_else(|| observation.target.as_str().strip_prefix("echo://")?.parse().ok())
}

/// Where a probe went, as far as it was said before it was made; nothing for names that no cell holds.
pub(crate) fn path_of(observation: &Observation, topology: &Topology, world: &World) -> Option<Dest> {
    Some(match observation.channel {
        Channel::Mesh => Dest::Peer(world.nodes.get(&peer_of(observation)?)?),
        Channel::Dns => Dest::Name(world.names.get(&asked_name(observation, topology))?),
        Channel::Direct => Dest::Entry(world.pods.get(observation.entry.as_ref()?)?),
        Channel::Vip | Channel::Proxied | Channel::NodePort => Dest::Unknown,
    })
}

/// The name a probe asked for.
pub(crate) fn asked_name(observation: &Observation, topology: &Topology) -> String {
    let of_target =
        topology
            .targets()
            .get(&observation.target)
            .and_then(|placed| match &placed.target.probe {
                ProbeSpec::Http(http) => Some(http.host.to_string()),
                ProbeSpec::Tcp(tcp) => Some(tcp.host.to_string()),
                ProbeSpec::Dns(dns) => Some(dns.name.to_string()),
                ProbeSpec::Echo { .. } => None,
            });
    of_target
        .or_else(|| observation.dns.as_ref().map(|answer| answer.name.clone()))
        .unwrap_or_else(|| observation.target.to_string())
}
