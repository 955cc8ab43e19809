//! Parallax itself: an aggregator that receives the recording, and another one with a prober, for the probers' own
//! metrics.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use parallax_control_plane::RunningProgram;
use serde_json::Value;

use crate::{
    free_address, get,
    recording::{Recording, State},
    wait_until,
};

/// The binary of this build.
fn binary() -> PathBuf {
    // target/debug/deps/alerting-HASH
    let test = std::env::current_exe().unwrap();
    let parallax = test.parent().and_then(Path::parent).unwrap().join("parallax");
    assert!(
        parallax.is_file(),
        "{} does not exist; build it with: cargo build --workspace",
        parallax.display()
    );
    parallax
}

/// The aggregator that receives the recording.
pub(crate) struct RecordedAggregator {
    process: RunningProgram,
    arguments: Vec<String>,
    folder: PathBuf,
    pub(crate) address: SocketAddr,
    topology: PathBuf,
}

impl RecordedAggregator {
    pub(crate) async fn start(folder: &Path, recording: &Recording, client: &reqwest::Client) -> Self {
        Self::with_config(folder, recording, client, "").await
    }

    /// With additional lines in its configuration.
    pub(crate) async fn with_config(
        folder: &Path,
        recording: &Recording,
        client: &reqwest::Client,
        more: &str,
    ) -> Self {
        let address = free_address();
        let topology = folder.join("topology.yaml");
        fs::write(&topology, recording.topology(State::Healthy)).unwrap();
        let config = folder.join("parallax.yaml");
        let text = format!(
            "listen: {address}\nintervalMs: 1000\ntimeoutMs: 600\ntopology: topology.yaml\n\
             store: {{path: {}}}\n{more}",
            folder.join("history.db").display()
        );
        fs::write(&config, text).unwrap();
        let record = folder.join("record");
        let arguments: Vec<String> = ["aggregator", "--config", config.to_str().unwrap(), "--record"]
            .into_iter()
            .chain([record.to_str().unwrap()])
            .map(str::to_owned)
            .collect();
        let process = RunningProgram::start(
            folder,
            "told",
            &binary(),
            arguments.iter().map(String::as_str),
            &[],
        )
        .unwrap();
        let aggregator = Self {
            process,
            arguments,
            folder: folder.to_owned(),
            address,
            topology,
        };
        aggregator.wait_until_ready(client).await;
        aggregator
    }

    async fn wait_until_ready(&self, client: &reqwest::Client) {
        wait_until("the aggregator responds", async || {
            get(client, &format!("{}/v1/state", self.url())).await.map(drop)
        })
        .await;
    }

    /// Kills it without a shutdown.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again under its address, without `--record`.
    pub(crate) async fn restart(&mut self, client: &reqwest::Client) {
        let arguments = self.arguments.iter().take(3).map(String::as_str);
        self.process = RunningProgram::start(&self.folder, "told-again", &binary(), arguments, &[]).unwrap();
        self.wait_until_ready(client).await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces its topology.
    pub(crate) fn replace_topology(&self, topology: &str) {
        let new = self.topology.with_extension("new");
        fs::write(&new, topology).unwrap();
        fs::rename(&new, &self.topology).unwrap();
    }

    /// The id of the open incident, if there is one.
    pub(crate) async fn incident(&self, client: &reqwest::Client) -> Option<String> {
        let state: Value = get(client, &format!("{}/v1/state", self.url())).await?;
        let open = |incident: &&Value| incident["state"] != "closed";
        let incident = state["incidents"].as_array()?.iter().find(open)?;
        Some(incident["id"].as_str()?.to_owned())
    }
}

/// A prober and its aggregator, until the latter is stopped.
pub(crate) struct ProbedAggregator {
    aggregator: RunningProgram,
    _prober: RunningProgram,
    /// Address of the prober's metrics.
    pub(crate) prober: SocketAddr,
}

impl ProbedAggregator {
    pub(crate) async fn start(folder: &Path, client: &reqwest::Client) -> Self {
        let (listen, prober) = (free_address(), free_address());
        let config = folder.join("probing.yaml");
        let text = format!(
            "listen: {listen}\nintervalMs: 500\ntimeoutMs: 300\nvantages: [\"vpc:here\"]\n\
             targets: [{{url: \"http://{listen}/healthz\"}}, {{url: \"tcp://{listen}\"}}]\n"
        );
        fs::write(&config, text).unwrap();
        let arguments = ["aggregator", "--config", config.to_str().unwrap()];
        let aggregator = RunningProgram::start(folder, "probing", &binary(), arguments, &[]).unwrap();
        let url = format!("http://{listen}");
        wait_until("the aggregator of the prober responds", async || {
            get(client, &format!("{url}/v1/state")).await.map(drop)
        })
        .await;
        let echo = prober.to_string();
        let arguments = [
            "prober",
            "--aggregator",
            &url,
            "--vantage",
            "vpc:here",
            "--pod",
            "here",
            "--echo-listen",
            &echo,
        ];
        let process = RunningProgram::start(folder, "prober", &binary(), arguments, &[]).unwrap();
        Self {
            aggregator,
            _prober: process,
            prober,
        }
    }

    /// From now on the prober is alone.
    pub(crate) fn stop_aggregator(&mut self) {
        self.aggregator.kill();
    }
}
