//! Screenshots of the page, with a headless browser.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use super::aggregators;
use crate::cluster::Cluster;

/// Timeout of one screenshot.
const SCREENSHOT_TIMEOUT: Duration = Duration::from_secs(40);

/// Chromium, if there is one.
#[derive(Debug, Clone)]
pub struct Browser {
    program: PathBuf,
    folder: PathBuf,
    proxy: SocketAddr,
}

impl Browser {
    /// Finds the browser in the path.
    #[must_use]
    pub fn find(folder: &Path, proxy: SocketAddr) -> Option<Self> {
        let paths = std::env::var_os("PATH")?;
        let program = std::env::split_paths(&paths)
            .flat_map(|folder| {
                ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name))
            })
            .find(|path| path.is_file())?;
        Some(Self {
            program,
            folder: folder.to_owned(),
            proxy,
        })
    }

    /// Takes a screenshot (PNG) of the page of the first aggregator that responds, if any.
    pub async fn screenshot(&self, cluster: &Cluster, name: &str) -> Option<Vec<u8>> {
        let mut ready = aggregators(cluster)
            .into_iter()
            .filter(|pod| pod.ready && !pod.terminating);
        let address = ready.find_map(|pod| pod.address)?;
        let path = self.folder.join(format!("{}.png", name.replace('/', "-")));
        let taken = Command::new(&self.program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .arg("--window-size=1200,1400")
            .arg(format!(
                "--user-data-dir={}",
                self.folder.join("browser").display()
            ))
            .arg(format!("--proxy-server=http://{}", self.proxy))
            .arg(format!("--screenshot={}", path.display()))
            .arg(format!("http://{}:8080/", bracketed(address)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .status();
        let taken = timeout(SCREENSHOT_TIMEOUT, taken).await.ok()?.ok()?;
        if taken.success() {
            tokio::fs::read(&path).await.ok()
        } else {
            None
        }
    }
}

fn bracketed(address: std::net::IpAddr) -> String {
    if address.is_ipv6() {
        format!("[{address}]")
    } else {
        address.to_string()
    }
}
