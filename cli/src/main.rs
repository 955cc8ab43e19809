//! The `parallax` binary.
//!
//! Exit codes: 0 success, 1 the answer is no, 2 usage or configuration error, 3 could not run or result unknown.
#![forbid(unsafe_code)]

mod commands;
mod exit;

use std::{io::IsTerminal, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Probes your cluster's names and addresses from every node, and names the cause when one is unreachable.
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
    /// Run an aggregator and a local prober in one process, for targets listed in YAML. Needs no Kubernetes.
    Up(commands::up::Args),
    /// Probe URLs from this machine: each address separately, each phase timed, failures with their likely reason.
    Check(commands::check::Args),
    /// Run a prober: execute the aggregator's plan from this machine or Pod.
    Prober(commands::prober::Args),
    /// Run the aggregator: correlate observations, name causes, serve page, API and metrics.
    Aggregator(commands::aggregator::Args),
    /// Manage vantages outside the cluster.
    Vantage(commands::vantage::Args),
    /// Show whether all is well: the current state of the mesh in a few lines.
    Status(commands::query::status::Args),
    /// Check the installation: image, probers, CA, plan, echo between zones, permissions, metrics.
    VerifyInstall(commands::verify_install::Args),
    /// List targets and whether they are reachable.
    Targets(commands::query::targets::Args),
    /// List incidents, one per line.
    Incidents(commands::query::incidents::Args),
    /// Show an incident with its evidence, what was ruled out, and remedies.
    Explain(commands::query::explain::Args),
    /// Probe a target now from every vantage, and name the cause if it fails.
    Run(commands::query::run::Args),
    /// Predict whether a certificate will be issued: cert-manager's self check and the CA's validation.
    Preflight(Box<commands::preflight::Args>),
    /// Predict whether certificates will be renewed, as far as this is known without an order.
    Forecasts(commands::query::forecasts::Args),
    /// Answer one ACME challenge (runs in the solver Pod of a preflight).
    #[command(hide = true)]
    Solver(commands::solver::Args),
    /// Acknowledge an incident: it stays open, and triggers no more notifications.
    Ack(commands::query::incident_actions::AcknowledgeArgs),
    /// Silence an incident's notifications for a time; it stays open and visible.
    Silence(commands::query::incident_actions::SilenceArgs),
    /// Repeat the probes that decided an incident, to verify a fix.
    Verify(commands::query::incident_actions::VerifyArgs),
    /// Manage maintenance windows: failures within one trigger no notifications.
    Maintenance(commands::query::incident_actions::MaintenanceArgs),
    /// Reset the baseline of a target.
    Baseline(commands::query::baseline::Args),
    /// Test the receivers of notifications.
    Notify(commands::notify::Args),
    /// Print the completion script for a shell.
    Completion(commands::query::completion::Args),
    /// Write the manual pages, one for each command.
    #[command(hide = true)]
    Manual(commands::manual::Args),
    /// Diagnose a recorded stream; the same input produces the same bytes.
    Replay(commands::replay::Args),
}

/// `kube_client` is off because callers report API server errors themselves, with advice.
const QUIET_LOG_FILTER: &str = "warn,kube_client=off";
const SERVER_LOG_FILTER: &str = "info,kube_client=off";

fn main() -> ExitCode {
    let cli = parse_args();
    log_to_stderr(match &cli.command {
        Command::Preflight(args) if args.is_server() => SERVER_LOG_FILTER,
        Command::Prober(_) | Command::Aggregator(_) => SERVER_LOG_FILTER,
        // Every other command prints its output for a person: log only warnings.
        _ => QUIET_LOG_FILTER,
    });
    // Without exactly one installed provider, rustls panics at the first handshake.
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!(
            "parallax: cannot install the TLS provider: another one is already installed; this is a bug in this build of parallax"
        );
        return ExitCode::from(3);
    }
    let done = match cli.command {
        Command::Up(args) => commands::up::run(args),
        Command::Check(args) => commands::check::run(&args),
        Command::Prober(args) => commands::prober::run(args),
        Command::Aggregator(args) => commands::aggregator::run(&args),
        Command::Vantage(args) => commands::vantage::run(args),
        Command::Status(args) => commands::query::status::run(&args),
        Command::VerifyInstall(args) => commands::verify_install::run(&args),
        Command::Targets(args) => commands::query::targets::run(&args),
        Command::Incidents(args) => commands::query::incidents::run(&args),
        Command::Explain(args) => commands::query::explain::run(&args),
        Command::Run(args) => commands::query::run::run(&args),
        Command::Preflight(args) => commands::preflight::run(&args),
        Command::Forecasts(args) => commands::query::forecasts::run(&args),
        Command::Solver(args) => commands::solver::run(args),
        Command::Ack(args) => commands::query::incident_actions::ack(args),
        Command::Silence(args) => commands::query::incident_actions::silence(args),
        Command::Verify(args) => commands::query::incident_actions::verify(&args),
        Command::Maintenance(args) => commands::query::incident_actions::maintenance(args),
        Command::Baseline(args) => commands::query::baseline::run(args),
        Command::Notify(args) => commands::notify::run(&args),
        Command::Completion(args) => commands::query::completion::run(&args, Cli::command()),
        Command::Manual(args) => commands::manual::run(&args, Cli::command()),
        Command::Replay(args) => commands::replay::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, exit::Failure::Negative) {
                eprintln!("parallax: {failure}");
            }
            failure.exit_code()
        }
    }
}

/// Parses the command line. If the binary is named `kubectl-parallax`, usage texts show `kubectl parallax`.
fn parse_args() -> Cli {
    let command = if commands::invoked_as_kubectl_plugin() {
        Cli::command().bin_name("kubectl parallax")
    } else {
        Cli::command()
    };
    Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
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
