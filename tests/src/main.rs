//! `parallax-lab`: runs incidents with real packets.

use std::{
    io::{Write, stdout},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use parallax_lab::{
    client,
    conductor::{self, Options, RunResult},
    dataplane::balancer,
    guest,
    incident::Incident,
    incident_file::{self, LoadError},
    kernel::{Kernel, LabKernel},
    lab::Lab,
    origin::{self, OriginBehaviour},
    run_dir::RunDir,
    suite::{self, SuiteOptions},
    tools,
    uml::InvalidSetting,
};

/// Runs incidents with real packets: a small cluster of namespaces in user-mode Linux, or on this machine's kernel.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 as expected · 1 not as expected · 2 usage error or invalid incident file · \
    3 could not run · 130 interrupted"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the incidents.
    List {
        #[command(flatten)]
        folder: LabFolder,
    },
    /// Run an incident: probers inside, the aggregator on this machine, and the expected verdict.
    Run {
        /// Id of the incident, or the path of its file.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Run every incident and exit with a summary.
        #[arg(long, conflicts_with_all = ["once", "healthy_rounds", "keep_log", "dataplane"])]
        all: bool,
        /// With --all: only incidents whose id starts with this prefix; can be repeated.
        #[arg(long, value_name = "START", requires = "all")]
        only: Vec<String>,
        /// With --all: number of concurrent labs, at most two for each CPU.
        #[arg(long, value_name = "N", requires = "all", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
        jobs: u8,
        /// With --all: write an HTML report to this file.
        #[arg(long, value_name = "FILE", requires = "all")]
        report: Option<PathBuf>,
        /// With --all: duration of quiet incidents in seconds; overrides the files'.
        #[arg(long, value_name = "N", requires = "all", value_parser = clap::value_parser!(u64).range(1..))]
        quiet_seconds: Option<u64>,
        /// Exit with the result instead of running until Ctrl-C.
        #[arg(long)]
        once: bool,
        /// Intervals before the first fault; overrides the file's.
        #[arg(long, value_name = "N")]
        healthy_rounds: Option<u32>,
        /// Listen address of the aggregator's page and API; port 0 selects a free port.
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080",
            value_parser = listen_address)]
        listen: SocketAddr,
        /// Keep the directory with all logs.
        #[arg(long)]
        keep_log: bool,
        /// Record the aggregator's input into this directory, for `parallax replay`. With --all, each incident has a directory
        /// of its own in it, which is kept if the incident was not as expected.
        #[arg(long, value_name = "FOLDER")]
        record: Option<PathBuf>,
        /// Run a real Prometheus with the shipped rules and report its alerts. Quiet incidents must not fire any; a
        /// named cause must.
        #[arg(long)]
        alerts: bool,
        /// Print the result as one line of JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ground: KernelChoice,
        #[command(flatten)]
        services: ServiceChoice,
        #[command(flatten)]
        folder: LabFolder,
    },
    /// Show what an ordinary client sees before and after the faults, without Parallax.
    Packets {
        /// Id of the incident, or the path of its file.
        id: String,
        /// Keep the directory with all logs.
        #[arg(long)]
        keep_log: bool,
        #[command(flatten)]
        ground: KernelChoice,
        #[command(flatten)]
        services: ServiceChoice,
        #[command(flatten)]
        folder: LabFolder,
    },
    /// The guest (started by its init script).
    #[command(hide = true)]
    Guest {
        /// Address of the host [default: standard input is the connection].
        #[arg(long)]
        control: Option<SocketAddr>,
        #[arg(long)]
        run: String,
    },
    /// The server in a Pod.
    #[command(hide = true)]
    Origin {
        #[arg(long, required = true)]
        listen: Vec<SocketAddr>,
        #[arg(long)]
        pod: String,
        #[arg(long)]
        node: String,
        #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(200..600))]
        status: u16,
        #[arg(long, default_value_t = 0)]
        delay_ms: u64,
        #[arg(long)]
        body_bytes: Option<usize>,
        #[arg(long)]
        host: Vec<String>,
    },
    /// The cloud's balancers.
    #[command(hide = true)]
    Balancer,
    /// An ordinary client: JSON requests in, JSON results out.
    #[command(hide = true)]
    Client,
}

/// The kernel of a lab.
#[derive(Debug, Args)]
struct KernelChoice {
    /// `host` uses this machine's kernel, in namespaces (requires root; not for IPVS data planes), and fails if that
    /// is not possible; `uml` uses the lab's own [default: for nftables this machine's if possible, for iptables only
    /// if user-mode Linux does not boot].
    #[arg(long, value_name = "host|uml")]
    kernel: Option<Kernel>,
}

/// Implementation of the Services on the nodes.
#[derive(Debug, Args)]
struct ServiceChoice {
    /// `external` leaves the Services to the hook; the incident's own data plane then only describes the expected
    /// behaviour.
    #[arg(long, value_name = "external", requires = "hook", value_parser = ["external"])]
    dataplane: Option<String>,
    /// With --dataplane external: a program that is run inside as `HOOK built|changed FILE`, and makes the Services in
    /// FILE work before it exits.
    #[arg(long, value_name = "PROGRAM", requires = "dataplane")]
    hook: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct LabFolder {
    /// Directory of the incident files.
    #[arg(long = "incidents", value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/incidents"),
        hide_default_value = true)]
    incidents: PathBuf,
}

/// Parses a listen address. The probers inside can reach the host only on its loopback.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "expected ADDRESS:PORT, as in 127.0.0.1:8080".to_owned())?;
    let ip = address.ip();
    if ip == Ipv4Addr::LOCALHOST || ip.is_unspecified() {
        return Ok(address);
    }
    Err(
        "expected 127.0.0.1, 0.0.0.0 or [::]: the probers inside can reach only this machine's loopback"
            .to_owned(),
    )
}

/// Exit code if the lab could not run.
const EXIT_COULD_NOT_RUN: u8 = 3;

// A single thread: children are bound to the lifetime of the thread that starts them (`setpriv --pdeathsig`).
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match Box::pin(command(cli.command)).await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("parallax-lab: {error:#}");
            let usage = error.is::<LoadError>() || error.is::<InvalidSetting>();
            ExitCode::from(if usage { 2 } else { EXIT_COULD_NOT_RUN })
        }
    }
}

async fn command(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::List { folder } => list(&folder.incidents),
        Command::Run {
            all: true,
            only,
            jobs,
            report,
            quiet_seconds,
            record,
            alerts,
            json,
            ground,
            folder,
            ..
        } => {
            let suite = SuiteOptions {
                alerts,
                kernel: ground.kernel,
                folder: folder.incidents,
                only,
                jobs,
                report,
                quiet_seconds,
                json,
                record,
            };
            Ok(match Box::pin(suite.run()).await? {
                suite::SuiteResult::AsExpected => 0,
                suite::SuiteResult::NotAsExpected => 1,
                suite::SuiteResult::Interrupted => 130,
            })
        }
        Command::Run {
            id,
            once,
            healthy_rounds,
            listen,
            keep_log,
            record,
            alerts,
            json,
            ground,
            services,
            folder,
            ..
        } => {
            let incident = incident_file::load(&folder.incidents, &id.context("no incident given")?)?;
            let options = Options {
                once,
                healthy_rounds,
                listen,
                keep_log,
                record,
                json,
                hook: services.hook,
                kernel: ground.kernel,
                alerts,
            };
            Ok(match conductor::run(incident, options).await? {
                RunResult::AsExpected => 0,
                RunResult::NotAsExpected => 1,
                RunResult::Interrupted => 130,
            })
        }
        Command::Packets {
            id,
            keep_log,
            ground,
            services,
            folder,
        } => {
            let incident = incident_file::load(&folder.incidents, &id)?;
            packets(incident, keep_log, ground.kernel, services.hook.as_deref()).await
        }
        Command::Guest { control, run } => guest::run(control, &run).map(|()| 0),
        Command::Origin {
            listen,
            pod,
            node,
            status,
            delay_ms,
            body_bytes,
            host,
        } => {
            let manner = OriginBehaviour {
                status: hyper::StatusCode::from_u16(status).context("parsing the status")?,
                delay: Duration::from_millis(delay_ms),
                body_bytes,
                hosts: host,
            };
            origin::serve(&listen, &pod, &node, manner).await.map(|()| 0)
        }
        Command::Balancer => balancer::serve().map(|()| 0),
        Command::Client => client::serve_requests().map(|()| 0),
    }
}

fn list(folder: &Path) -> anyhow::Result<u8> {
    let mut out = stdout().lock();
    for id in incident_file::list(folder)? {
        let incident = incident_file::load(folder, &id)?;
        writeln!(out, "{id:<20} {}", incident.title).context("writing the list")?;
    }
    Ok(0)
}

async fn packets(
    incident: Incident,
    keep_log: bool,
    kernel: Option<Kernel>,
    hook: Option<&Path>,
) -> anyhow::Result<u8> {
    let ground = LabKernel::choose(&incident, kernel)?;
    tools::check(ground.kernel)?;
    if let Some(instead) = &ground.substitute {
        eprintln!("{instead}");
    }
    let program = std::env::current_exe().context("finding the path of this program")?;
    let run = RunDir::create(keep_log)?;
    let mut lab = Lab::boot(&program, run, incident.clone(), ground.kernel).await?;
    if let Some(hook) = hook {
        lab.set_service_hook(hook)?;
    }
    let shown = show_packets(&mut lab, &incident).await;
    if keep_log {
        eprintln!("logs are kept in {}", lab.run().path().display());
    }
    lab.stop(keep_log).await;
    Ok(u8::from(!shown?))
}

async fn show_packets(lab: &mut Lab, incident: &Incident) -> anyhow::Result<bool> {
    let built = lab.build().await?;
    println!(
        "kernel {}, {} pods, built in {:.1} s",
        lab.kernel(),
        built.pods,
        built.duration.as_secs_f64()
    );
    let mut ok = true;
    let packets = &incident.expected.packets;
    for (phase, looks) in [
        ("healthy", &packets.healthy),
        ("after the faults", &packets.faulty),
    ] {
        if phase != "healthy" {
            for i in 0..incident.faults.len() {
                lab.fault(i).await?;
            }
        }
        println!("\n{phase}:");
        for seen in lab.send_requests(looks).await? {
            println!("  {seen}");
            ok &= seen.as_expected();
        }
    }
    lab.check_processes().await?;
    Ok(ok)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, error::ErrorKind};

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_a_data_plane_from_outside_needs_a_hook() {
        Cli::command().debug_assert();
        let usage_error = |words: &[&str]| {
            let words = ["parallax-lab"].iter().chain(words);
            Cli::try_parse_from(words).map(drop).map_err(|error| error.kind())
        };
        assert_eq!(
            usage_error(&["packets", "i1", "--dataplane", "external", "--hook", "/h"]),
            Ok(())
        );
        assert_eq!(
            usage_error(&["run", "i1", "--dataplane", "external"]),
            Err(ErrorKind::MissingRequiredArgument)
        );
        let all = ["run", "--all", "--dataplane", "external", "--hook", "/h"];
        assert_eq!(usage_error(&all), Err(ErrorKind::ArgumentConflict));
    }
}
