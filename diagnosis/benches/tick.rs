//! The diagnosis at its design scale: 5 000 nodes and 2 000 targets, probed as the plan samples them.
//!
//! Run with `make bench-diagnosis`. The run ends with a table of each figure and its budget.
#![expect(clippy::unwrap_used, reason = "an invalid fixture fails the benchmark")]
#![expect(
    clippy::disallowed_types,
    clippy::cast_precision_loss,
    clippy::needless_pass_by_value,
    reason = "a benchmark measures time, and prints counts far below 2^53"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput};
use parallax_diagnosis::{
    Engine, Settings,
    plan::{PlanConfig, assignments, diff},
    topology::{Topology, TopologySpec},
};
use parallax_model::{
    Assignment, Channel, DnsAnswer, EventTime, FailureKind, Micros, Observation, Outcome, Phase, PhaseTimes,
    PlanRevision, Recorded, ReportSeq, Vantage,
};
use serde_json::json;

const INTERVAL: i64 = 10_000_000;

/// Size of the cluster.
#[derive(Clone, Copy)]
struct Scale {
    nodes: usize,
    /// Each with a balancer address, a cluster address, three endpoints and four hosts: five targets.
    services: usize,
}

const FULL: Scale = Scale {
    nodes: 5_000,
    services: 400,
};

/// Returns the node of endpoint `e` of Service `s`; `moved` moves the first endpoint of Service 0.
fn node_of(scale: Scale, s: usize, e: usize, moved: bool) -> usize {
    let n = (s * 37 + e * 1_709) % scale.nodes;
    if moved && s == 0 && e == 0 {
        (n + 1) % scale.nodes
    } else {
        n
    }
}

fn topology(scale: Scale, moved: bool) -> Arc<Topology> {
    let spec = json!({
        "proxyMode": "iptables",
        "nodes": (0..scale.nodes).map(|n| json!({"name": format!("node-{n:04}.pool.example"), "zone": format!("z{}", n % 3),
            "prober": {"pod": format!("parallax-prober-{n:05}"), "address": format!("10.{}.{}.5:9095", n / 250, n % 250)}}))
            .collect::<Vec<_>>(),
        "services": (0..scale.services).map(|s| json!({"namespace": format!("team-{}", s % 40), "name": format!("ingress-{s}"),
            "type": "LoadBalancer", "clusterIPs": [format!("10.96.{}.{}", s / 250, s % 250)],
            "loadBalancer": [{"ip": format!("203.0.{}.{}", s / 250, s % 250)}], "externalTrafficPolicy": "Local",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            "endpoints": (0..3).map(|e| json!({"pod": format!("ingress-{s}-7d9f8c6b5-{e}"),
                "address": format!("10.{}.{}.{}", 100 + s / 250, s % 250, 10 + e + usize::from(moved && s == 0)),
                "node": format!("node-{:04}.pool.example", node_of(scale, s, e, moved))})).collect::<Vec<_>>()}))
            .collect::<Vec<_>>(),
        "ingresses": (0..scale.services).map(|s| json!({"namespace": format!("team-{}", s % 40), "name": format!("hosts-{s}"),
            "service": format!("team-{}/ingress-{s}", s % 40),
            "hosts": (0..4).map(|h| format!("h{h}.app-{s}.example.test")).collect::<Vec<_>>()}))
            .collect::<Vec<_>>(),
    });
    let spec: TopologySpec = serde_json::from_value(spec).unwrap();
    Arc::new(Topology::try_from(spec).unwrap())
}

fn config() -> PlanConfig {
    PlanConfig {
        interval: Micros(INTERVAL.unsigned_abs()),
        timeout: Micros::from_secs(3),
        echo_nonce: "nonce".to_owned(),
    }
}

/// The injected fault.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// The first Service's balancer address, from everywhere.
    Front,
    /// All traffic from and to one node.
    Node,
}

/// The plans of all vantages.
struct Mesh {
    scale: Scale,
    topology: Arc<Topology>,
    plans: Vec<(Vantage, Vec<Assignment>)>,
}

impl Mesh {
    fn new(scale: Scale) -> Self {
        let topology = topology(scale, false);
        let plans = topology
            .vantages()
            .into_iter()
            .map(|vantage| {
                let plan = assignments(&topology, &config(), &vantage);
                (vantage, plan)
            })
            .collect();
        Self {
            scale,
            topology,
            plans,
        }
    }

    fn engine(&self) -> Engine {
        let settings = Settings {
            interval: Micros(INTERVAL.unsigned_abs()),
            timeout: Micros::from_secs(3),
        };
        Engine::new(settings, Arc::clone(&self.topology))
    }

    /// Returns one observation of each assignment.
    fn round(&self, round: i64, fault: Fault) -> Vec<Recorded> {
        let mut rows = Vec::new();
        let broken = node_of(self.scale, 0, 0, false);
        let broken = format!("node-{broken:04}.pool.example");
        let mut seq = u64::try_from(round).unwrap() * 1_000_000;
        for (n, (vantage, plan)) in self.plans.iter().enumerate() {
            let own = vantage.node().unwrap();
            for assignment in plan {
                seq += 1;
                let front = match assignment.channel {
                    Channel::Vip => front_of(assignment),
                    _ => None,
                };
                let entry = assignment.entry.as_ref();
                let node = assignment.peer.as_ref().or(entry.and_then(|e| e.node.as_ref()));
                let failed = match fault {
                    Fault::Nothing => false,
                    Fault::Front => front.as_deref() == Some("203.0.0.0:80"),
                    Fault::Node => own.as_str() == broken || node.is_some_and(|node| node.as_str() == broken),
                };
                // Hosts are resolved; a cluster address is dialled directly.
                let resolved = front.as_deref().filter(|front| front.starts_with("203."));
                let answer = resolved.map(|front| DnsAnswer {
                    resolver: "10.96.0.10:53".parse().unwrap(),
                    name: assignment
                        .target
                        .as_str()
                        .trim_start_matches("http://")
                        .trim_end_matches('/')
                        .to_owned(),
                    addresses: vec![front.trim_end_matches(":80").parse().unwrap()],
                    ttl_s: Some(30),
                    tcp: false,
                    unanswered: None,
                });
                let at = round * INTERVAL + i64::try_from(n % 900).unwrap() * 10_000;
                rows.push(Recorded {
                    vantage: vantage.clone(),
                    incarnation: "c0ffee-1795179600".parse().unwrap(),
                    observation: Observation {
                        server: None,
                        fingerprint: None,
                        challenge: None,
                        names: None,
                        seq: ReportSeq(seq),
                        started: EventTime(at),
                        assignment: Some(assignment.id.clone()),
                        target: assignment.target.clone(),
                        channel: assignment.channel,
                        front: front.as_ref().map(|front| front.parse().unwrap()),
                        entry: (assignment.channel == Channel::Direct)
                            .then(|| entry.map(|e| e.pod.clone()))
                            .flatten(),
                        dst_node: node.cloned(),
                        outcome: if failed {
                            Outcome::Failed {
                                phase: Phase::Connect,
                                kind: FailureKind::ConnectTimeout,
                                status: None,
                            }
                        } else {
                            Outcome::Ok { status: Some(200) }
                        },
                        times: PhaseTimes {
                            resolve: answer.as_ref().map(|_| Micros(900)),
                            first_byte: Some(Micros(1_200)),
                            delay: Some(Micros(300)),
                            connect: Some(Micros(400)),
                            total: Some(Micros(2_400)),
                            ..PhaseTimes::default()
                        },
                        dns: answer.clone(),
                        echo: None,
                        ttl: None,
                    },
                });
            }
        }
        rows
    }

    /// All vantages report the round as complete.
    fn complete(&self, engine: &mut Engine, round: i64) {
        for (vantage, _) in &self.plans {
            engine.record_progress(vantage, EventTime((round + 1) * INTERVAL));
        }
    }
}

/// Returns the front to which a user's connection for the target goes.
fn front_of(assignment: &Assignment) -> Option<String> {
    let target = assignment.target.as_str();
    if let Some(address) = target.strip_prefix("http://10.") {
        return Some(format!("10.{}", address.trim_end_matches('/')));
    }
    let service: usize = target
        .split('.')
        .find_map(|part| part.strip_prefix("app-"))?
        .parse()
        .ok()?;
    Some(format!("203.0.{}.{}:80", service / 250, service % 250))
}

/// Resident memory of this process in MiB.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// CPU time of this thread: budgets are per core, independent of the machine's other load. Falls back to
/// wall-clock time if the system does not report it.
struct Cpu {
    cpu_time: Option<Duration>,
    wall: Instant,
}

impl Cpu {
    fn now() -> Self {
        let ran = std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|text| {
                let nanos = text.split_whitespace().next()?.parse().ok()?;
                Some(Duration::from_nanos(nanos))
            });
        Self {
            cpu_time: ran,
            wall: Instant::now(),
        }
    }

    fn elapsed(&self) -> Duration {
        match (self.cpu_time, Self::now().cpu_time) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => self.wall.elapsed(),
        }
    }
}

struct Figures(Vec<(String, String, bool)>);

impl Figures {
    fn add(&mut self, name: &str, got: String, budget: &str, within: bool) {
        self.0
            .push((name.to_owned(), format!("{got} (budget {budget})"), within));
    }

    fn print(&self) {
        println!();
        for (name, figure, within) in &self.0 {
            println!("{} {name:<58} {figure}", if *within { "✓" } else { "✗" });
        }
    }
}

/// Measures rows per second through `observe` alone.
fn bench_observe(c: &mut Criterion, mesh: &Mesh) {
    let healthy = mesh.round(0, Fault::Nothing);
    println!(
        "{} rows per round of 10 s: {:.0} per second",
        healthy.len(),
        healthy.len() as f64 / 10.0
    );
    let mut group = c.benchmark_group("observe");
    group
        .sample_size(10)
        .throughput(Throughput::Elements(healthy.len() as u64));
    group.bench_function("a round of 5000 nodes", |b| {
        b.iter_custom(|times| {
            let mut spent = Duration::ZERO;
            for _ in 0..times {
                let mut engine = mesh.engine();
                let begun = Cpu::now();
                for recorded in &healthy {
                    black_box(engine.observe(recorded));
                }
                spent += begun.elapsed();
            }
            spent
        });
    });
    group.finish();
}

/// Measures rows per second through `observe` and the fold, the following tick, and the memory of both.
fn bench_rounds(mesh: &Mesh, figures: &mut Figures) {
    for (name, fault) in [
        ("healthy", Fault::Nothing),
        ("one front fails", Fault::Front),
        ("one node fails", Fault::Node),
    ] {
        let before = resident_mib();
        let mut engine = mesh.engine();
        let (mut observing, mut slowest, mut total) = (Duration::MAX, Duration::ZERO, Duration::ZERO);
        let (mut view, mut first) = (Duration::ZERO, Duration::ZERO);
        let mut peak = 0.0_f64;
        let rounds = 7;
        for round in 0..rounds {
            let rows = mesh.round(round, if round < 3 { Fault::Nothing } else { fault });
            let count = rows.len() as f64;
            let begun = Cpu::now();
            for recorded in &rows {
                black_box(engine.observe(recorded));
            }
            // A vantage's rows are folded when it reports the round as complete, so this is part of the ingest.
            mesh.complete(&mut engine, round);
            observing = observing.min(begun.elapsed());
            drop(rows);
            peak = peak.max(resident_mib() - before);
            let begun = Cpu::now();
            let judged = engine.advance(EventTime((round + 1) * INTERVAL + 100_000));
            let tick = begun.elapsed();
            assert!(judged, "the round is closed as soon as it is whole");
            let begun = Cpu::now();
            black_box(engine.view(EventTime((round + 1) * INTERVAL + 100_000)));
            view = view.max(begun.elapsed());
            if round == 0 {
                first = tick;
            } else {
                slowest = slowest.max(tick);
                total += tick;
            }
            if round + 1 == rounds {
                let rate = count / observing.as_secs_f64();
                figures.add(
                    &format!("{name}: rows observed per second"),
                    format!("{:.0} k", rate / 1e3),
                    "≥ 100 k",
                    rate >= 1e5,
                );
                figures.add(
                    &format!("{name}: tick, mean of {} and slowest, and the first", rounds - 1),
                    format!(
                        "{:.0} ms, {:.0} ms, {:.0} ms",
                        total.as_secs_f64() * 1e3 / (rounds - 1) as f64,
                        slowest.as_secs_f64() * 1e3,
                        first.as_secs_f64() * 1e3
                    ),
                    "≤ 200 ms",
                    slowest <= Duration::from_millis(200),
                );
                figures.add(
                    &format!("{name}: view of all targets from all vantages"),
                    format!("{:.0} ms", view.as_secs_f64() * 1e3),
                    "none",
                    true,
                );
                figures.add(
                    &format!("{name}: memory of the engine with a whole round buffered"),
                    format!("{peak:.0} MiB"),
                    "≤ 1024 MiB",
                    peak <= 1024.0,
                );
                let found: BTreeSet<String> = engine
                    .view(EventTime((round + 1) * INTERVAL))
                    .incidents
                    .iter()
                    .map(|i| i.verdict.region.to_string())
                    .collect();
                println!("{name}: named {found:?}");
            }
        }
    }
}

/// Measures plan updates after a change of one EndpointSlice: of the affected vantages, and of an unaffected one.
fn bench_plans(c: &mut Criterion, mesh: &Mesh, figures: &mut Figures) {
    let after = topology(mesh.scale, true);
    let delta = |n: usize| {
        let (vantage, before) = &mesh.plans[n];
        let plan = assignments(&after, &config(), vantage);
        diff(before, &plan, PlanRevision::default()).len()
    };
    c.benchmark_group("plan").sample_size(10).bench_function(
        "change of one vantage's plan after an EndpointSlice change",
        |b| {
            b.iter(|| black_box(delta(17)));
        },
    );
    let begun = Cpu::now();
    let mut changed = BTreeMap::new();
    for n in 0..mesh.plans.len() {
        let lines = delta(n);
        if lines > 0 {
            changed.insert(n, lines);
        }
    }
    let all = begun.elapsed();
    let one = all.as_secs_f64() * 1e3 / mesh.plans.len() as f64;
    figures.add(
        "plan change of one vantage after an EndpointSlice change",
        format!("{one:.2} ms"),
        "≤ 50 ms",
        one <= 50.0,
    );
    figures.add(
        &format!("the same for all vantages ({} of them change)", changed.len()),
        format!("{:.1} s", all.as_secs_f64()),
        "none",
        true,
    );
}

fn main() {
    let begun = Cpu::now();
    let mesh = Mesh::new(FULL);
    println!(
        "plans of {} vantages: {:.1} s",
        mesh.plans.len(),
        begun.elapsed().as_secs_f64()
    );
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(5))
        .configure_from_args();
    let mut figures = Figures(Vec::new());
    bench_observe(&mut criterion, &mesh);
    bench_rounds(&mesh, &mut figures);
    bench_plans(&mut criterion, &mesh, &mut figures);
    criterion.final_summary();
    figures.print();
}
