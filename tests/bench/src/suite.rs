//! The order of the cells: one tool after the other for each load, and all of it again for each repeat, so that other
//! load on the machine affects all of them.

use std::time::Duration;

use anyhow::Context as _;
use parallax_model::Micros;
use tokio::task::LocalSet;

use crate::{
    RunArgs,
    cell::{BenchContext, CellSpec, SETTLE_TIME},
    machine::{self, MachineFacts},
    plan::ProbeMix,
    process::{CpuCore, pin},
    report,
    results::{BenchResults, ProbeTool, WindowSample, count},
};

/// Loads at a fixed rate.
pub(crate) const LOADS: &[(&str, ProbeMix, u64, &[ProbeTool])] = &[
    (
        "http-200",
        ProbeMix::Http,
        200,
        &[ProbeTool::Parallax, ProbeTool::Blackbox, ProbeTool::Floor],
    ),
    (
        "http-1000",
        ProbeMix::Http,
        1_000,
        &[
            ProbeTool::Parallax,
            ProbeTool::Bare,
            ProbeTool::Blackbox,
            ProbeTool::Floor,
        ],
    ),
    (
        "https-500",
        ProbeMix::Https,
        500,
        &[ProbeTool::Parallax, ProbeTool::Blackbox],
    ),
    (
        "tcp-1000",
        ProbeMix::Tcp,
        1_000,
        &[ProbeTool::Parallax, ProbeTool::Blackbox, ProbeTool::Floor],
    ),
    (
        "dns-1000",
        ProbeMix::Dns,
        1_000,
        &[ProbeTool::Parallax, ProbeTool::Blackbox, ProbeTool::Floor],
    ),
];

/// Typical plan of a cluster: 60 targets every 10 s.
const SMALL_PLAN: (u64, Micros, Duration) = (60, Micros::from_secs(10), Duration::from_secs(30));

/// Numbers of targets every 10 s, for the slope of memory.
const MEMORY_TARGETS: [u64; 2] = [500, 4_000];

/// Search for the limit: initial rate in probes per second, and growth factor in thousandths.
const LIMIT_SEARCH: (u64, u64) = (4_000, 1_250);

/// Measures everything and stores the results.
pub(crate) async fn run(args: &RunArgs) -> anyhow::Result<()> {
    // HTTP clients in this process use the process's provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    pin(CpuCore::Rest).context("pin to a core")?;
    machine::wait_until_quiet(args.max_load, Duration::from_secs(args.max_wait_s)).await;
    let mut results = BenchResults {
        command: std::env::args()
            .skip(1)
            .fold("parallax-bench".to_owned(), |line, word| line + " " + &word),
        date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        machine: MachineFacts::here(args.commit.clone()),
        load_before: machine::load_average(),
        load_after: 0.0,
        window_s: args.seconds,
        repeats: 0,
        samples: Vec::new(),
    };
    let local = LocalSet::new();
    local
        .run_until(async {
            let mut context = BenchContext::start(Duration::from_secs(args.seconds)).await?;
            for repeat in 1..=args.repeats {
                context.repeat = repeat;
                round(&mut context, args, &mut results.samples).await?;
                results.repeats = repeat;
                results.load_after = machine::load_average();
                // An interrupted run stores its measurements too.
                results.write(&args.results)?;
            }
            anyhow::Ok(())
        })
        .await?;
    if let Some(document) = &args.document {
        report::write(&results, document)?;
    }
    print!("{}", report::tables(&results));
    Ok(())
}

async fn round(
    context: &mut BenchContext,
    args: &RunArgs,
    samples: &mut Vec<WindowSample>,
) -> anyhow::Result<()> {
    let wanted = |row: &str| args.only.is_empty() || args.only.iter().any(|only| only == row);
    let mut add = |sample: WindowSample| {
        eprintln!(
            "{}  {:<10} {:<9} {:>6.0}/s  {:.3} CPU-s/1000  {:>5.1} MB  late p99 {:>6} µs  others {:.2} cores{}",
            sample.repeat,
            sample.row,
            format!("{:?}", sample.tool),
            sample.rate,
            sample.per_thousand(),
            sample.rss_mb,
            sample.late_p99_us.unwrap_or(0),
            sample.foreign_cores,
            if sample.valid { "" } else { "  DOES NOT COUNT" },
        );
        samples.push(sample);
    };
    for (row, kind, rate, tools) in LOADS.iter().filter(|(row, ..)| wanted(row)) {
        for tool in *tools {
            let cell = CellSpec {
                row,
                tool: *tool,
                kind: *kind,
                rate: *rate,
            };
            add(context
                .measure(cell)
                .await
                .with_context(|| format!("measure {row} with {tool:?}"))?);
        }
    }
    if wanted("small") {
        add(small(context).await.context("measure a small plan")?);
    }
    if wanted("memory") {
        for sample in memory(context).await.context("measure memory")? {
            add(sample);
        }
    }
    if wanted("max") {
        for sample in limit(context).await.context("find the limit")? {
            add(sample);
        }
        for tool in [ProbeTool::Bare, ProbeTool::Blackbox, ProbeTool::Floor] {
            let cell = CellSpec {
                row: "max",
                tool,
                kind: ProbeMix::Http,
                rate: 0,
            };
            add(context
                .measure(cell)
                .await
                .with_context(|| format!("find the limit of {tool:?}"))?);
        }
    }
    Ok(())
}

async fn small(context: &mut BenchContext) -> anyhow::Result<WindowSample> {
    let (targets, interval, window) = SMALL_PLAN;
    let wanted = CellSpec {
        row: "small",
        tool: ProbeTool::Parallax,
        kind: ProbeMix::Http,
        rate: targets * 1_000_000 / interval.0,
    };
    let mut agent = context.agent(wanted.kind).await?;
    agent.plan(context.ports, wanted.kind, targets, interval);
    let sample = context
        .agent_window(&mut agent, wanted, SETTLE_TIME, window)
        .await;
    agent.process.stop().await?;
    sample
}

async fn memory(context: &mut BenchContext) -> anyhow::Result<Vec<WindowSample>> {
    let mut samples = Vec::new();
    for targets in MEMORY_TARGETS {
        let interval = Micros::from_secs(10);
        let wanted = CellSpec {
            row: "memory",
            tool: ProbeTool::Parallax,
            kind: ProbeMix::Http,
            rate: targets / 10,
        };
        let mut agent = context.agent(wanted.kind).await?;
        agent.plan(context.ports, wanted.kind, targets, interval);
        let sample = context
            .agent_window(&mut agent, wanted, SETTLE_TIME, Duration::from_secs(10))
            .await;
        agent.process.stop().await?;
        samples.push(sample?);
    }
    Ok(samples)
}

/// Runs one agent with an increasing number of targets per second, until less than 99.9 % of them are probed or one in
/// a hundred starts more than a tenth of the interval late. Returns all windows; the last one that passes is the
/// limit.
async fn limit(context: &mut BenchContext) -> anyhow::Result<Vec<WindowSample>> {
    let (mut rate, step) = LIMIT_SEARCH;
    let mut samples = Vec::new();
    let mut agent = context.agent(ProbeMix::Http).await?;
    loop {
        let wanted = CellSpec {
            row: "max",
            tool: ProbeTool::Parallax,
            kind: ProbeMix::Http,
            rate,
        };
        agent.plan(context.ports, wanted.kind, rate, Micros::from_secs(1));
        let mut sample = context
            .agent_window(&mut agent, wanted, Duration::from_secs(2), Duration::from_secs(3))
            .await?;
        let made = count(sample.probes) / (count(sample.probes + sample.failures)).max(1.0);
        let enough = sample.rate >= count(rate) * 0.99;
        sample.valid = enough && made >= 0.999 && sample.late_p99_us.is_some_and(|late| late <= 100_000);
        let goes_on = sample.valid;
        samples.push(sample);
        if !goes_on || rate > 100_000 {
            agent.process.stop().await?;
            return Ok(samples);
        }
        rate = rate * step / 1_000;
    }
}
