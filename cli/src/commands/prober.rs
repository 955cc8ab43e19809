//! `parallax prober`: probe what the aggregator asks for.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use parallax_model::{PodName, Vantage};
use parallax_prober::{
    Agent, AgentConfig, AgentError, AggregatorRoots, ProberCredential, Role, SPOOL_CAPACITY,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use url::Url;

use super::stop_on_signal;
use crate::exit::Failure;

/// Probe what the aggregator asks for, from this machine or pod.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the aggregator serves. Several URLs, separated by commas, are several aggregators: reports go to each of them.
    #[arg(
        long,
        value_name = "URL",
        env = "PARALLAX_AGGREGATOR",
        value_delimiter = ',',
        required = true
    )]
    aggregator: Vec<Url>,
    /// Take each address that the aggregator's name leads to for an aggregator of its own, as behind a headless Service.
    #[arg(long, env = "PARALLAX_EVERY_ADDRESS")]
    every_address: bool,
    /// Where this prober sits: NODE/pod, NODE/host, vpc:NAME or internet:NAME.
    #[arg(long, env = "PARALLAX_VANTAGE")]
    vantage: Vantage,
    /// The name this prober answers with when others ask for its echo.
    #[arg(long, value_name = "NAME", env = "PARALLAX_POD")]
    pod: PodName,
    /// Where echo, health and own metrics are served.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "PARALLAX_ECHO_LISTEN",
        default_value = "[::]:9095"
    )]
    echo_listen: SocketAddr,
    /// Resolvers and search list.
    #[arg(long, value_name = "FILE", default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// A file with the token that the aggregator wants to see.
    #[arg(long, value_name = "FILE", env = "PARALLAX_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) that probes trust beside the machine's own.
    #[arg(long, value_name = "FILE")]
    extra_roots: Vec<PathBuf>,
    /// Certificates (PEM) of the aggregator's CA; only these are trusted for it. Read again when they change; a file that
    /// is not there yet may come later.
    #[arg(long, value_name = "FILE", env = "PARALLAX_AGGREGATOR_ROOTS")]
    aggregator_roots: Vec<PathBuf>,
    /// Only answer the echo; probe and report nothing.
    #[arg(long)]
    responder: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let token = args.token_file.map(token_file).transpose()?;
    let roots = |files: &[PathBuf]| -> Result<Vec<_>, Failure> {
        Ok(files
            .iter()
            .map(|path| read_roots(path))
            .collect::<Result<Vec<_>, _>>()?
            .concat())
    };
    let mut aggregators = args.aggregator.into_iter();
    let Some(aggregator) = aggregators.next() else {
        return Err(Failure::Usage("--aggregator: expected a URL".to_owned()));
    };
    let others = aggregators.collect();
    let config = AgentConfig {
        vantage: args.vantage,
        pod: args.pod,
        aggregator,
        token,
        aggregator_roots: aggregator_roots(args.aggregator_roots)?,
        role: if args.responder {
            Role::Responder
        } else {
            Role::Prober
        },
        echo_listen: args.echo_listen,
        resolv_conf: args.resolv_conf,
        extra_roots: roots(&args.extra_roots)?,
        spool_capacity: SPOOL_CAPACITY,
        facts: parallax_prober::FactSources::default(),
    };
    // One thread: timings stay free of what other work would do to them, and a node has better uses for its cores.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::could_not)?;
    runtime.block_on(async {
        let stop = stop_on_signal()?;
        let agent = Agent::bind(config)
            .await
            .and_then(|agent| agent.also_reporting_to(others))
            .map(|agent| agent.at_every_address(args.every_address))
            .map_err(|error| match error {
                AgentError::Aggregator { .. } => Failure::usage(error),
                _ => Failure::could_not(error),
            })?;
        tracing::info!(echo = %agent.echo_addr(), "probing");
        agent.run(stop).await.map_err(Failure::could_not)
    })
}

/// A token that cannot be read now is a mistake of the configuration; later it is read anew for each request.
fn token_file(path: PathBuf) -> Result<ProberCredential, Failure> {
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Failure::Usage(format!("read the token file {}: {e}", path.display())))?;
    let token = text.trim();
    if token.is_empty() || token.chars().any(|c| !c.is_ascii_graphic()) {
        let path = path.display();
        return Err(Failure::Usage(format!(
            "{path}: expected one line of printable ASCII, the token"
        )));
    }
    Ok(ProberCredential::File(path))
}

/// What can be wrong with the files is said now; that one is not there yet is no mistake.
fn aggregator_roots(files: Vec<PathBuf>) -> Result<AggregatorRoots, Failure> {
    if files.is_empty() {
        return Ok(AggregatorRoots::AsProbes);
    }
    for file in &files {
        match std::fs::metadata(file) {
            // Published but not filled yet, or filled with something else: only the latter is worth a word.
            Ok(metadata) if metadata.len() > 0 => drop(read_roots(file)?),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                tracing::warn!(file = %file.display(), "the aggregator's CA is not there yet; waiting for it");
            }
            Err(error) => {
                return Err(Failure::Usage(format!(
                    "read the aggregator's CA {}: {error}",
                    file.display()
                )));
            }
        }
    }
    Ok(AggregatorRoots::Files(files))
}

/// Certificates of a PEM file, at least one.
pub(super) fn read_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let wrong = |e: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "{}: expected certificates in PEM form: {e}",
            path.display()
        ))
    };
    let roots = CertificateDer::pem_file_iter(path)
        .map_err(|e| wrong(&e))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(&e))?;
    if roots.is_empty() {
        Err(wrong(&"the file has none"))
    } else {
        Ok(roots)
    }
}
