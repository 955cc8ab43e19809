//! Alerts and dashboards with a real Prometheus and a real Alertmanager (Debian's), which scrape the real aggregator
//! while it receives a recorded incident. Everything is on loopback, on free ports, and ends with the test.
//!
//! Without the programs a test fails and names the command that installs them: `tests/install-tools alerts`.
//! `PARALLAX_ALERTING=skip` skips all tests and reports that.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checked;
mod dashboards;
mod mesh;
mod monitoring;
mod pushed;
mod recording;
mod restart;
mod routed;

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;
use tokio::time::{Instant, sleep};

/// Timeout of a wait; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_mins(3);
/// Time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until a condition holds.
async fn wait_until<T>(description: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            begin.elapsed() < TIMEOUT,
            "{description}: timed out after {TIMEOUT:?}"
        );
        sleep(POLL_INTERVAL).await;
    }
}

/// A free port.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Whether this test is skipped; a skipped test is reported as such.
fn is_skipped(test: &str) -> bool {
    parallax_skip::is_skipped(
        test,
        "PARALLAX_ALERTING",
        "cargo test --workspace --locked --test alerting",
    )
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A program of the tool group `alerts`.
fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed; install it with: tests/install-tools alerts"))
}

/// The JSON response of a server on loopback, if it responds.
async fn get(client: &reqwest::Client, url: &str) -> Option<Value> {
    let answer = client.get(url).send().await.ok()?;
    serde_json::from_str(&answer.text().await.ok()?).ok()
}

fn client() -> reqwest::Client {
    // A second call finds a provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}
