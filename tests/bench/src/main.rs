//! Measures the cost of a probe: the prober against `blackbox_exporter` and against a bare socket loop, at the same
//! rates, on the same machine, in one interleaved run.
//!
//! ```text
//! harness ──▶ target server          core 1: both
//!    │  plan ▼      ▲ probes
//!    └────▶ subject ┘                core 0: the one process whose CPU time is counted
//! ```
//!
//! All traffic stays on 127.0.0.0/8, and every child exits with the harness.
#![forbid(unsafe_code)]

mod aggregator;
mod blackbox;
mod cell;
mod machine;
mod plan;
mod preflight;
mod process;
mod report;
mod results;
mod soak;
mod subjects;
mod suite;
mod target_server;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Measures what a probe costs, against blackbox_exporter and against a bare socket loop")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure everything and write the results.
    Run(RunArgs),
    /// Rewrite the tables of the document from a results file.
    Tables {
        /// Results file.
        #[arg(long, default_value = "bench/results.json")]
        results: PathBuf,
        /// Document with the markers.
        #[arg(long, default_value = "docs/reference/performance.md")]
        document: PathBuf,
    },
    /// Measure a preflight over many probers, including the probes.
    Preflight(preflight::Args),
    /// Run an aggregator with the reports of many probers for an hour.
    Soak(soak::Args),
    /// The target server (a child of `run`).
    #[command(hide = true)]
    Serve,
    /// A probing process (a child of `run`).
    #[command(hide = true)]
    Subject(subjects::Args),
}

/// Parameters of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Number of repeats of each cell; the table shows medians.
    #[arg(long, default_value_t = 5)]
    repeats: u32,
    /// Length of a measured window in seconds.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Measure only these rows (`http-200`, `http-1000`, `https-500`, `tcp-1000`, `dns-1000`, `small`, `max`,
    /// `memory`).
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Wait until the load average is at most this.
    #[arg(long, default_value_t = 0.5)]
    max_load: f64,
    /// Maximum time to wait for that, in seconds.
    #[arg(long, default_value_t = 300)]
    max_wait_s: u64,
    /// Commit of the measured sources [default: that of the checkout].
    #[arg(long)]
    commit: Option<String>,
    /// Path of the results file.
    #[arg(long, default_value = "bench/results.json")]
    results: PathBuf,
    /// Document whose tables are rewritten [default: none].
    #[arg(long)]
    document: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    if matches!(cli.command, Command::Serve | Command::Subject(_)) {
        process::end_with_parent().context("tie this process to its parent")?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start a runtime")?;
    match cli.command {
        Command::Run(args) => runtime.block_on(suite::run(&args)),
        Command::Tables { results, document } => {
            report::write(&results::BenchResults::read(&results)?, &document)
        }
        Command::Preflight(args) => runtime.block_on(preflight::run(&args)),
        Command::Soak(args) => runtime.block_on(soak::run(&args)),
        Command::Serve => runtime.block_on(target_server::serve()),
        Command::Subject(args) => subjects::run(&args, &runtime),
    }
}
