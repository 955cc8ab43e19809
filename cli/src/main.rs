//! The one binary, `parallax`.
//!
//! Exit codes: 0 fine, 1 the answer is no, 2 usage or configuration, 3 could not run or could not tell.
#![forbid(unsafe_code)]

mod commands;
mod exit;

use std::{io::IsTerminal, process::ExitCode};

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Asks for your cluster's names and addresses from every node, and names the cause when one cannot be reached.
#[derive(Debug, Parser)]
#[command(
    name = "parallax",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Aggregator and a local prober in one process, for targets listed in YAML. No Kubernetes needed.
    Up(commands::up::Args),
    /// Look at URLs from this machine: every address on its own, each phase timed, a failure with its likely reason.
    Check(commands::check::Args),
    /// Probe what the aggregator asks for, from this machine or pod.
    Prober(commands::prober::Args),
    /// Correlate what the probers see, name causes, serve page, API and metrics.
    Aggregator(commands::aggregator::Args),
    /// Print the objects of an installation on Kubernetes as YAML.
    Manifests(commands::manifests::Args),
    /// Let machines outside the cluster probe.
    Vantage(commands::vantage::Args),
    /// Diagnose a recorded stream; the same input gives the same bytes.
    Replay(commands::replay::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(match cli.command {
        // A person looks at these; only what is wrong belongs between the lines they read.
        Command::Up(_)
        | Command::Check(_)
        | Command::Manifests(_)
        | Command::Vantage(_)
        | Command::Replay(_) => "warn",
        Command::Prober(_) | Command::Aggregator(_) => "info",
    });
    // A second provider in the graph, or none installed, is a panic at the first handshake (R23, R24).
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("parallax: another TLS provider is installed already; this is a defect of the build");
        return ExitCode::from(3);
    }
    let done = match cli.command {
        Command::Up(args) => commands::up::run(args),
        Command::Check(args) => commands::check::run(&args),
        Command::Prober(args) => commands::prober::run(args),
        Command::Aggregator(args) => commands::aggregator::run(&args),
        Command::Manifests(args) => commands::manifests::run(&args),
        Command::Vantage(args) => commands::vantage::run(args),
        Command::Replay(args) => commands::replay::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, exit::Failure::No) {
                eprintln!("parallax: {failure}");
            }
            failure.exit_code()
        }
    }
}

fn log_to_stderr(default: &str) {
    let filter = EnvFilter::try_from_env("PARALLAX_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
