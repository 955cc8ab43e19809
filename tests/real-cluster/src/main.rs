//! `parallax-real-cluster`: the suite, and the programs that its image runs in the cluster.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use parallax_real_cluster::{
    app, client, print_uncaptured,
    run::{self, Options, RunResult},
    step::{self, Kind, StepError},
};

/// Runs Parallax on a real cluster through ordinary events and faults, and judges its reports.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 as expected · 1 not as expected · 2 usage error or invalid step file · \
    3 could not run, or could not tell · 130 interrupted"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the steps.
    List {
        /// Directory of the step files.
        #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/steps"), value_name = "FOLDER")]
        steps: PathBuf,
    },
    /// Run steps on a cluster.
    Run(Box<Options>),
    /// Run the test application (in the cluster).
    App(app::Options),
    /// Run a control client (in the cluster).
    Client(client::Options),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let ended = match command {
        Command::List { steps } => list(&steps),
        Command::Run(options) => runtime.block_on(run::run(&options)).map(exit_code),
        Command::App(options) => runtime.block_on(app::run(options)).map(|()| ExitCode::SUCCESS),
        Command::Client(options) => runtime.block_on(client::run(options)).map(|()| ExitCode::SUCCESS),
    };
    ended.unwrap_or_else(|error| failed(&error))
}

fn failed(error: &anyhow::Error) -> ExitCode {
    print_uncaptured(&format!("parallax-real-cluster: {error:#}"));
    if error.is::<StepError>() {
        ExitCode::from(2)
    } else {
        ExitCode::from(3)
    }
}

fn exit_code(ended: RunResult) -> ExitCode {
    match ended {
        RunResult::Passed => ExitCode::SUCCESS,
        RunResult::Failed => ExitCode::FAILURE,
        RunResult::Unsound => ExitCode::from(3),
        RunResult::Interrupted => ExitCode::from(130),
    }
}

fn list(folder: &Path) -> anyhow::Result<ExitCode> {
    let steps = step::list(folder)?;
    let mut out = std::io::stdout().lock();
    for step in steps {
        let kind = match step.kind {
            Kind::Ordinary => "ordinary",
            Kind::Fault => "fault",
        };
        let hook = if step.uses_hook() { "hook" } else { "" };
        writeln!(out, "{:<44} {kind:<9} {hook:<5} {}", step.id, step.title)?;
    }
    Ok(ExitCode::SUCCESS)
}
