//! The one binary, `parallax`.
//!
//! Exit codes: 0 fine, 1 the answer is no, 2 usage or configuration, 3 could not run or could not tell.
#![forbid(unsafe_code)]

mod commands;
mod exit;

use std::{io::IsTerminal, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
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
    /// Is all well? What the mesh sees right now, in a few lines.
    Status(commands::query::status::Args),
    /// What should be reachable, and whether it is.
    Targets(commands::query::targets::Args),
    /// What is wrong, one line an incident.
    Incidents(commands::query::incidents::Args),
    /// An incident with its evidence, what was ruled out and what to do.
    Explain(commands::query::explain::Args),
    /// Ask for a target at once, from everywhere, and name the cause where it fails.
    Run(commands::query::run::Args),
    /// Will the certificate be issued? cert-manager's self check and the CA's validation, asked before the order.
    Preflight(Box<commands::preflight::Args>),
    /// Would the certificates be renewed? What can be known of each name without an order.
    Forecasts(commands::query::forecasts::Args),
    /// Answer one ACME challenge: the pod of a preflight.
    #[command(hide = true)]
    Solver(commands::solver::Args),
    /// Say that you have seen an incident: it stays open and calls nobody any more.
    Ack(commands::query::incident_actions::AcknowledgeArgs),
    /// Call nobody about an incident until a time; it stays open and shown.
    Silence(commands::query::incident_actions::SilenceArgs),
    /// Repeat the probes that decided an incident: did the fix work?
    Verify(commands::query::incident_actions::VerifyArgs),
    /// Announce maintenance: nobody is called for what fails within it.
    Maintenance(commands::query::incident_actions::MaintenanceArgs),
    /// Reset what a target answers while it works.
    Baseline(commands::query::baseline::Args),
    /// Look after those who are told of incidents.
    Notify(commands::notify::Args),
    /// Print the completion script of a shell.
    Completion(commands::query::completion::Args),
    /// Diagnose a recorded stream; the same input gives the same bytes.
    Replay(commands::replay::Args),
}

/// What goes wrong with the API server is said by whoever asked, with what to do about it.
const QUIETLY: &str = "warn,kube_client=off";
const SERVING: &str = "info,kube_client=off";

fn main() -> ExitCode {
    let cli = parsed();
    log_to_stderr(match &cli.command {
        Command::Preflight(args) if args.serves() => SERVING,
        Command::Prober(_) | Command::Aggregator(_) => SERVING,
        // A person reads the output of every other command: only warnings belong between its lines.
        _ => QUIETLY,
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
        Command::Status(args) => commands::query::status::run(&args),
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

/// The command line. Installed as `kubectl-parallax` it is `kubectl parallax`, and says so in its usage.
fn parsed() -> Cli {
    let command = if commands::called_as_plugin() {
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
