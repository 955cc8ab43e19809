//! `parallax prober`: runs a prober.

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

use super::{credentials_file, stop_on_signal};
use crate::exit::Failure;

/// Run a prober: execute the aggregator's plan from this machine or Pod.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of the aggregator; several, separated by commas, are several aggregators, and each receives the reports.
    #[arg(
        long,
        value_name = "URL",
        env = "PARALLAX_AGGREGATOR",
        value_delimiter = ',',
        required = true
    )]
    aggregator: Vec<Url>,
    /// Treat each address that the aggregator's name resolves to as a separate aggregator, as behind a headless
    /// Service.
    #[arg(long, env = "PARALLAX_EVERY_ADDRESS")]
    every_address: bool,
    /// Vantage of this prober: NODE/pod, NODE/host, vpc:NAME or internet:NAME.
    #[arg(long, env = "PARALLAX_VANTAGE")]
    vantage: Vantage,
    /// Name of this prober in its echo responses.
    #[arg(long, value_name = "NAME", env = "PARALLAX_POD")]
    pod: PodName,
    /// Address that serves the echo, health and the prober's own metrics.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "PARALLAX_ECHO_LISTEN",
        default_value = "[::]:9095"
    )]
    echo_listen: SocketAddr,
    /// resolv.conf with resolvers and search list.
    #[arg(long, value_name = "FILE", default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// File with the token that authenticates to the aggregator.
    #[arg(long, value_name = "FILE", env = "PARALLAX_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with CAs that probes trust in addition to the system's.
    #[arg(long, value_name = "FILE")]
    extra_roots: Vec<PathBuf>,
    /// YAML file with the credentials that probes may use: name, directory with the secret, and hosts of each.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CREDENTIALS")]
    credentials: Option<PathBuf>,
    /// PEM file with the aggregator's CA. The connection to the aggregator then trusts only these files. They are read
    /// again when they change, and may appear after the start.
    #[arg(long, value_name = "FILE", env = "PARALLAX_AGGREGATOR_ROOTS")]
    aggregator_roots: Vec<PathBuf>,
    /// Only serve the echo; make no probes and send no reports.
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
        return Err(Failure::Usage(
            "--aggregator: expected at least one URL".to_owned(),
        ));
    };
    let others = aggregators.collect();
    let config = AgentConfig {
        vantage: args.vantage,
        pod: args.pod,
        aggregator,
        credential: token,
        aggregator_roots: aggregator_roots(args.aggregator_roots)?,
        role: if args.responder {
            Role::Responder
        } else {
            Role::Prober
        },
        echo_listen: args.echo_listen,
        resolv_conf: args.resolv_conf,
        extra_roots: roots(&args.extra_roots)?,
        credentials: credentials_file::read(args.credentials.as_deref())?,
        spool_capacity: SPOOL_CAPACITY,
        facts: parallax_prober::FactSources::default(),
    };
    // A single thread: other work does not distort the timings, and the prober stays small on its node.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::indeterminate)?;
    runtime.block_on(async {
        let stop = stop_on_signal()?;
        let agent = Agent::bind(config)
            .await
            .and_then(|agent| agent.with_replicas(others))
            .map(|agent| agent.resolve_every_address(args.every_address))
            .map_err(|error| match error {
                AgentError::Aggregator { .. } => Failure::usage(error),
                _ => Failure::indeterminate(error),
            })?;
        tracing::info!(echo = %agent.echo_addr(), "prober started");
        agent.run(stop).await.map_err(Failure::indeterminate)
    })
}

/// Validates the token file at startup; afterwards the prober reads it again for each request.
fn token_file(path: PathBuf) -> Result<ProberCredential, Failure> {
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Failure::Usage(format!("cannot read the token file {}: {e}", path.display())))?;
    let token = text.trim();
    if token.is_empty() || token.chars().any(|c| !c.is_ascii_graphic()) {
        let path = path.display();
        return Err(Failure::Usage(format!(
            "{path}: expected the token as one line of printable ASCII"
        )));
    }
    Ok(ProberCredential::File(path))
}

/// Validates the CA files. A file that does not exist yet is not an error.
fn aggregator_roots(files: Vec<PathBuf>) -> Result<AggregatorRoots, Failure> {
    if files.is_empty() {
        return Ok(AggregatorRoots::SameAsProbes);
    }
    for file in &files {
        match std::fs::metadata(file) {
            // An empty file is published but not filled yet; other content must be certificates.
            Ok(metadata) if metadata.len() > 0 => drop(read_roots(file)?),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                tracing::warn!(file = %file.display(), "the file with the aggregator's CA does not exist yet; waiting for it");
            }
            Err(error) => {
                return Err(Failure::Usage(format!(
                    "cannot read the aggregator's CA {}: {error}",
                    file.display()
                )));
            }
        }
    }
    Ok(AggregatorRoots::Files(files))
}

/// Reads the certificates of a PEM file, at least one.
pub(super) fn read_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let wrong = |e: &dyn std::fmt::Display| {
        Failure::Usage(format!("{}: expected PEM certificates: {e}", path.display()))
    };
    let roots = CertificateDer::pem_file_iter(path)
        .map_err(|e| wrong(&e))?
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| wrong(&e))?;
    if roots.is_empty() {
        Err(wrong(&"the file contains none"))
    } else {
        Ok(roots)
    }
}
