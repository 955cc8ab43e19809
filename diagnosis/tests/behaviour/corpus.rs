//! Generated trials with one injected cause each: the right cause is named, and none in healthy trials.
//!
//! Twelve nodes, three backends on random nodes; each round every node probes the address once, one backend
//! directly, and two peers. A probe in the broken region fails with probability 0.98, any other with 0.002.
#![expect(
    clippy::unwrap_used,
    reason = "an invalid fixture fails the test that uses it"
)]

use std::collections::BTreeMap;

use crate::splitmix::SplitMix;
use parallax_diagnosis::replay::Replay;
use serde_json::{Value, json};

const NODES: usize = 12;
const BACKENDS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Healthy,
    Target,
    Vip,
    Backend(usize),
    Bnode(usize),
    Client(usize),
    ClientVip(usize),
    Pair(usize, usize),
    NoLocal,
    Cross,
    Same,
    SameVip,
}

struct Setup {
    rounds: usize,
    theta1: f64,
    theta0: f64,
    stalls: f64,
}

struct Path {
    vip: bool,
    service: bool,
    client: usize,
    backend: Option<usize>,
    node: usize,
}

impl Fault {
    fn breaks(self, path: &Path, at: &[usize]) -> bool {
        match self {
            Self::Healthy => false,
            Self::Target => path.service,
            Self::Vip => path.vip,
            Self::Backend(b) => path.backend == Some(b),
            Self::Bnode(n) => path.node == n,
            Self::Client(c) => path.client == c,
            Self::ClientVip(c) => path.vip && path.client == c,
            Self::Pair(c, n) => path.client == c && path.node == n,
            Self::NoLocal => path.vip && !at.contains(&path.client),
            Self::Cross => path.client != path.node,
            Self::Same => path.client == path.node,
            Self::SameVip => path.vip && path.client == path.node,
        }
    }

    fn named(self) -> (&'static str, Vec<String>) {
        let node = |n: usize| format!("n{n:02}");
        match self {
            Self::Healthy => ("healthy", vec![]),
            Self::Target => ("target", vec![]),
            Self::Vip => ("vip", vec![]),
            Self::Backend(b) => ("backend", vec![format!("b{b}")]),
            Self::Bnode(n) => ("bnode", vec![node(n)]),
            Self::Client(c) => ("client", vec![node(c)]),
            Self::ClientVip(c) => ("client-vip", vec![node(c)]),
            Self::Pair(c, n) => ("pair", vec![node(c), node(n)]),
            Self::NoLocal => ("nolocal", vec![]),
            Self::Cross => ("cross", vec![]),
            Self::Same => ("same", vec![]),
            Self::SameVip => ("same-vip", vec![]),
        }
    }

    const fn kind(self) -> &'static str {
        match self {
            Self::NoLocal | Self::Backend(_) => "refused",
            Self::Target => "http_503",
            _ => "timeout",
        }
    }
}

fn all(random: &mut SplitMix, at: &[usize]) -> Vec<Fault> {
    let b = random.below(BACKENDS);
    let c = random.below(NODES);
    let far = (0..NODES)
        .filter(|n| *n != at[b])
        .nth(random.below(NODES - 1))
        .unwrap();
    vec![
        Fault::Target,
        Fault::Vip,
        Fault::Backend(b),
        Fault::Bnode(at[b]),
        Fault::Client(c),
        Fault::ClientVip(c),
        Fault::Pair(far, at[b]),
        Fault::NoLocal,
        Fault::Cross,
        Fault::Same,
        Fault::SameVip,
    ]
}

/// Returns the output of one trial.
fn trial(fault: Fault, at: &[usize], setup: &Setup, random: &mut SplitMix) -> Vec<Value> {
    let mut replay = Replay::new();
    let name = |n: usize| format!("n{n:02}");
    let policy = if fault == Fault::NoLocal {
        "Local"
    } else {
        "Cluster"
    };
    let topology = json!({"type": "topology", "trial": 0, "interval_s": 5.0, "timeout_ms": 3000,
        "nodes": (0..NODES).map(|n| json!({"name": name(n), "zone": "z", "prober": true})).collect::<Vec<_>>(),
        "target": {"name": "shop.example.test", "type": "LoadBalancer", "externalTrafficPolicy": policy,
            "proxyMode": "cilium"},
        "backends": at.iter().enumerate().map(|(b, n)| json!({"pod": format!("b{b}"), "node": name(*n)})).collect::<Vec<_>>(),
    });
    let mut out = replay.read_line(1, &topology.to_string());
    for round in 0..setup.rounds {
        for c in 0..NODES {
            let stalled = random.happens(setup.stalls);
            let b = random.below(BACKENDS);
            let d = (c + round) % BACKENDS;
            let mut paths = vec![
                (
                    "vip",
                    Path {
                        vip: true,
                        service: true,
                        client: c,
                        backend: Some(b),
                        node: at[b],
                    },
                ),
                (
                    "direct",
                    Path {
                        vip: false,
                        service: true,
                        client: c,
                        backend: Some(d),
                        node: at[d],
                    },
                ),
            ];
            for k in 0..2 {
                let peer = (c + 1 + (2 * round + k) % (NODES - 1)) % NODES;
                paths.push((
                    "mesh",
                    Path {
                        vip: false,
                        service: false,
                        client: c,
                        backend: None,
                        node: peer,
                    },
                ));
            }
            for (i, (channel, path)) in paths.iter().enumerate() {
                let broken = fault.breaks(path, at);
                let by_fault = broken && random.happens(setup.theta1);
                let fails = by_fault || random.happens(setup.theta0) || stalled && random.happens(0.7);
                let kind = if by_fault { fault.kind() } else { "timeout" };
                let known = path
                    .backend
                    .filter(|_| *channel == "direct" || !fails)
                    .map(|b| format!("b{b}"));
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let t = round as f64 * 5.0 + c as f64 * 0.3 + i as f64 * 0.01;
                let line = json!({"type": "obs", "trial": 0, "t": t, "node": name(c), "channel": channel,
                    "backend": known, "dst_node": (*channel == "mesh").then(|| name(path.node)),
                    "ok": !fails, "kind": fails.then_some(kind)});
                out.extend(replay.read_line(2, &line.to_string()));
            }
        }
    }
    out.extend(replay.read_line(3, "{\"type\":\"end\",\"trial\":0}"));
    out.iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn random_backend_nodes(random: &mut SplitMix) -> Vec<usize> {
    (0..BACKENDS).map(|_| random.below(NODES)).collect()
}

/// Reports whether the last named class contains the true cause.
fn is_correct(out: &[Value], fault: Fault) -> Option<bool> {
    let verdicts: Vec<&Value> = out.iter().filter(|v| v["type"] == "verdict").collect();
    let (region, members) = fault.named();
    let truth = json!([region, members]);
    let last = verdicts.last()?;
    Some(last["class"].as_array().unwrap().contains(&truth))
}

#[derive(Default)]
struct Score {
    named: usize,
    right: usize,
    all: usize,
}

fn score(setup: &Setup, trials: u64) -> BTreeMap<&'static str, Score> {
    let mut scores: BTreeMap<&'static str, Score> = BTreeMap::new();
    for seed in 0..trials {
        let mut random = SplitMix::new(seed);
        let at = random_backend_nodes(&mut random);
        for fault in all(&mut random, &at) {
            let out = trial(fault, &at, setup, &mut random);
            let score = scores.entry(fault.named().0).or_default();
            score.all += 1;
            if let Some(right) = is_correct(&out, fault) {
                score.named += 1;
                score.right += usize::from(right);
                if !right {
                    println!("{fault:?} at {at:?} seed {seed}: {out:?}");
                }
            }
        }
    }
    for (cause, s) in &scores {
        println!("{cause}: {} of {} named, {} right", s.named, s.all, s.right);
    }
    scores
}

#[test]
fn hard_faults_are_named_rightly() {
    let setup = Setup {
        rounds: 6,
        theta1: 0.98,
        theta0: 0.002,
        stalls: 0.0,
    };
    let scores = score(&setup, 4);
    let (named, right): (usize, usize) = scores
        .values()
        .fold((0, 0), |(n, r), s| (n + s.named, r + s.right));
    assert!(right * 100 >= named * 98, "{right} right of {named}");
    for (cause, s) in &scores {
        // A pair is probed in only a few rounds.
        if !matches!(*cause, "pair" | "same-vip" | "same") {
            assert!(
                s.named * 100 >= s.all * 95,
                "{cause}: {} of {} named",
                s.named,
                s.all
            );
        }
    }
}

#[test]
fn a_healthy_cluster_with_stalling_clients_gets_no_verdict() {
    for seed in 100..120 {
        let mut random = SplitMix::new(seed);
        let at = random_backend_nodes(&mut random);
        let setup = Setup {
            rounds: 24,
            theta1: 0.0,
            theta0: 0.002,
            stalls: 0.02,
        };
        let out = trial(Fault::Healthy, &at, &setup, &mut random);
        let verdicts: Vec<_> = out.iter().filter(|v| v["type"] == "verdict").collect();
        assert!(verdicts.is_empty(), "seed {seed}: {verdicts:?}");
    }
}

#[test]
fn faults_that_strike_one_probe_in_three_are_named_rightly_or_not_at_all() {
    let setup = Setup {
        rounds: 24,
        theta1: 0.3,
        theta0: 0.002,
        stalls: 0.0,
    };
    let scores = score(&setup, 2);
    let (named, right): (usize, usize) = scores
        .values()
        .fold((0, 0), |(n, r), s| (n + s.named, r + s.right));
    assert!(named >= 16 && right == named, "{right} right of {named}");
}
