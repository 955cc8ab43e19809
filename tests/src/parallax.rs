//! The product under test as a user starts it: the `parallax` binary next to this one.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use parallax_model::NodeName;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::{
    api_client::{self, AggregatorState},
    lab::tail,
    run_dir::RunDir,
};

/// Timeout until the aggregator responds, and until it has stopped.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// Delay between two queries whether it responds.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A running aggregator; killed on drop.
#[derive(Debug)]
pub struct RunningAggregator {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// Returns the binary next to this crate's own. It must have been built from the same sources: `make` builds the
/// workspace first.
pub fn sibling_binary(program: &Path) -> anyhow::Result<PathBuf> {
    let beside = program.with_file_name("parallax");
    if beside.is_file() {
        return Ok(beside);
    }
    bail!(
        "cannot find {}; build it with: cargo build --workspace",
        beside.display()
    )
}

/// Checks that the address is free, and replaces port 0 by a free one.
pub fn free_address(listen: SocketAddr) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(listen)
        .with_context(|| format!("cannot listen on {listen}; choose another address with --listen"))?;
    listener.local_addr().context("finding a free port")
}

impl RunningAggregator {
    /// Starts it and waits until its API responds.
    pub async fn start(
        parallax: &Path,
        config: &Path,
        address: SocketAddr,
        run: &RunDir,
        node: Option<&NodeName>,
        record: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let log = run.file("aggregator.log");
        let out = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(parallax)
            .args(["aggregator", "--config"])
            .arg(config)
            .args(node.into_iter().flat_map(|node| ["--node", node.as_str()]))
            .args(
                record
                    .into_iter()
                    .flat_map(|folder| [Path::new("--record"), folder]),
            )
            .stdin(Stdio::null())
            .stdout(out.try_clone().context("sharing the log file")?)
            .stderr(out)
            // Ctrl-C in the terminal must reach only the lab, which then stops the aggregator in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", parallax.display()))?;
        let mut aggregator = Self { child, address, log };
        let start = Instant::now();
        loop {
            if let Some(status) = aggregator
                .child
                .try_wait()
                .context("checking whether the aggregator still runs")?
            {
                bail!("the aggregator exited with {status}:\n{}", tail(&aggregator.log));
            }
            match aggregator.state().await {
                Ok(_) => return Ok(aggregator),
                Err(error) if start.elapsed() > START_TIMEOUT => {
                    return Err(error.context(format!(
                        "the aggregator did not start:\n{}",
                        tail(&aggregator.log)
                    )));
                }
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Fetches its state.
    pub async fn state(&self) -> anyhow::Result<AggregatorState> {
        api_client::fetch_state(self.address).await
    }

    /// Returns the end of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Returns its listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it, as when its node fails or its memory limit is exceeded.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing the aggregator")
    }

    /// Terminates it gracefully.
    pub async fn stop(mut self) {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // If it has exited already, no signal is needed; if it does not exit, the drop kills it.
            let _ = kill_process(pid, Signal::TERM);
            let _ = timeout(START_TIMEOUT, self.child.wait()).await;
        }
    }
}
