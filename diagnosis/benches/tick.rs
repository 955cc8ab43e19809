//! The diagnosis at its design scale: 5 000 nodes and 2 000 targets, probed as the plan samples them.
//!
//! Run with `make bench-diagnosis`. The run ends with a table of each figure and its budget.
#![expect(
    clippy::disallowed_types,
    clippy::cast_precision_loss,
    clippy::needless_pass_by_value,
    reason = "a benchmark measures time, and prints counts far below 2^53"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput};
use parallax_diagnosis::plan::{assignments, diff};
use parallax_model::{EventTime, PlanRevision};

use parallax_simulated_cluster::{Fault, INTERVAL, Mesh, Scale, config, resident_mib, topology};

const FULL: Scale = Scale {
    nodes: 5_000,
    services: 400,
};

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
    let after = topology(mesh.scale, 1);
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
    let mesh = Mesh::new(FULL, 0);
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
