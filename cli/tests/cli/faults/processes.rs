//! One aggregator and its probers as processes, each under an optional wrapper, without Kubernetes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use flate2::read::MultiGzDecoder;
use reqwest::Client;
use serde_json::Value;

use crate::{commands::parallax, identity::mesh::until};

pub(super) const NODES: [&str; 3] = ["n1", "n2", "n3"];
pub(super) const INTERVAL_MS: u64 = 1_000;

/// A process that is killed at the end.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal by name.
    pub(super) fn signal(&self, name: &str) {
        let kill = Command::new("kill")
            .args([&format!("-{name}"), &self.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits until the process has ended; returns its exit code, or `None` after a signal.
    pub(super) fn wait(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a process is started.
#[derive(Debug, Clone, Default)]
pub(super) struct Launch {
    /// A program and its arguments in front of the command, such as `unshare --mount`.
    pub(super) wrapper: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// Another binary than that of this workspace.
    pub(super) binary: Option<PathBuf>,
    /// Arguments behind those of the configuration.
    pub(super) arguments: Vec<String>,
}

impl Launch {
    fn command(&self, arguments: &[&str]) -> Command {
        let plain = self.binary.as_ref().map_or_else(parallax, Command::new);
        let mut command = match self.wrapper.split_first() {
            None => plain,
            Some((program, first)) => {
                let mut wrapped = Command::new(program);
                wrapped.args(first).arg(plain.get_program());
                wrapped
            }
        };
        command
            .args(arguments)
            .args(&self.arguments)
            .envs(self.environment.iter().cloned());
        command
    }

    /// A launch that records into a directory.
    pub(super) fn recording(folder: &Path) -> Self {
        Self {
            arguments: vec!["--record".to_owned(), folder.to_str().unwrap().to_owned()],
            ..Self::default()
        }
    }
}

/// An aggregator and one prober per node.
pub(super) struct Processes {
    pub(super) folder: tempfile::TempDir,
    pub(super) client: Client,
    pub(super) address: SocketAddr,
    pub(super) aggregator: Process,
    pub(super) probers: Vec<Process>,
}

impl Processes {
    /// Starts an aggregator with further lines of configuration, and its probers.
    pub(super) async fn start(targets: &[String], more: &str, launch: &Launch) -> Self {
        let mut processes = Self::start_aggregator(targets, more, launch).await;
        processes.start_probers(&Launch::default());
        processes
    }

    /// Starts one prober per node.
    pub(super) fn start_probers(&mut self, launch: &Launch) {
        self.start_probers_at(self.address, launch);
    }

    /// Starts one prober per node that reaches the aggregator at another address.
    pub(super) fn start_probers_at(&mut self, aggregator: SocketAddr, launch: &Launch) {
        for node in NODES {
            self.probers
                .push(prober(self.folder.path(), aggregator, node, launch));
        }
    }

    /// Starts an aggregator without probers.
    pub(super) async fn start_aggregator(targets: &[String], more: &str, launch: &Launch) -> Self {
        // A process-wide provider, which another test may have installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        // The aggregator keeps its address across restarts. Another process may take the port in between, though not one of
        // these tests: the kernel does not hand out a port again so soon.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nodes = NODES
            .map(|node| format!("{{name: {node}, prober: {{pod: prober-{node}, address: '127.0.0.1:9'}}}}"));
        let targets: Vec<String> = targets.iter().map(|url| format!("{{url: '{url}'}}")).collect();
        let topology = format!(
            "nodes: [{}]\ntargets: [{}]\n",
            nodes.join(", "),
            targets.join(", ")
        );
        fs::write(folder.path().join("topology.yaml"), topology).unwrap();
        let config = format!(
            "listen: '{address}'\nintervalMs: {INTERVAL_MS}\ntimeoutMs: 900\ntopology: topology.yaml\n{more}"
        );
        fs::write(folder.path().join("parallax.yaml"), config).unwrap();
        let mut processes = Self {
            aggregator: aggregator(folder.path(), launch),
            client: Client::builder().no_proxy().build().unwrap(),
            folder,
            address,
            probers: Vec::new(),
        };
        processes.wait_until_ready().await;
        processes
    }

    /// Adds a vantage to the topology. A report from an unknown one is refused.
    pub(super) fn add_vantage(&self, vantage: &str) {
        let path = self.folder.path().join("topology.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(
            path.with_extension("new"),
            format!("vantages: ['{vantage}']\n{text}"),
        )
        .unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    /// Starts the aggregator again after it has ended.
    pub(super) async fn restart(&mut self, launch: &Launch) {
        self.aggregator = aggregator(self.folder.path(), launch);
        self.wait_until_ready().await;
    }

    async fn wait_until_ready(&mut self) {
        let log = self.log("aggregator");
        until("the aggregator is ready", async || {
            let ended = self.aggregator.0.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(&log).unwrap());
            let response = self
                .client
                .get(format!("http://{}/readyz", self.address))
                .send()
                .await;
            response.is_ok_and(|response| response.status().is_success())
        })
        .await;
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// Returns the text of a page, or nothing while the aggregator is away.
    pub(super) async fn text(&self, path: &str) -> Option<String> {
        let request = self.client.get(format!("http://{}{path}", self.address));
        request.send().await.ok()?.text().await.ok()
    }

    /// Returns the state, or nothing while the aggregator is away.
    pub(super) async fn state(&self) -> Option<Value> {
        serde_json::from_str(&self.text("/v1/state").await?).ok()
    }

    /// Sums the series of whole numbers with this prefix.
    pub(super) async fn metric(&self, prefix: &str) -> u64 {
        sum_of_series(&self.text("/metrics").await.unwrap_or_default(), prefix)
    }

    /// Sums the series of whole numbers with this prefix of the prober on a node.
    pub(super) async fn prober_metric(&self, node: &str, prefix: &str) -> u64 {
        let log = fs::read_to_string(self.log(node)).unwrap();
        let address = log
            .lines()
            .find_map(|line| line.split_once("echo="))
            .expect("the log says where the prober answers")
            .1;
        let request = self.client.get(format!("http://{address}/metrics"));
        let text = request.send().await.unwrap().text().await.unwrap();
        sum_of_series(&text, prefix)
    }

    /// Waits until something is named.
    pub(super) async fn wait_until_named(&self) {
        until("the fault is named", async || {
            self.state()
                .await
                .is_some_and(|view| !incidents(&view).is_empty())
        })
        .await;
    }

    /// Returns the number of the last judged round, or zero before the first and while the aggregator is away.
    async fn judged(&self) -> u64 {
        let view = self.state().await;
        view.and_then(|view| view["judged"].as_u64()).unwrap_or(0)
    }

    /// Waits until further rounds are judged; `check` sees each state on the way, or `None` while the aggregator is away.
    pub(super) async fn wait_for_rounds(&self, rounds: u64, check: impl Fn(Option<&Value>)) {
        let before = self.judged().await;
        until("further rounds are judged", async || {
            check(self.state().await.as_ref());
            self.judged().await >= before + rounds
        })
        .await;
    }

    /// Waits until every vantage sees a target in this state.
    pub(super) async fn wait_until_all(&self, target: &str, state: &str) {
        until(&format!("{target} is {state}"), async || {
            self.state()
                .await
                .is_some_and(|view| cells(&view, target) == [state; NODES.len()])
        })
        .await;
    }
}

fn sum_of_series(text: &str, prefix: &str) -> u64 {
    let values = text.lines().filter(|line| line.starts_with(prefix));
    values
        .filter_map(|line| {
            line.rsplit_once(' ')?
                .1
                .trim_end_matches(".0")
                .parse::<u64>()
                .ok()
        })
        .sum()
}

/// Returns the states of a target's cells.
pub(super) fn cells<'a>(view: &'a Value, target: &str) -> Vec<&'a str> {
    let rows = view["matrix"].as_array().unwrap();
    let row = rows.iter().find(|row| row["target"] == target);
    let cells = row.and_then(|row| row["cells"].as_array());
    let state = |cell: &'a Value| cell["state"].as_str().unwrap();
    cells.into_iter().flatten().map(state).collect()
}

/// Returns all incidents, open or closed, as id and sentence.
pub(super) fn incidents(view: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = view["incidents"].as_array().unwrap();
    all.iter()
        .map(|incident| (text(&incident["id"]), text(&incident["sentence"])))
        .collect()
}

/// Returns the sequence numbers of the observations in a directory of recordings, by incarnation of the prober.
pub(super) fn recorded_sequences(folder: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let file = File::open(entry.unwrap().path()).unwrap();
        for line in io::read_to_string(MultiGzDecoder::new(file)).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if let (Some(incarnation), Some(sequence)) = (line["incarnation"].as_str(), line["seq"].as_u64())
            {
                found.entry(incarnation.to_owned()).or_default().push(sequence);
            }
        }
    }
    found
}

/// Asserts that nothing is named.
pub(super) fn assert_no_incident(view: &Value) {
    assert!(incidents(view).is_empty(), "{:?}", incidents(view));
}

fn aggregator(folder: &Path, launch: &Launch) -> Process {
    let config = folder.join("parallax.yaml");
    let arguments = ["aggregator", "--config", config.to_str().unwrap()];
    start(launch.command(&arguments), &folder.join("aggregator.log"))
}

fn prober(folder: &Path, address: SocketAddr, node: &str, launch: &Launch) -> Process {
    let (url, vantage, pod) = (
        format!("http://{address}"),
        format!("{node}/pod"),
        format!("prober-{node}"),
    );
    let arguments = [
        "prober",
        "--aggregator",
        &url,
        "--vantage",
        &vantage,
        "--pod",
        &pod,
        "--echo-listen",
        "127.0.0.1:0",
    ];
    start(launch.command(&arguments), &folder.join(format!("{node}.log")))
}

fn start(mut command: Command, log: &Path) -> Process {
    let output = File::options().create(true).append(true).open(log).unwrap();
    let child = command
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(output)
        .spawn();
    Process(child.unwrap())
}
