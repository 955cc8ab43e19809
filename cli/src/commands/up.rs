//! `parallax up`: runs an aggregator and a local prober in one process.

mod state;

use std::{io::Write, net::SocketAddr, path::PathBuf, time::Duration};

use parallax_aggregator::{Aggregator, Config};
use parallax_diagnosis::{verdict::IncidentState, view::View};
use parallax_model::{Network, NodeName, PodName, Vantage};
use parallax_prober::{Agent, AgentConfig, AggregatorRoots, ProberCredential, Role, SPOOL_CAPACITY};
use parallax_runtime::SnapshotReader;
use parallax_terminal::ColorMode;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{color, stop_on_signal};
use crate::exit::Failure;

/// Rows of the matrix that fit on a screen with the rest; the page shows all of them.
const MAX_MATRIX_ROWS: usize = 12;

/// Run an aggregator and a local prober in one process, for targets listed in YAML.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Configuration file; deploy/parallax.yaml is a commented example.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CONFIG")]
    config: PathBuf,
    /// resolv.conf with resolvers and search list.
    #[arg(long, value_name = "FILE", default_value = "/etc/resolv.conf")]
    resolv_conf: PathBuf,
    /// PEM file with CAs that probes trust in addition to the system's.
    #[arg(long, value_name = "FILE")]
    extra_roots: Vec<PathBuf>,
    /// YAML file with the credentials that probes may use: name, directory with the secret, and hosts of each.
    #[arg(long, value_name = "FILE", env = "PARALLAX_CREDENTIALS")]
    credentials: Option<PathBuf>,
    /// File that keeps what ever worked and which incidents are open, for the next start [default: one file per
    /// configuration in ~/.local/state/parallax, unless the configuration has `checkpoint` or `store`].
    #[arg(long, value_name = "FILE", conflicts_with = "no_state")]
    state: Option<PathBuf>,
    /// Keep no state for the next start.
    #[arg(long)]
    no_state: bool,
    /// Serve and probe without printing the state.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    record: super::record::Args,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let host = host_name()?;
    let vantage = Vantage::Cluster {
        node: host.clone(),
        network: Network::Host,
    };
    let config = Config::load(&args.config)
        .map_err(Failure::usage)?
        .with_vantage(vantage.clone())
        .with_record(args.record.options());
    let mut extra_roots = Vec::new();
    for file in &args.extra_roots {
        extra_roots.extend(super::prober::read_roots(file)?);
    }
    let credentials = super::credentials_file::read(args.credentials.as_deref())?;
    let configured = config.checkpoint.is_some() || config.store.is_some();
    let file = args
        .state
        .or_else(|| (!configured && !args.no_state).then(|| state::default_file(&args.config))?);
    let config = config.with_checkpoint_file(file);
    let token = config
        .token
        .as_ref()
        .map(|token| ProberCredential::Fixed(token.secret().to_owned()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::indeterminate)?;
    runtime.block_on(async {
        let stop = stop_on_signal()?;
        let aggregator = Aggregator::bind(config).await.map_err(Failure::indeterminate)?;
        let serving = aggregator.local_addr();
        let views = aggregator.views();
        let url =
            Url::parse(&format!("http://{}/", dialable_address(serving))).map_err(Failure::indeterminate)?;
        let pod = PodName::new(format!("up-{host}")).map_err(Failure::indeterminate)?;
        let agent = AgentConfig {
            credential: token,
            echo_listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            resolv_conf: args.resolv_conf,
            vantage,
            pod,
            aggregator: url.clone(),
            aggregator_roots: AggregatorRoots::SameAsProbes,
            role: Role::Prober,
            extra_roots,
            credentials,
            spool_capacity: SPOOL_CAPACITY,
            facts: parallax_prober::FactSources::default(),
        };
        println!("page and API at {url}");
        let prober = ProberThread::start(agent, stop.clone());
        let printer = StatusPrinter {
            views,
            style: color(),
            quiet: args.quiet,
        };
        let (served, ()) = tokio::join!(aggregator.run(stop.clone()), printer.run(stop.clone()));
        stop.cancel();
        let prober_ended = tokio::task::spawn_blocking(move || prober.join())
            .await
            .map_err(Failure::indeterminate)?;
        served.map_err(Failure::indeterminate).and(prober_ended)
    })
}

/// The prober on its own thread, so that page and API do not delay its timings.
struct ProberThread(std::thread::JoinHandle<Result<(), Failure>>);

impl ProberThread {
    fn start(config: AgentConfig, stop: CancellationToken) -> Self {
        Self(std::thread::spawn(move || {
            // If the prober ends, end the process: without it the page would only become stale.
            let _end = stop.clone().drop_guard();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(Failure::indeterminate)?;
            runtime.block_on(async {
                let agent = Agent::bind(config).await.map_err(Failure::indeterminate)?;
                agent.run(stop).await.map_err(Failure::indeterminate)
            })
        }))
    }

    fn join(self) -> Result<(), Failure> {
        self.0
            .join()
            .unwrap_or_else(|_| Err(Failure::Indeterminate("the prober's thread panicked".to_owned())))
    }
}

/// Interval at which the state is compared with the screen.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

struct StatusPrinter {
    views: SnapshotReader<View>,
    style: ColorMode,
    quiet: bool,
}

impl StatusPrinter {
    /// Prints the state whenever its text changes.
    async fn run(self, stop: CancellationToken) {
        if self.quiet {
            return;
        }
        let mut shown = String::new();
        let mut look = tokio::time::interval(POLL_INTERVAL);
        while !self.views.is_closed() {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = look.tick() => {}
            }
            let view = self.views.current().await;
            let state = screen(&view, self.style);
            if state != shown {
                shown = state;
                let pending = parallax_terminal::pending_probes(&view, self.style);
                let mut out = std::io::stdout().lock();
                // A closed pipe must not stop the mesh.
                let _ = writeln!(out, "\n{shown}{pending}").and_then(|()| out.flush());
            }
        }
    }
}

/// Renders only what changes when something happens. Ages would change all the time.
fn screen(view: &View, style: ColorMode) -> String {
    let mut text = format!(
        "{}\n{}",
        parallax_terminal::summary(view, style),
        parallax_terminal::matrix(view, style, MAX_MATRIX_ROWS)
    );
    for incident in view
        .incidents
        .iter()
        .filter(|i| !matches!(i.state, IncidentState::Closed { .. }))
    {
        text.push('\n');
        text.push_str(&parallax_terminal::incident(incident, incident.opened, style));
    }
    let besides = parallax_terminal::findings(view, style);
    if !besides.is_empty() {
        text.push('\n');
        text.push_str(&besides);
    }
    text
}

/// Returns an address that a client on this machine can dial, also if the server listens on all addresses.
fn dialable_address(listening: SocketAddr) -> SocketAddr {
    let mut address = listening;
    if address.ip().is_unspecified() {
        address.set_ip(match listening {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn host_name() -> Result<NodeName, Failure> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(|e| Failure::Indeterminate(format!("cannot read the host name of this machine: {e}")))?;
    NodeName::new(name.trim()).map_err(Failure::indeterminate)
}
