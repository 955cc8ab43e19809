//! Makes the probes of a trial and finds out what each client sees.

use parallax_model::{FailureKind, Outcome, Phase};

use super::{
    super::rng::Rng,
    draw::{EntryPatience, WholePlan},
    fault::{FailureMode, Fault},
    hops::{Hop, HopStage, ScheduledProbe},
    layout::{ClusterTarget, NodeIx, PodIx},
    lookup::{self, Lookup, random_us},
    schedule::Schedule,
};

/// Length of a round.
pub const ROUND_US: i64 = 5_000_000;
/// Timeout of a probe.
pub const TIMEOUT_US: i64 = 3_000_000;

/// The faults that probes run into.
#[derive(Debug, Clone, Copy)]
pub struct Conditions<'a> {
    /// The trial.
    pub plan: &'a WholePlan,
}

/// The fault that breaks a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenHop {
    /// Of several faults, the one that a packet meets first.
    pub fault: usize,
    /// How the hop fails.
    pub mode: FailureMode,
    /// Whether another fault breaks the hop as well.
    pub is_hidden: bool,
}

/// One probe and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenProbe {
    /// The client.
    pub client: NodeIx,
    /// The probe.
    pub probe: ScheduledProbe,
    /// The assignment of the request that it answers; `None` if it was scheduled.
    pub requested: Option<String>,
    /// Its round.
    pub round: i64,
    /// Its start.
    pub started: i64,
    /// Its duration.
    pub took: i64,
    /// The outcome.
    pub outcome: Outcome,
    /// The lookup, if it had one.
    pub lookup: Option<Lookup>,
    /// The Pod that the client knows it talked to: a direct probe's, the one of a headless name, or the one that answered.
    pub entry: Option<PodIx>,
    /// Durations of connect and first byte, if reached.
    pub phases: (Option<i64>, Option<i64>),
    /// The fault that failed it; `None` for a success or a failure by chance.
    pub fault: Option<usize>,
    /// Whether it would fail without that fault too, because of another one.
    pub is_hidden: bool,
    /// When its report arrived; `None` if it never did.
    pub delivered: Option<i64>,
}

impl SeenProbe {
    /// Reports whether its lookup failed, so that no connection was made.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        self.lookup.is_some_and(|lookup| lookup.failed.is_some())
    }
}

impl Conditions<'_> {
    /// Returns the fault that breaks a hop at a time, if one does.
    pub fn broken(&self, hop: &Hop, at: i64, rng: &mut Rng) -> Option<BrokenHop> {
        let plan = self.plan;
        let striking = plan.faults.iter().enumerate().filter(|(_, fault)| {
            fault.is_active(at) && fault.part.touches(hop, &plan.cluster) && rng.chance(fault.theta)
        });
        let striking: Vec<(usize, &Fault)> = striking.collect();
        let (index, first) = striking.iter().min_by_key(|(_, fault)| fault.part.place())?;
        Some(BrokenHop {
            fault: *index,
            mode: first.mode,
            is_hidden: striking.len() > 1,
        })
    }

    /// Reports whether the prober of a node is dead at a time.
    #[must_use]
    pub fn is_silent(&self, node: NodeIx, at: i64) -> bool {
        self.plan.faults.iter().any(|fault| fault.silences(node, at))
    }
}

/// Makes all probes of a trial, ordered by client and start.
pub fn run(plan: &WholePlan, rng: &mut Rng) -> Vec<SeenProbe> {
    let conditions = Conditions { plan };
    let schedule = Schedule::draw(plan, rng);
    let mut seen = Vec::new();
    for client in 0..plan.cluster.nodes() {
        for round in 0..plan.rounds {
            for (probe, offset) in schedule.probes(plan, client, round) {
                let at = round * ROUND_US + offset;
                if !conditions.is_silent(client, at) {
                    seen.push(make(conditions, client, probe, round, at, rng));
                }
            }
        }
    }
    seen
}

/// Counts the failures that show each fault: reported before it ended, and not failing without it because of another one, such as a
/// pair of nodes in two zones that are cut off from each other, or one Pod of an application that answers no request. A cut may
/// delay the other reports until after the end, when the engine no longer names the fault.
#[must_use]
pub fn delivered_failures(plan: &WholePlan, seen: &[SeenProbe]) -> Vec<usize> {
    let mut failures = vec![0; plan.faults.len()];
    for probe in seen {
        if let (Some(fault), Some(delivered)) = (probe.fault, probe.delivered)
            && delivered <= plan.faults[fault].end()
            && !probe.is_hidden
        {
            failures[fault] += 1;
        }
    }
    failures
}

/// Makes one probe at a time.
pub(super) fn make(
    conditions: Conditions<'_>,
    client: NodeIx,
    probe: ScheduledProbe,
    round: i64,
    at: i64,
    rng: &mut Rng,
) -> SeenProbe {
    let plan = conditions.plan;
    let unlucky = rng.chance(plan.background);
    let mut seen = SeenProbe {
        client,
        probe,
        requested: None,
        round,
        started: at,
        took: 0,
        outcome: Outcome::Ok { status: Some(200) },
        lookup: None,
        entry: None,
        phases: (None, None),
        fault: None,
        is_hidden: false,
        delivered: None,
    };
    if probe.looks_up() {
        let both = probe != ScheduledProbe::Name;
        let mut lookup = lookup::run(conditions, client, at, both, rng);
        if unlucky && !both && lookup.failed.is_none() {
            lookup = lookup::random_loss(both);
        }
        seen.took = lookup.took;
        seen.lookup = Some(lookup);
        if let Some(lost) = lookup.failed {
            seen.fault = lost.fault;
            seen.is_hidden = lost.is_hidden;
            seen.outcome = failed(Phase::Resolve, FailureKind::ResolveTimeout);
            return seen;
        }
        if !both {
            seen.outcome = Outcome::Ok { status: None };
            return seen;
        }
    }
    let path = rng.pick(&probe.connections(&plan.cluster, client)).clone();
    connect(conditions, &mut seen, &path, unlucky, rng);
    seen
}

/// Follows a path and fills in what the client sees of it.
fn connect(conditions: Conditions<'_>, seen: &mut SeenProbe, path: &[Hop], unlucky: bool, rng: &mut Rng) {
    let plan = conditions.plan;
    let at = seen.started + seen.took;
    let connect_us = hop_time(&path[0], plan, rng);
    let first_byte = if path[0].stage == HopStage::Echo {
        1_000
    } else {
        let onward: i64 = path[1..].iter().map(|hop| hop_time(hop, plan, rng)).sum();
        4_000 + random_us(rng, 9_000) + onward
    };
    // The client dials one Pod and knows it, unless a Service selects.
    let dialled = match seen.probe {
        ScheduledProbe::Direct(..)
        | ScheduledProbe::Mesh(_)
        | ScheduledProbe::Vip(ClusterTarget::Headless(_)) => Some(path[0].pod),
        _ => None,
    };
    let broken = path.iter().find_map(|hop| {
        let broken = conditions.broken(hop, at, rng)?;
        Some((hop.stage, broken))
    });
    let seen_at = match broken {
        None if unlucky => Some((timeout(Phase::Connect), TIMEOUT_US)),
        None => None,
        Some((stage, broken)) => {
            seen.fault = Some(broken.fault);
            seen.is_hidden = broken.is_hidden;
            let soft = plan.faults[broken.fault].theta < 0.5;
            Some(failure(stage, broken.mode, soft, plan.patience, rng))
        }
    };
    match seen_at {
        None => {
            let answers = seen.probe == ScheduledProbe::Vip(ClusterTarget::IngressAddress)
                || matches!(seen.probe, ScheduledProbe::Vip(ClusterTarget::Host(_)));
            seen.entry = dialled.or(answers.then_some(path[0].pod));
            seen.phases = (Some(connect_us), Some(first_byte));
            seen.took += connect_us + first_byte;
        }
        Some((outcome, took)) => {
            seen.entry = dialled;
            // The timeout covers the whole probe, with its lookup.
            let left = TIMEOUT_US - seen.took;
            let reached = !matches!(
                outcome,
                Outcome::Failed {
                    phase: Phase::Connect,
                    ..
                }
            );
            if reached {
                let waited = took.min(left - connect_us);
                seen.phases = (Some(connect_us), Some(waited));
                seen.took += connect_us + waited;
            } else {
                let waited = took.min(left);
                seen.phases = (Some(waited), None);
                seen.took += waited;
            }
            seen.outcome = outcome;
        }
    }
}

/// What a client sees of a broken hop, and after which time.
fn failure(
    stage: HopStage,
    mode: FailureMode,
    soft: bool,
    patience: EntryPatience,
    rng: &mut Rng,
) -> (Outcome, i64) {
    match (stage, mode) {
        (_, FailureMode::Unavailable) => (status(503), 6_000),
        (HopStage::Forward, FailureMode::Refused) => (status(502), 6_000),
        (HopStage::Forward, FailureMode::Loss) => match patience {
            EntryPatience::Answers => (status(504), 1_010_000),
            EntryPatience::OutlastsClient => (timeout(Phase::FirstByte), TIMEOUT_US),
        },
        (_, FailureMode::Refused) => (failed(Phase::Connect, FailureKind::Refused), 700),
        // Where only some packets are lost, a connection may be established before one is.
        (_, FailureMode::Loss) if soft && rng.chance(0.3) => (timeout(Phase::FirstByte), TIMEOUT_US),
        (_, FailureMode::Loss) => (timeout(Phase::Connect), TIMEOUT_US),
    }
}

const fn failed(phase: Phase, kind: FailureKind) -> Outcome {
    Outcome::Failed {
        phase,
        kind,
        status: None,
    }
}

const fn timeout(phase: Phase) -> Outcome {
    match phase {
        Phase::FirstByte => failed(phase, FailureKind::FirstByteTimeout),
        _ => failed(phase, FailureKind::ConnectTimeout),
    }
}

const fn status(status: u16) -> Outcome {
    Outcome::Failed {
        phase: Phase::Check,
        kind: FailureKind::Status,
        status: Some(status),
    }
}

/// Round trip of a hop: within a node, between nodes, or between zones.
fn hop_time(hop: &Hop, plan: &WholePlan, rng: &mut Rng) -> i64 {
    let zones = &plan.cluster.zones;
    let least = if hop.from == hop.to {
        250
    } else if zones[hop.from] == zones[hop.to] {
        600
    } else {
        1_200
    };
    least + random_us(rng, least)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            draw,
            fault::{BrokenPart, Fault},
            sets::WholeSet,
        },
        *,
    };

    #[test]
    fn a_packet_fails_of_the_first_fault_on_its_way() {
        let rng = &mut Rng::from_words(&[7]);
        let mut plan = draw::plan(WholeSet::named("healthy-whole").unwrap(), 0, rng);
        let origin = plan.cluster.origins[0][0];
        let node = plan.cluster.node_of(origin);
        let fault = |part, mode| Fault {
            part,
            theta: 1.0,
            mode,
            active: vec![(0, 10)],
        };
        plan.faults = vec![
            fault(BrokenPart::App(0), FailureMode::Unavailable),
            fault(BrokenPart::Pod(origin), FailureMode::Refused),
            fault(BrokenPart::Node(node), FailureMode::Loss),
        ];
        let hop = Hop::new(
            &plan.cluster,
            (node + 1) % plan.cluster.nodes(),
            origin,
            HopStage::Connection(None),
        );
        let mut modes = Vec::new();
        while !plan.faults.is_empty() {
            let broken = Conditions { plan: &plan }.broken(&hop, 5, rng).unwrap();
            assert_eq!(broken.is_hidden, plan.faults.len() > 1);
            modes.push(broken.mode);
            plan.faults.remove(broken.fault);
        }
        let order = [FailureMode::Loss, FailureMode::Refused, FailureMode::Unavailable];
        assert_eq!(modes, order, "a dead node answers nothing");
    }

    #[test]
    fn a_pair_in_zones_that_are_cut_off_shows_in_no_failure() {
        let rng = &mut Rng::from_words(&[7]);
        let mut plan = draw::plan(WholeSet::named("three-faults-12").unwrap(), 0, rng);
        let zones = plan.cluster.zones.clone();
        let other = (1..zones.len()).find(|node| zones[*node] != zones[0]).unwrap();
        let fault = |part, active| Fault {
            part,
            theta: 1.0,
            mode: FailureMode::Loss,
            active: vec![active],
        };
        let last = plan.rounds * ROUND_US;
        let reported = |plan: &mut WholePlan, cut: i64| {
            plan.faults = vec![
                fault(BrokenPart::Pair(0, other), (0, last)),
                fault(BrokenPart::Zones(zones[0], zones[other]), (cut, last)),
            ];
            let mut seen = run(plan, &mut Rng::from_words(&[8]));
            for probe in &mut seen {
                probe.delivered = Some(probe.started + probe.took);
            }
            delivered_failures(plan, &seen)[0]
        };
        assert_eq!(
            reported(&mut plan, 0),
            0,
            "the cut of the zones fails them as well"
        );
        assert!(reported(&mut plan, last) > 0, "the pair alone");
    }
}
