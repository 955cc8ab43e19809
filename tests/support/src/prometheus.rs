//! A Prometheus process with the shipped rules.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use anyhow::Context;
use tokio::process::{Child, Command};

/// The rules as shipped.
pub const RULES: &str = include_str!("../../../dashboards/parallax.rules.yaml");

/// A running Prometheus; killed on drop, and by the kernel if this process dies.
#[derive(Debug)]
pub struct PrometheusProcess {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl PrometheusProcess {
    /// Starts a program in a directory with this configuration, which names [`rules_file`]. The directory also gets
    /// the data and the log.
    ///
    /// # Errors
    /// A file cannot be written, no port is free, or the program or `setpriv` is not installed.
    pub fn start(program: &OsStr, folder: &Path, config: &str) -> anyhow::Result<Self> {
        let config_file = folder.join("prometheus.yaml");
        for (file, text) in [(&rules_file(folder), RULES), (&config_file, config)] {
            fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        let address = free_address()?;
        let log = folder.join("prometheus.log");
        let out = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(program)
            .arg(format!("--config.file={}", config_file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                data_directory(folder).display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(out.try_clone().context("sharing the log file")?)
            .stderr(out)
            // Ctrl-C in the terminal must reach only the test.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("starting prometheus with setpriv; install it with: tests/install-tools alerts")?;
        Ok(Self { child, address, log })
    }

    /// Returns the address of its API and page.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its log file.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns its exit status if it has exited.
    ///
    /// # Errors
    /// The system cannot query the process.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Kills it. Its data is discarded, so it need not shut down cleanly.
    pub async fn stop(mut self) {
        let _ = self.child.kill().await;
    }
}

/// Returns the rules file of a Prometheus in this directory.
#[must_use]
pub fn rules_file(folder: &Path) -> PathBuf {
    folder.join("rules.yaml")
}

/// Returns the data directory of a Prometheus in this directory.
#[must_use]
pub fn data_directory(folder: &Path) -> PathBuf {
    folder.join("prometheus")
}

fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("binding a free port")?;
    listener.local_addr().context("binding a free port")
}
