//! The product under test, as a person would start it: the binary `parallax` beside this one.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
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

/// Longest time until the aggregator answers, and until it has stopped.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time between two questions whether it answers.
const PAUSE: Duration = Duration::from_millis(100);

/// A running aggregator; ended when dropped.
#[derive(Debug)]
pub struct RunningAggregator {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

/// The binary beside this crate's own. It must have been built from the same sources: `make` builds the workspace
/// first.
pub fn beside(program: &Path) -> anyhow::Result<PathBuf> {
    let beside = program.with_file_name("parallax");
    if beside.is_file() {
        return Ok(beside);
    }
    bail!(
        "there is no {}; build it with: cargo build --workspace",
        beside.display()
    )
}

/// Makes sure the address is free, and turns port 0 into one that is.
pub fn free_address(listen: SocketAddr) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(listen)
        .with_context(|| format!("cannot listen on {listen}; choose another address with --listen"))?;
    listener.local_addr().context("finding a free port")
}

impl RunningAggregator {
    /// Starts it and waits until its API answers.
    pub async fn start(
        parallax: &Path,
        config: &Path,
        address: SocketAddr,
        run: &RunDir,
        record: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let log = run.file("aggregator.log");
        let out = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(parallax)
            .args(["aggregator", "--config"])
            .arg(config)
            .args(
                record
                    .into_iter()
                    .flat_map(|folder| [Path::new("--record"), folder]),
            )
            .stdin(Stdio::null())
            .stdout(out.try_clone().context("sharing the log file")?)
            .stderr(out)
            // A Ctrl-C of the terminal goes to the lab, which then stops the aggregator in order.
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
                .context("asking after the aggregator")?
            {
                bail!("the aggregator ended with {status}:\n{}", tail(&aggregator.log));
            }
            match aggregator.state().await {
                Ok(_) => return Ok(aggregator),
                Err(error) if start.elapsed() > PATIENCE => {
                    return Err(error.context(format!(
                        "the aggregator did not start:\n{}",
                        tail(&aggregator.log)
                    )));
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// What it says.
    pub async fn state(&self) -> anyhow::Result<AggregatorState> {
        api_client::state(self.address).await
    }

    /// The end of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it, as when its node fails or its memory limit is reached.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing the aggregator")
    }

    /// Stops it in order.
    pub async fn stop(mut self) {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // One that has ended already needs no signal; one that does not end is killed by the drop.
            let _ = kill_process(pid, Signal::TERM);
            let _ = timeout(PATIENCE, self.child.wait()).await;
        }
    }
}
