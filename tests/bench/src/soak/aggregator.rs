//! The aggregator under test: the real command, with a store, read as a page and a scraper read it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use parallax_simulated_cluster::config;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    process::Child,
    time::{self, Instant},
};
use url::Url;

use crate::process::{ProcessCost, aggregator_command, parallax_binary};

/// Time until the aggregator accepts reports.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// File of the history.
const STORE: &str = "history.db";

/// A running aggregator, killed with its owner.
#[derive(Debug)]
pub(super) struct Aggregator {
    pub(super) url: Url,
    child: Child,
    client: reqwest::Client,
    store: PathBuf,
}

impl Aggregator {
    /// Starts the command that was built beside this one, in a directory with a topology file.
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Self> {
        let parallax = parallax_binary()?;
        let listen = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
        let timing = config();
        let settings = json!({
            "listen": listen.to_string(), "topology": "topology.yaml", "store": {"path": STORE},
            "intervalMs": timing.interval.0 / 1_000, "timeoutMs": timing.timeout.0 / 1_000,
        });
        let child = aggregator_command(&parallax, folder, &settings)?
            .spawn()
            .context("start the aggregator")?;
        let aggregator = Self {
            url: Url::parse(&format!("http://{listen}/"))?,
            child,
            client: reqwest::Client::builder().no_proxy().build()?,
            store: folder.join(STORE),
        };
        let begun = Instant::now();
        while aggregator.text("readyz").await.is_err() {
            if begun.elapsed() > START_TIMEOUT {
                bail!("the aggregator is not ready after {} s", START_TIMEOUT.as_secs());
            }
            time::sleep(Duration::from_millis(200)).await;
        }
        Ok(aggregator)
    }

    async fn text(&self, path: &str) -> anyhow::Result<String> {
        let response = self.client.get(self.url.join(path)?).send().await;
        let response = response.and_then(reqwest::Response::error_for_status);
        let text = response.with_context(|| format!("get /{path}"))?.text();
        text.await.with_context(|| format!("read /{path}"))
    }

    /// Returns the metrics.
    pub(super) async fn metrics(&self) -> anyhow::Result<String> {
        self.text("metrics").await
    }

    /// Returns the sentences of the incidents that are not closed.
    pub(super) async fn open_incidents(&self) -> anyhow::Result<Vec<String>> {
        let view: Value = serde_json::from_str(&self.text("v1/state").await?).context("parse the state")?;
        let incidents = view["incidents"]
            .as_array()
            .context("a state without incidents")?;
        let is_open = |incident: &&Value| incident["state"] != "closed";
        let sentence = |incident: &Value| incident["verdict"]["sentence"].to_string();
        Ok(incidents.iter().filter(is_open).map(sentence).collect())
    }

    /// Returns the number of observations that count towards a diagnosis.
    pub(super) async fn counted(&self) -> anyhow::Result<u64> {
        let text = self.metrics().await?;
        let series = r#"parallax_ingest_observations_total{result="counted"} "#;
        let value = text.lines().find_map(|line| line.strip_prefix(series));
        let value = value.context("no count of observations in the metrics")?;
        value
            .parse()
            .with_context(|| format!("parse the count {value:?}"))
    }

    /// Returns its cost so far.
    pub(super) fn cost(&self) -> anyhow::Result<ProcessCost> {
        ProcessCost::of(self.child.id().context("the aggregator exited")?)
    }

    /// Returns the size of the store and its write-ahead log.
    pub(super) fn store_megabytes(&self) -> f64 {
        let bytes: u64 = [self.store.clone(), self.store.with_extension("db-wal")]
            .iter()
            .filter_map(|file| Some(std::fs::metadata(file).ok()?.len()))
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
        let bytes = bytes as f64;
        bytes / 1e6
    }
}
