//! Ten simulated hours of ordinary events without any fault.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use parallax_diagnosis::{Checkpoint, view::View};
use parallax_model::{EventTime, Recorded};
use serde_json::{Value, json};

use crate::{
    scripted_mesh::{INTERVAL, NODES, ScriptedMesh, cluster, nodes, open_sentences},
    splitmix::SplitMix,
};

const HOURS: i64 = 10;
const ROUNDS: i64 = HOURS * 3_600_000_000 / INTERVAL;
/// Rounds that the probers resend to a restarted aggregator.
const MEMORY: i64 = 24;
/// Time for which a resolver caches an answer, in seconds.
const TTL: u32 = 30;
/// Share of connections that are lost at random.
const LOST: f64 = 0.001;

type Failure = Option<(&'static str, &'static str)>;
const TIMEOUT: Failure = Some(("connect", "connect_timeout"));

/// Nodes that may be drained; the others have the Pods of the ClusterIP.
const MOVABLE: [usize; 4] = [1, 2, 4, 5];

struct OrdinaryNight {
    day: ScriptedMesh,
    random: SplitMix,
    /// Nodes of the cluster.
    present: BTreeSet<usize>,
    /// Node of each endpoint of the headless Service, by Pod.
    database: BTreeMap<usize, usize>,
    next_pod: usize,
    /// Rounds during which a prober is absent, and rounds whose reports are late.
    away: BTreeMap<usize, Range<i64>>,
    late: BTreeMap<usize, Range<i64>>,
    /// Addresses that one replica of the resolver still returns, and until which round.
    cached: Option<(Vec<String>, i64)>,
    events: BTreeMap<&'static str, usize>,
}

impl OrdinaryNight {
    fn new(seed: u64) -> Self {
        let database = BTreeMap::from([(0, 0), (1, 1), (2, 4)]);
        let mut night = Self {
            day: ScriptedMesh::new(json!({"proxyMode": "iptables"})),
            random: SplitMix::new(seed),
            present: (0..NODES).collect(),
            database,
            next_pod: 3,
            away: BTreeMap::new(),
            late: BTreeMap::new(),
            cached: None,
            events: BTreeMap::new(),
        };
        night.change(0);
        night
    }

    fn spec(&self) -> Value {
        let nodes: Vec<Value> = nodes(NODES)
            .into_iter()
            .enumerate()
            .filter(|(node, _)| self.present.contains(node))
            .map(|(_, node)| node)
            .collect();
        let database: Vec<(usize, usize)> = self.database.iter().map(|(pod, node)| (*pod, *node)).collect();
        cluster(&nodes, &database)
    }

    /// Replaces the topology at a random time within a round.
    fn change(&mut self, round: i64) {
        let into = i64::try_from(self.random.below(4_000_000)).unwrap();
        self.day.change(self.spec(), round * INTERVAL + into);
    }

    fn addresses(&self) -> Vec<String> {
        let address = |(pod, node): (&usize, &usize)| format!("10.244.{node}.{}", 20 + pod);
        self.database.iter().map(address).collect()
    }

    /// Changes endpoints; the resolvers of half of the nodes return the old addresses until their TTL expires.
    fn replace(&mut self, round: i64, change: impl FnOnce(&mut Self)) {
        let old = self.addresses();
        change(self);
        let ttl = i64::from(TTL) * 1_000_000 / INTERVAL;
        self.cached = Some((old, round + ttl));
        self.change(round);
    }

    fn fresh_pod(&mut self) -> usize {
        let pod = self.next_pod;
        self.next_pod = (pod + 1) % 200;
        pod
    }

    fn random_node(&mut self) -> usize {
        let nodes: Vec<usize> = self.present.iter().copied().collect();
        nodes[self.random.below(nodes.len())]
    }

    fn event(&mut self, round: i64) -> &'static str {
        match self.random.below(8) {
            0 => {
                self.replace(round, |night| {
                    let gone = *night.database.keys().next().unwrap();
                    night.database.remove(&gone);
                    let (pod, node) = (night.fresh_pod(), night.random_node());
                    night.database.insert(pod, node);
                });
                "a Pod is replaced"
            }
            1 if self.database.len() < 6 => {
                self.replace(round, |night| {
                    let (pod, node) = (night.fresh_pod(), night.random_node());
                    night.database.insert(pod, node);
                });
                "scaled up"
            }
            1 | 2 if self.database.len() > 2 => {
                self.replace(round, |night| {
                    let gone = *night.database.keys().next().unwrap();
                    night.database.remove(&gone);
                });
                "scaled down"
            }
            3 | 2 => {
                let node = self.random_node();
                let rounds = 1 + i64::try_from(self.random.below(4)).unwrap();
                self.away.insert(node, round..round + rounds);
                "a prober restarts"
            }
            4 => {
                let node = self.random_node();
                let rounds = 1 + i64::try_from(self.random.below(3)).unwrap();
                self.late.insert(node, round..round + rounds);
                "reports are late"
            }
            5 => {
                self.restart(round);
                "the aggregator restarts"
            }
            _ => self.drain_or_join(round),
        }
    }

    fn drain_or_join(&mut self, round: i64) -> &'static str {
        let absent: Vec<usize> = MOVABLE
            .into_iter()
            .filter(|node| !self.present.contains(node))
            .collect();
        if let Some(node) = absent.first() {
            self.present.insert(*node);
            self.change(round);
            return "a node joins";
        }
        let node = MOVABLE[self.random.below(MOVABLE.len())];
        self.replace(round, |night| {
            night.present.remove(&node);
            let moved: Vec<usize> = night
                .database
                .iter()
                .filter(|(_, at)| **at == node)
                .map(|(pod, _)| *pod)
                .collect();
            for pod in moved {
                night.database.remove(&pod);
                let (pod, node) = (night.fresh_pod(), night.random_node());
                night.database.insert(pod, node);
            }
        });
        "a node is drained and leaves"
    }

    /// Starts a new process with the last checkpoint and the observations that the probers remember.
    fn restart(&mut self, round: i64) {
        let start = EventTime(round * INTERVAL);
        let text = serde_json::to_string(&self.day.engine.checkpoint(EventTime(start.0 - INTERVAL))).unwrap();
        let checkpoint: Checkpoint = serde_json::from_str(&text).unwrap();
        let mut next = ScriptedMesh::new(json!({"proxyMode": "iptables"}));
        next.engine.restore(&checkpoint, start);
        next.change(self.spec(), start.0);
        for line in &self.day.sent {
            let recorded: Recorded = serde_json::from_value(line.clone()).unwrap();
            next.engine.observe(&recorded);
        }
        next.seq = self.day.seq;
        next.sent = std::mem::take(&mut self.day.sent);
        self.day = next;
    }

    /// Observes all probes of one node in a round; `cut` selects the paths that are really broken.
    fn probe_all(&mut self, round: i64, from: usize, cut: &dyn Fn(usize, usize) -> bool) {
        for to in self.present.clone() {
            if to == from {
                continue;
            }
            let away = self.away.get(&to).is_some_and(|rounds| rounds.contains(&round));
            let failure = if away {
                Some(("connect", "refused"))
            } else {
                random_loss(&mut self.random)
            };
            let failure = if cut(from, to) { TIMEOUT } else { failure };
            self.day.echo(round, (from, to), failure);
        }
        let random = &mut self.random;
        self.day.web(round, &[from], |from, to| {
            if to.is_some_and(|to| cut(from, to)) {
                TIMEOUT
            } else {
                random_loss(random)
            }
        });
        let addresses = self.addresses();
        let stale = self
            .cached
            .as_ref()
            .filter(|(_, until)| from.is_multiple_of(2) && round < *until);
        let known = stale.map_or_else(|| addresses.clone(), |(old, _)| old.clone());
        let gone: Vec<&str> = known
            .iter()
            .filter(|address| !addresses.contains(address))
            .map(String::as_str)
            .collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        self.day.name(round, from, &known, TTL, &gone);
    }

    fn round(&mut self, round: i64, cut: &dyn Fn(usize, usize) -> bool) -> View {
        let mut reporting = Vec::new();
        for node in self.present.clone() {
            let is = |ranges: &BTreeMap<usize, Range<i64>>| {
                ranges
                    .get(&node)
                    .filter(|rounds| rounds.contains(&round))
                    .cloned()
            };
            if is(&self.away).is_some() || is(&self.late).is_some() {
                continue;
            }
            // Late reports arrive now.
            if let Some(rounds) = self.late.remove(&node).filter(|rounds| rounds.end == round) {
                for missed in rounds {
                    self.probe_all(missed, node, cut);
                }
            }
            self.probe_all(round, node, cut);
            reporting.push(node);
        }
        let view = self.day.close(round, &reporting);
        let oldest = (round - MEMORY) * INTERVAL;
        self.day
            .sent
            .retain(|line| line["t_us"].as_i64().unwrap() >= oldest);
        view
    }
}

/// Returns a random failure.
fn random_loss(random: &mut SplitMix) -> Failure {
    TIMEOUT.filter(|_| random.happens(LOST))
}

#[test]
fn ten_hours_of_ordinary_events_open_no_incident_and_the_fault_at_their_end_does() {
    let mut night = OrdinaryNight::new(17);
    let mut next = 24;
    for round in 0..ROUNDS {
        if round == next {
            let event = night.event(round);
            *night.events.entry(event).or_default() += 1;
            next += 12 + i64::try_from(night.random.below(24)).unwrap();
        }
        let view = night.round(round, &|_, _| false);
        assert_eq!(
            open_sentences(&view),
            [""; 0],
            "round {round}, after {:?}",
            night.events
        );
    }
    assert!(
        night.events.len() >= 7 && night.events.values().all(|count| *count > 10),
        "{:?}",
        night.events
    );
    let cut = |from, to| (from, to) == (0, 3) || (from, to) == (3, 0);
    let named = (ROUNDS..ROUNDS + 12).find(|round| !open_sentences(&night.round(*round, &cut)).is_empty());
    assert!(named.is_some(), "nothing is named after a night");
}
