//! Draws the cluster and the faults of one trial.

use super::{
    super::rng::Rng,
    fault::{BrokenPart, FailureMode, Fault, FaultKind, SECOND_US},
    layout::{Cluster, NodeIx, PodIx, ZONES},
    sets::{Severity, Timing, Victims, WholeSet},
};

/// Seconds without a fault at the end of each trial.
pub const QUIET_AFTER_S: i64 = 180;

/// How an entry answers if an origin does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPatience {
    /// It answers 504 after a second.
    Answers,
    /// It waits for longer than the client.
    OutlastsClient,
}

/// Everything that is decided before the first probe of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct WholePlan {
    /// The cluster.
    pub cluster: Cluster,
    /// The faults, by start.
    pub faults: Vec<Fault>,
    /// Number of rounds.
    pub rounds: i64,
    /// Peers that each prober asks in a round.
    pub peers: usize,
    /// How entries answer for origins that do not.
    pub patience: EntryPatience,
    /// Whether what a vantage could not report arrives after the cure; otherwise it is lost.
    pub late_delivery: bool,
    /// Probability that a probe fails without any fault.
    pub background: f64,
    /// Names that a lookup tries.
    pub names: usize,
}

/// Draws a trial of a set.
#[must_use]
pub fn plan(set: &WholeSet, number: usize, rng: &mut Rng) -> WholePlan {
    let cluster = Cluster::draw(set.nodes, rng);
    let before = 60 + seconds(rng.below(15));
    let mut faults: Vec<Fault> = kinds(set, number, rng)
        .into_iter()
        .enumerate()
        .map(|(index, kind)| {
            // Later faults start up to half a minute after the first.
            let delay = if index == 0 { 0 } else { seconds(rng.below(30)) };
            fault(set, kind, number, before + delay, &cluster, rng)
        })
        .collect();
    faults.sort_by_key(Fault::start);
    let quiet_end = match set.timing {
        Timing::Once(duration) => before + duration,
        Timing::Flapping => before + 600,
    };
    let end = faults
        .iter()
        .map(|fault| fault.end() / SECOND_US)
        .fold(quiet_end, i64::max);
    WholePlan {
        faults,
        rounds: (end + QUIET_AFTER_S + 4) / 5,
        peers: rng.in_range((3, 5)),
        patience: if rng.chance(0.75) {
            EntryPatience::Answers
        } else {
            EntryPatience::OutlastsClient
        },
        late_delivery: rng.chance(0.5),
        background: set.background,
        names: set.names,
        cluster,
    }
}

fn seconds(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(0)
}

/// The first kind in turn; the others at random, each kind once.
fn kinds(set: &WholeSet, number: usize, rng: &mut Rng) -> Vec<FaultKind> {
    if set.faults == 0 {
        return Vec::new();
    }
    let first = set.kinds[number % set.kinds.len()];
    let mut others: Vec<FaultKind> = set.kinds.iter().copied().filter(|kind| *kind != first).collect();
    rng.shuffle(&mut others);
    others.insert(0, first);
    others.truncate(set.faults);
    others
}

fn fault(
    set: &WholeSet,
    kind: FaultKind,
    number: usize,
    start_s: i64,
    cluster: &Cluster,
    rng: &mut Rng,
) -> Fault {
    let part = part(set.victims, kind, cluster, rng);
    let theta = match set.severity {
        Severity::Hard if kind == FaultKind::Cross => 0.4,
        Severity::Hard => 0.98,
        Severity::Between(low, high) => rng.range(low, high),
    };
    let mode = match part {
        BrokenPart::App(_) => FailureMode::Unavailable,
        BrokenPart::Pod(_) | BrokenPart::StaleProxy(..) | BrokenPart::Front if rng.chance(0.5) => {
            FailureMode::Refused
        }
        _ => FailureMode::Loss,
    };
    let active = match set.timing {
        Timing::Once(duration) => vec![(start_s, start_s + duration)],
        Timing::Flapping => {
            // Kinds are used in turn, so the two rhythms change after each turn.
            let on = if (number / set.kinds.len().max(1)).is_multiple_of(2) {
                20
            } else {
                40
            };
            (0..10)
                .map(|lap| (start_s + 60 * lap, start_s + 60 * lap + on))
                .collect()
        }
    };
    Fault {
        part,
        theta,
        mode,
        active: active
            .into_iter()
            .map(|(start, end)| (start * SECOND_US, end * SECOND_US))
            .collect(),
    }
}

fn part(victims: Victims, kind: FaultKind, cluster: &Cluster, rng: &mut Rng) -> BrokenPart {
    let nodes = cluster.nodes();
    let hub = cluster.node_of(cluster.aggregator);
    match kind {
        // Without the node of the aggregator nothing would be recorded.
        FaultKind::Node => BrokenPart::Node(dead_node(victims, cluster, hub, rng)),
        FaultKind::Client => {
            // A node that can report although nothing leaves it, or one whose entry others see fail.
            let entry = cluster.node_of(*rng.pick(&cluster.entries));
            BrokenPart::Client(if rng.chance(0.5) { hub } else { entry })
        }
        FaultKind::Pair => {
            let (a, b) = two(nodes, rng);
            BrokenPart::Pair(a, b)
        }
        FaultKind::Zones => {
            let (a, b) = two(ZONES, rng);
            BrokenPart::Zones(a, b)
        }
        FaultKind::Pod => {
            let origins = cluster.origins.iter().flatten();
            let pods: Vec<PodIx> = match victims {
                Victims::Hosts => cluster.entries.clone(),
                Victims::Any => cluster.entries.iter().chain(origins).copied().collect(),
            };
            BrokenPart::Pod(*rng.pick(&pods))
        }
        FaultKind::App => BrokenPart::App(rng.below(cluster.origins.len())),
        FaultKind::Resolver => BrokenPart::Resolver(*rng.pick(&cluster.resolvers)),
        FaultKind::Resolvers => BrokenPart::Resolvers,
        FaultKind::StaleProxy => {
            let mut fronts = cluster.fronts();
            rng.shuffle(&mut fronts);
            fronts.truncate(rng.in_range((2, fronts.len())));
            fronts.sort_unstable();
            BrokenPart::StaleProxy(rng.below(nodes), fronts)
        }
        FaultKind::Front => BrokenPart::Front,
        FaultKind::Cross => BrokenPart::Cross,
        FaultKind::ZoneBarred => BrokenPart::ZoneBarred(rng.below(ZONES)),
    }
}

fn dead_node(victims: Victims, cluster: &Cluster, hub: NodeIx, rng: &mut Rng) -> NodeIx {
    let mut candidates: Vec<NodeIx> = match victims {
        Victims::Any => (0..cluster.nodes()).collect(),
        Victims::Hosts => {
            let pods = cluster.entries.iter().chain(&cluster.resolvers);
            pods.map(|pod| cluster.node_of(*pod)).collect()
        }
    };
    candidates.retain(|node| *node != hub);
    *rng.pick(&candidates)
}

fn two(count: usize, rng: &mut Rng) -> (usize, usize) {
    let a = rng.below(count);
    let b = (a + 1 + rng.below(count - 1)) % count;
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::{super::sets::WHOLE_SETS, *};

    #[test]
    fn every_trial_is_quiet_at_first_and_three_minutes_after_the_cure() {
        for set in WHOLE_SETS {
            for number in 0..14 {
                let plan = plan(set, number, &mut Rng::from_words(&[9, number as u64]));
                assert_eq!(plan.faults.len(), set.faults, "{}", set.name);
                for fault in &plan.faults {
                    assert!(fault.start() >= 60 * SECOND_US);
                    assert!(fault.end() + QUIET_AFTER_S * SECOND_US <= plan.rounds * 5 * SECOND_US);
                    let hub = plan.cluster.node_of(plan.cluster.aggregator);
                    assert_ne!(fault.part, BrokenPart::Node(hub));
                }
            }
        }
    }

    #[test]
    fn every_kind_of_a_set_gets_its_turn() {
        let set = WHOLE_SETS[0];
        let drawn: std::collections::BTreeSet<_> = (0..set.kinds.len())
            .map(|number| {
                plan(&set, number, &mut Rng::from_words(&[1])).faults[0]
                    .part
                    .kind()
            })
            .collect();
        assert_eq!(drawn.len(), set.kinds.len());
    }
}
