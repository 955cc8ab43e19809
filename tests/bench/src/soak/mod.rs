//! The soak: a real aggregator with a store, and the probers of a whole cluster that send their reports over HTTP, for
//! an hour. Endpoints are replaced all the time, faults come and go, and a page and a scraper read along.
//!
//! ```text
//! 1 000 simulated probers ──reports──▶ aggregator ──▶ store
//!                         ◀───plans───     │
//!            topology file ────────────────┘──▶ page, metrics
//! ```
//!
//! All traffic stays on 127.0.0.0/8. Each prober has its own source address there, because limits apply per address.

mod aggregator;
mod expectation;
mod prober;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use parallax_simulated_cluster::{Fault, INTERVAL, Scale, topology, topology_file};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{self, Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use self::{
    aggregator::Aggregator,
    expectation::{SoakRound, judge},
    prober::{Delivered, Prober},
};

/// Length of a round.
const ROUND: Duration = Duration::from_micros(INTERVAL.unsigned_abs());
/// Rounds between two replaced endpoints.
const ROUNDS_PER_REPLACEMENT: u64 = 2;
/// Growth after the warm-up that is still level.
const MAX_GROWTH: f64 = 0.05;
/// Time between two scrapes of the metrics. The state is read every round.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(15);

/// Parameters.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Length in minutes; a third of it is the warm-up.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=1440))]
    minutes: u64,
    /// Number of probers, each on its own node.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=5000))]
    probers: u32,
    /// Number of Services, each with a cluster address and four hosts as targets.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=400))]
    services: u32,
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Findings {
    /// Highest memory of each third, in MB.
    peaks: [f64; 3],
    /// Rounds with a missing or a foreign incident.
    wrong: Vec<String>,
}

/// Runs the soak and prints a line a minute. Fails if memory grows, if an observation is lost, if a fault is not named, or
/// if anything else is.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    crate::process::raise_open_files().context("raise the limit of open files")?;
    let folder = tempfile::tempdir().context("create a directory")?;
    let scale = Scale {
        nodes: args.probers as usize,
        services: args.services as usize,
    };
    write_topology(folder.path(), scale, 0)?;
    let aggregator = Aggregator::start(folder.path()).await?;
    let (fault, faults) = watch::channel(Fault::Nothing);
    let (delivered, cancelled) = (Delivered::default(), CancellationToken::new());
    let mut probers = JoinSet::new();
    let started = Instant::now();
    for (n, vantage) in topology(scale, 0).vantages().into_iter().enumerate() {
        let prober = Prober::new(n, scale, vantage, &aggregator.url, started, faults.clone())?;
        probers.spawn(prober.run(delivered.clone(), cancelled.clone()));
    }
    let rounds = args.minutes * 60 / ROUND.as_secs();
    let mut findings = Findings::default();
    let mut clock = time::interval(ROUND);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut scraped = Instant::now();
    for round in (0..rounds).map(SoakRound) {
        clock.tick().await;
        fault.send_replace(round.fault());
        if round.0 % ROUNDS_PER_REPLACEMENT == 0 {
            let replacements = usize::try_from(round.0 / ROUNDS_PER_REPLACEMENT)?;
            write_topology(folder.path(), scale, replacements)?;
        }
        if scraped.elapsed() >= SCRAPE_INTERVAL {
            scraped = Instant::now();
            aggregator.metrics().await?;
        }
        let sentences = aggregator.open_incidents().await?;
        if let Some(wrong) = judge(round, &sentences) {
            println!("{wrong}");
            findings.wrong.push(wrong);
        }
        let cost = aggregator.cost()?;
        let third = usize::try_from(round.0 * 3 / rounds)?;
        findings.peaks[third] = findings.peaks[third].max(cost.rss);
        if (round.0 + 1) % 6 == 0 {
            println!(
                "{:>3} min: {:.0} MB, {:.0} s of CPU time, store {:.1} MB, {} observations in {} reports, {} failed requests",
                (round.0 + 1) / 6,
                cost.rss,
                cost.cpu,
                aggregator.store_megabytes(),
                delivered.observations(),
                delivered.reports(),
                delivered.failed_requests(),
            );
        }
    }
    cancelled.cancel();
    while let Some(ended) = probers.join_next().await {
        ended.context("a simulated prober")?;
    }
    let counted = aggregator.counted().await?;
    summarize(&findings, &delivered, counted)
}

fn summarize(findings: &Findings, delivered: &Delivered, counted: u64) -> anyhow::Result<()> {
    let [_, second, last] = findings.peaks;
    let growth = last / second - 1.0;
    println!(
        "peak of the second third {second:.0} MB, of the last {last:.0} MB: {:+.1} %",
        growth * 100.0
    );
    let sent = delivered.observations();
    println!("{sent} observations delivered, {counted} counted by the aggregator");
    println!(
        "rounds with a missing or a foreign incident: {}",
        findings.wrong.len()
    );
    ensure!(growth <= MAX_GROWTH, "memory grows after the warm-up");
    ensure!(counted == sent, "observations are lost");
    ensure!(
        findings.wrong.is_empty(),
        "a fault is not named, or something else is"
    );
    Ok(())
}

/// Replaces the topology file at once, as a ConfigMap volume does.
fn write_topology(folder: &Path, scale: Scale, replacements: usize) -> anyhow::Result<()> {
    let (file, next) = (folder.join("topology.yaml"), folder.join("topology.next"));
    // JSON is YAML.
    std::fs::write(&next, topology_file(scale, replacements).to_string()).context("write the topology")?;
    std::fs::rename(next, file).context("replace the topology")
}
