//! `parallax aggregator`: runs the aggregator.

use std::{net::IpAddr, path::PathBuf};

use parallax_aggregator::{Aggregator, Config};
use parallax_model::NodeName;

use super::stop_on_signal;
use crate::exit::Failure;

/// Run the aggregator: correlate observations, name causes, serve page, API and metrics.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration file; deploy/parallax.yaml is a commented example.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CONFIG")]
    config: PathBuf,
    /// Name of this replica among several aggregators (`replicas` in the configuration): its Pod name.
    #[arg(long, value_name = "NAME", env = "PARALLAX_POD")]
    pod: Option<String>,
    /// Address at which the other aggregators reach this one [default: the address of `listen`].
    #[arg(long, value_name = "ADDRESS", env = "PARALLAX_ADDRESS")]
    address: Option<IpAddr>,
    /// Node of the watched cluster on which this aggregator runs; a topology file names it as `aggregator`. A fault of the
    /// network between it and a silent vantage explains the silence.
    #[arg(long, value_name = "NODE", env = "PARALLAX_NODE")]
    node: Option<NodeName>,
    #[command(flatten)]
    record: super::record::Args,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let config = Config::load(&args.config)
        .map_err(Failure::usage)?
        .as_replica(args.pod.clone(), args.address)
        .on_node(args.node.clone())
        .with_record(args.record.options());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::indeterminate)?;
    runtime.block_on(async {
        let stop = stop_on_signal()?;
        let aggregator = Aggregator::bind(config).await.map_err(Failure::indeterminate)?;
        tracing::info!(page = %format_args!("http://{}/", aggregator.local_addr()), "serving");
        if let Some(address) = aggregator.tls_addr() {
            tracing::info!(probers = %format_args!("https://{address}/"), "serving probers");
        }
        Box::pin(aggregator.run(stop))
            .await
            .map_err(Failure::indeterminate)
    })
}
