//! Runs a trial: which client probes what and when, and the outcomes.
//!
//! A client's round starts at its own phase within the interval; its probes follow each other closely. A probe fails
//! with 1 − (1−θ1·[in the region])·(1−θ0), once per fault; a stalled client's probes fail together.

use std::collections::BTreeMap;

use super::{
    draw::Plan,
    kinds::{self, DrawnFailure},
    region::{ProbeApproach, ProbeClient, TruePath},
    rng::Rng,
    sets::OutputForm,
};

/// Length of a round.
pub const INTERVAL_US: i64 = 5_000_000;
/// Timeout of a probe.
pub const TIMEOUT_US: u64 = 3_000_000;
/// Timeout of a DNS query.
const DNS_TIMEOUT_US: u64 = 2_000_000;
/// Time between two probes of one client, if all of them fit into its second.
const PROBE_SPACING_US: i64 = 120_000;
/// Probability that a probe of a stalled client fails.
const STALLED_FAILURE_PROBABILITY: f64 = 0.7;
/// Consecutive failures after which a PROXY header is tried.
const FAILURES_BEFORE_PROXIED: usize = 3;
/// Share of user connections that reach a removed endpoint in the round in which it moves.
const STALE_ENDPOINT_SHARE: f64 = 0.1;
/// Number of hosts of one front that get direct probes; the others would repeat them.
const DIRECT_HOSTS: usize = 3;

/// One probe and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedProbe {
    /// Start, relative to the beginning of the trial.
    pub at_us: i64,
    /// Its round.
    pub round: usize,
    /// Its actual path.
    pub path: TruePath,
    /// Its failure, if any.
    pub failure: Option<DrawnFailure>,
    /// Its duration.
    pub took_us: u64,
    /// The request that it belongs to; absent for scheduled probes.
    pub assignment: Option<String>,
}

/// A completed trial.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedTrial {
    /// The plan.
    pub plan: Plan,
    /// Output format.
    pub form: OutputForm,
    /// The probes, in order of their start.
    pub probes: Vec<SimulatedProbe>,
    /// Failures not caused by a fault.
    pub background_failures: usize,
}

#[derive(Debug)]
struct ClientState {
    phase_us: i64,
    /// Consecutive user failures, by front and host.
    consecutive_failures: BTreeMap<(usize, usize), usize>,
}

/// Runs a trial.
#[must_use]
pub fn run(plan: Plan, form: OutputForm, rng: &mut Rng) -> SimulatedTrial {
    let mut simulation = Simulation::new(plan, rng);
    for round in 0..simulation.plan.rounds {
        simulation.round(round);
    }
    simulation.into_trial(form)
}

/// A trial that runs round by round.
#[derive(Debug)]
pub struct Simulation<'r> {
    pub(super) plan: Plan,
    rng: &'r mut Rng,
    /// Requested probes use a separate stream: the scheduled probes are the same with and without them.
    asked_rng: Rng,
    clients: Vec<(ProbeClient, ClientState)>,
    shots: Vec<SimulatedProbe>,
    background_failures: usize,
}

impl<'r> Simulation<'r> {
    /// Creates a trial before its first round.
    pub fn new(plan: Plan, rng: &'r mut Rng) -> Self {
        let world = &plan.world;
        let inside = world.clients().map(ProbeClient::Node);
        let clients = inside
            .chain((0..world.outside).map(ProbeClient::Outside))
            .map(|client| {
                let state = ClientState {
                    phase_us: 100_000 + micros(rng, INTERVAL_US - 1_300_000),
                    consecutive_failures: BTreeMap::new(),
                };
                (client, state)
            })
            .collect();
        Self {
            plan,
            asked_rng: rng.clone(),
            rng,
            clients,
            shots: Vec::new(),
            background_failures: 0,
        }
    }

    /// Makes the scheduled probes of a round, in order of their start.
    pub fn round(&mut self, round: usize) -> Vec<SimulatedProbe> {
        let mut runner = RoundRunner {
            plan: &self.plan,
            rng: self.rng,
            background_failures: 0,
        };
        let mut shots = Vec::new();
        for (client, state) in &mut self.clients {
            runner.round(round, *client, state, &mut shots);
        }
        self.background_failures += runner.background_failures;
        shots.sort_by_key(|shot| (shot.at_us, shot.path.client));
        self.shots.extend(shots.iter().cloned());
        shots
    }

    /// Makes requested probes in a round, after each client's scheduled ones. Requests to clients that do not exist are
    /// ignored.
    pub fn make_requested_probes(
        &mut self,
        round: usize,
        asks: &[super::closed_loop::RequestedProbe],
    ) -> Vec<SimulatedProbe> {
        let mut runner = RoundRunner {
            plan: &self.plan,
            rng: &mut self.asked_rng,
            background_failures: 0,
        };
        let mut shots = Vec::new();
        for ask in asks {
            let found = self.clients.iter().find(|(client, _)| *client == ask.client);
            let Some((_, state)) = found else { continue };
            let begin = i64::try_from(round).unwrap_or(0) * INTERVAL_US + state.phase_us + 1_050_000;
            let before = shots
                .iter()
                .filter(|s: &&SimulatedProbe| s.path.client == ask.client)
                .count();
            let at_us = begin + i64::try_from(before.min(10)).unwrap_or(0) * 10_000;
            let epoch = runner.plan.world.epoch(round);
            let path = match ask.way {
                way @ (ProbeApproach::Vip | ProbeApproach::Proxied) => {
                    runner.user_path(epoch, ask.client, 0, 0, way)
                }
                way => TruePath {
                    way,
                    client: ask.client,
                    front: (way == ProbeApproach::Direct).then_some((0, 0)),
                    pod: ask.pod,
                    node: ask.pod.map(|pod| runner.plan.world.pods[pod].node).or(ask.peer),
                    name: ask.name,
                    no_local: false,
                },
            };
            let shot = SimulatedProbe {
                assignment: Some(ask.assignment.clone()),
                ..runner.make_probe(at_us, round, path, false)
            };
            // A probe that is not evidence separates nothing in the table of paths.
            if !ask.not_evidence {
                self.shots.push(shot.clone());
            }
            shots.push(shot);
        }
        self.background_failures += runner.background_failures;
        shots.sort_by_key(|shot| (shot.at_us, shot.path.client));
        shots
    }

    /// Returns the completed trial.
    #[must_use]
    pub fn into_trial(mut self, form: OutputForm) -> SimulatedTrial {
        self.shots.sort_by_key(|shot| (shot.at_us, shot.path.client));
        SimulatedTrial {
            plan: self.plan,
            form,
            probes: self.shots,
            background_failures: self.background_failures,
        }
    }
}

fn micros(rng: &mut Rng, below: i64) -> i64 {
    let below = usize::try_from(below).unwrap_or(0);
    i64::try_from(rng.below(below)).unwrap_or(0)
}

struct RoundRunner<'a> {
    plan: &'a Plan,
    rng: &'a mut Rng,
    background_failures: usize,
}

impl RoundRunner<'_> {
    fn round(
        &mut self,
        round: usize,
        client: ProbeClient,
        state: &mut ClientState,
        shots: &mut Vec<SimulatedProbe>,
    ) {
        let world = &self.plan.world;
        let stalled = self.rng.chance(self.plan.stall);
        let start =
            i64::try_from(round).unwrap_or(0) * INTERVAL_US + state.phase_us + micros(self.rng, 160_000)
                - 80_000;
        let per_front = world.hosts * 2 + world.hosts.min(DIRECT_HOSTS);
        let in_a_round = i64::try_from(world.fronts() * per_front + 4).unwrap_or(i64::MAX);
        let mut at_us = start;
        let step = PROBE_SPACING_US.min(960_000 / in_a_round);
        let inside = matches!(client, ProbeClient::Node(_));
        let epoch = world.epoch(round);
        let bare = |way| TruePath {
            way,
            client,
            front: None,
            pod: None,
            node: None,
            name: None,
            no_local: false,
        };
        let mut take = |this: &mut Self, path: TruePath| -> bool {
            let shot = this.make_probe(at_us, round, path, stalled);
            at_us += step;
            let failed = shot.failure.is_some();
            shots.push(shot);
            failed
        };
        for front in 0..world.fronts() {
            for host in 0..world.hosts {
                let mut resolved = true;
                if world.channels.dns {
                    let name = world.host_name(front, host);
                    resolved = !take(
                        self,
                        TruePath {
                            name: Some(name),
                            ..bare(ProbeApproach::Dns)
                        },
                    );
                    // The control name, queried separately next to the target's name.
                    if world.fronts() * world.hosts == 1 && round.is_multiple_of(2) {
                        take(
                            self,
                            TruePath {
                                name: Some(world.control_name()),
                                ..bare(ProbeApproach::Dns)
                            },
                        );
                    }
                }
                if resolved {
                    let path = self.user_path(epoch, client, front, host, ProbeApproach::Vip);
                    let failed = take(self, path);
                    let in_a_row = state.consecutive_failures.entry((front, host)).or_default();
                    *in_a_row = if failed { *in_a_row + 1 } else { 0 };
                    if world.channels.proxied && *in_a_row >= FAILURES_BEFORE_PROXIED {
                        let path = self.user_path(epoch, client, front, host, ProbeApproach::Proxied);
                        take(self, path);
                    }
                }
            }
            if let (true, ProbeClient::Node(node)) = (world.channels.direct, client) {
                let endpoints = world.endpoints(epoch, front);
                for host in 0..world.hosts.min(DIRECT_HOSTS) {
                    let pod = endpoints[(node + round + host) % endpoints.len()];
                    let path = TruePath {
                        front: Some((front, host)),
                        pod: Some(pod),
                        node: Some(world.pods[pod].node),
                        ..bare(ProbeApproach::Direct)
                    };
                    take(self, path);
                }
            }
        }
        if inside && world.channels.mesh {
            for peer in self.peers(client, round) {
                take(
                    self,
                    TruePath {
                        node: Some(peer),
                        ..bare(ProbeApproach::Mesh)
                    },
                );
            }
        }
    }

    /// Returns two other probers, rotating.
    fn peers(&self, client: ProbeClient, round: usize) -> Vec<usize> {
        let probers: Vec<usize> = self.plan.world.clients().collect();
        let others = probers.len() - 1;
        let own = probers
            .iter()
            .position(|node| client == ProbeClient::Node(*node))
            .unwrap_or(0);
        let mut peers: Vec<usize> = (0..2)
            .map(|d| probers[(own + 1 + (2 * round + d) % others.max(1)) % probers.len()])
            .collect();
        peers.dedup();
        peers
    }

    fn user_path(
        &mut self,
        epoch: usize,
        client: ProbeClient,
        front: usize,
        host: usize,
        way: ProbeApproach,
    ) -> TruePath {
        let world = &self.plan.world;
        let eligible = world.eligible(epoch, front, client);
        let pod = *self.rng.pick(&eligible);
        TruePath {
            way,
            client,
            front: Some((front, host)),
            pod: Some(pod),
            node: Some(world.pods[pod].node),
            name: None,
            no_local: world.no_local(epoch, front, client),
        }
    }

    fn make_probe(&mut self, at_us: i64, round: usize, path: TruePath, stalled: bool) -> SimulatedProbe {
        let mut failure = None;
        for fault in &self.plan.faults {
            if fault.active(round) && fault.breaks(&path, &self.plan.world) && self.rng.chance(fault.theta1) {
                let kind = self.rng.weighted(&fault.mix).on_channel(path.way);
                failure = failure.or(Some(kind));
            }
        }
        if failure.is_none() {
            failure = self.background(round, &path, stalled);
            self.background_failures += usize::from(failure.is_some());
        }
        let took_us = match failure {
            Some(kind) if kind.runs_into_timeout() && path.way == ProbeApproach::Dns => DNS_TIMEOUT_US,
            Some(kind) if kind.runs_into_timeout() => TIMEOUT_US,
            _ => 200 + u64::try_from(self.rng.below(2_400) + self.rng.below(2_400)).unwrap_or(0),
        };
        SimulatedProbe {
            at_us,
            round,
            path,
            failure,
            took_us,
            assignment: None,
        }
    }

    fn background(&mut self, round: usize, path: &TruePath, stalled: bool) -> Option<DrawnFailure> {
        if stalled && self.rng.chance(STALLED_FAILURE_PROBABILITY) {
            return Some(DrawnFailure::Timeout);
        }
        let world = &self.plan.world;
        let moves = world.epochs.iter().skip(1).any(|epoch| epoch.from == round);
        let user = matches!(path.way, ProbeApproach::Vip) && path.front.is_some_and(|(front, _)| front == 0);
        if moves && user && self.rng.chance(STALE_ENDPOINT_SHARE) {
            return Some(DrawnFailure::Refused);
        }
        // A front that expects no PROXY header rejects one.
        let expects_header = self
            .plan
            .faults
            .iter()
            .any(|f| f.region == super::region::Region::ProtoVip && f.active(round));
        if path.way == ProbeApproach::Proxied && !expects_header {
            return Some(DrawnFailure::Status(400));
        }
        if self.rng.chance(self.plan.theta0) {
            return Some(self.rng.weighted(kinds::background(path.way)));
        }
        None
    }
}
