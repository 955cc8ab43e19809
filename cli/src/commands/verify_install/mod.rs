//! `parallax verify-install`: checks whether the installation is complete and works, and says what to do about what does
//! not.
//!
//! ```text
//! aggregator (GET /v1/installation) ─┐
//!                                    ├─▶ facts ─▶ checks ─▶ report, exit code
//! API server (Pods, workloads, …) ───┘
//! ```

mod checks;
mod cluster;
mod facts;
mod report;
mod workloads;

use std::{
    io::Write as _,
    thread,
    time::{Duration, Instant},
};

use parallax_model::units;

use self::{
    facts::{Facts, NOT_ASKED},
    report::{Outcome, Report},
};
use crate::{
    commands::{
        print,
        query::{ApiClient, Output, ServerArgs, block_on},
    },
    exit::Failure,
};

/// Time between two attempts of `--wait`.
const WAIT_INTERVAL: Duration = Duration::from_secs(5);

/// Check the installation: image, probers, CA, plan, echo between zones, permissions, metrics.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Whether targets are reachable is not part of the installation: see `parallax status`.\n\nExit codes: 0 all checks pass, 1 a check fails, 2 usage or not allowed, 3 unknown (no check fails, and what at least one of them depends on could not be read).\n\nPods, Deployments, DaemonSets and PodMonitors are read from the API server: with the kubeconfig if the command is called as `kubectl parallax` or with a cluster option, and inside a Pod with its ServiceAccount. --server can be combined with the cluster options."
)]
pub(crate) struct Args {
    /// Wait until all checks pass, at most for this time, such as 90s or 4m.
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    wait: Option<u64>,
    /// Output format: json, yaml or wide.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    server: ServerArgs,
}

fn parse_wait(text: &str) -> Result<u64, String> {
    units::parse_with_unit(text, &units::SECONDS)
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| "expected a duration such as 90s or 4m".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let deadline = args.wait.map(|wait| Instant::now() + Duration::from_secs(wait));
    let mut announced = String::new();
    let report = loop {
        let report = Report::new(&collect(&args.server)?);
        let remaining = deadline.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        if report.outcome() == Outcome::Ok || remaining.is_zero() {
            break report;
        }
        let pending = report.pending();
        if pending != announced {
            // A closed stderr means that the progress is not wanted.
            let _ = writeln!(std::io::stderr(), "parallax: waiting for {pending}");
            announced = pending;
        }
        thread::sleep(WAIT_INTERVAL.min(remaining));
    };
    if !Output::print_document(args.output, &report)? {
        print(&report.render(args.output == Some(Output::Wide)))?;
    }
    match report.outcome() {
        Outcome::Ok => Ok(()),
        Outcome::NotOk => Err(Failure::Negative),
        Outcome::Unknown => Err(Failure::Indeterminate(format!(
            "cannot tell whether the installation is in order: {}",
            report.pending()
        ))),
    }
}

/// Asks the aggregator and the API server. Wrong options end the command; everything else that cannot be asked is a fact.
fn collect(server: &ServerArgs) -> Result<Facts, Failure> {
    let aggregator = ApiClient::beside_cluster(server)
        .and_then(|client| block_on(client.get(&["v1", "installation"], &[])));
    let aggregator = match aggregator {
        Err(failure @ Failure::Usage(_)) => return Err(failure),
        Err(failure) => Err(failure.to_string()),
        Ok(facts) => Ok(facts),
    };
    // In one runtime: the client's connections belong to the runtime that creates it.
    block_on(async {
        let Some((client, namespace)) = cluster::connect(server).await? else {
            return Ok(Facts::without_cluster(aggregator, NOT_ASKED));
        };
        let cluster = cluster::read(&client, &namespace, aggregator.as_ref().ok()).await;
        Ok(Facts {
            namespace,
            aggregator,
            cluster,
        })
    })
}
