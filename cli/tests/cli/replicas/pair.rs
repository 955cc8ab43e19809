//! The two aggregators and their probers.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use parallax_prober::{
    Agent, AgentConfig, AgentError, AggregatorRoots, FactSources, ProberCredential, Role, SPOOL_CAPACITY,
};
use reqwest::{Client, RequestBuilder};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::INTERVAL_MS;
use crate::{
    commands::parallax,
    identity::mesh::{Mesh, PROBER_ACCOUNT, assert_prober_pods_selected, put_config_map, until},
};

pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];

struct Replica {
    child: Child,
    page: String,
    tls: String,
}

impl Drop for Replica {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Prober {
    cancelled: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

pub(crate) struct Pair {
    pub(crate) mesh: Mesh,
    client: Client,
    replicas: BTreeMap<String, Replica>,
    probers: Vec<Prober>,
    /// Additional configuration lines of both.
    more: String,
}

impl Pair {
    /// Starts two aggregators and three probers that report to both.
    pub(crate) async fn start(targets: &[&str]) -> Self {
        Self::start_with(targets, "").await
    }

    /// The same with additional configuration lines.
    pub(crate) async fn start_with(targets: &[&str], more: &str) -> Self {
        let mesh = Mesh::new().await;
        for node in NODES {
            mesh.api
                .put_prober_pod(PROBER_ACCOUNT, &format!("uid-{node}"), node);
        }
        put_config_map(&mesh.api, "parallax-incident-actions");
        put_config_map(&mesh.api, "parallax-notifications");
        fs::write(mesh.file("kubeconfig"), mesh.api.kubeconfig()).unwrap();
        let mut pair = Self {
            mesh,
            client: Client::builder().no_proxy().build().unwrap(),
            replicas: BTreeMap::new(),
            probers: Vec::new(),
            more: more.to_owned(),
        };
        pair.targets(targets);
        for name in ["agg-a", "agg-b"] {
            let replica = pair.replica(name, 0).await;
            pair.replicas.insert(name.to_owned(), replica);
        }
        pair.mount_published_cas(2).await;
        for node in NODES {
            let prober = pair.prober(node).await;
            pair.probers.push(prober);
        }
        pair
    }

    /// Waits until this many CAs are published, and mounts them for the probers as the kubelet does.
    async fn mount_published_cas(&self, authorities: usize) {
        until("all have published their CA", async || {
            let map = self.mesh.ca_config_map().unwrap();
            let bundle = map["data"]["ca.crt"].as_str().unwrap_or("");
            bundle.matches("BEGIN CERTIFICATE").count() == authorities
        })
        .await;
        self.mesh.mount_ca();
    }

    /// Restarts a killed aggregator under the same name and without state.
    pub(crate) async fn start_again(&mut self, name: &str) {
        let port = self.replicas[name]
            .tls
            .rsplit_once(':')
            .unwrap()
            .1
            .parse()
            .unwrap();
        fs::remove_file(self.mesh.file(&format!("{name}.db"))).unwrap();
        let replica = self.replica(name, port).await;
        self.replicas.insert(name.to_owned(), replica);
        self.mount_published_cas(3).await;
    }

    /// Sets the targets of both.
    pub(crate) fn targets(&self, targets: &[&str]) {
        let nodes: Vec<String> = NODES
            .iter()
            .enumerate()
            .map(|(i, node)| {
                format!(
                    "{{name: {node}, prober: {{pod: prober-uid-{node}, address: '127.0.0.{}:9'}}}}",
                    i + 1
                )
            })
            .collect();
        let targets: Vec<String> = targets.iter().map(|url| format!("{{url: '{url}'}}")).collect();
        let text = format!(
            "nodes: [{}]\ntargets: [{}]\n",
            nodes.join(", "),
            targets.join(", ")
        );
        let path = self.mesh.file("topology.yaml");
        fs::write(path.with_extension("new"), text).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    async fn replica(&self, name: &str, port: u16) -> Replica {
        let config = format!(
            "listen: 127.0.0.1:0\nintervalMs: {INTERVAL_MS}\ntimeoutMs: 500\ntopology: topology.yaml\n\
             tls: {{listen: '127.0.0.1:{port}', hosts: [127.0.0.1], publish: [parallax/parallax-ca]}}\n\
             identity: {{audience: parallax, probers: [{PROBER_ACCOUNT}]}}\n\
             access: {{tokenFile: people}}\nruns: {{allow: [127.0.0.0/8]}}\nstore: {{path: {name}.db}}\n\
             incidentActions: {{configMap: parallax/parallax-incident-actions}}\n\
             replicas: {{lease: parallax/parallax-aggregator, leaseSeconds: 2}}\n{}",
            self.more
        );
        let path = self.mesh.file(&format!("{name}.yaml"));
        fs::write(&path, config).unwrap();
        fs::write(self.mesh.file("people"), PEOPLE).unwrap();
        let log = self.mesh.file(&format!("{name}.log"));
        let child = parallax()
            .args(["aggregator", "--config"])
            .arg(&path)
            .env("KUBECONFIG", self.mesh.file("kubeconfig"))
            .env("PARALLAX_POD", name)
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut replica = Replica {
            child,
            page: String::new(),
            tls: String::new(),
        };
        until("it says where it serves", async || {
            assert!(replica.child.try_wait().unwrap().is_none(), "{}", said(&log));
            let text = said(&log);
            let address = |word: &str| {
                let rest = text.split_once(word)?.1;
                Some(rest.split_once("/\n")?.0.to_owned())
            };
            if let (Some(page), Some(tls)) = (address("page=http://"), address("probers=https://")) {
                (replica.page, replica.tls) = (format!("http://{page}"), format!("https://{tls}"));
            }
            !replica.page.is_empty()
        })
        .await;
        replica
    }

    async fn prober(&self, node: &str) -> Prober {
        let token = self
            .mesh
            .api
            .issue_pod_token(PROBER_ACCOUNT, &format!("uid-{node}"), node, node);
        let path = self.mesh.file(&format!("token-{node}"));
        fs::write(&path, token).unwrap();
        let urls: Vec<url::Url> = self
            .replicas
            .values()
            .map(|one| one.tls.parse().unwrap())
            .collect();
        let config = AgentConfig {
            vantage: format!("{node}/pod").parse().unwrap(),
            pod: format!("prober-uid-{node}").parse().unwrap(),
            aggregator: urls[0].clone(),
            credential: Some(ProberCredential::File(path)),
            aggregator_roots: AggregatorRoots::Files(vec![self.mesh.file("ca.crt")]),
            role: Role::Prober,
            echo_listen: "127.0.0.1:0".parse().unwrap(),
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            extra_roots: Vec::new(),
            credentials: Vec::new(),
            facts: FactSources::default(),
            spool_capacity: SPOOL_CAPACITY,
        };
        let agent = Agent::bind(config)
            .await
            .unwrap()
            .with_replicas(urls[1..].to_vec())
            .unwrap();
        let cancelled = CancellationToken::new();
        Prober {
            task: tokio::spawn(agent.run(cancelled.clone())),
            cancelled,
        }
    }

    /// Returns leader and standby, once both agree.
    pub(crate) async fn leader_and_standby(&self) -> (String, String) {
        let mut found = None;
        until("one leads and the other knows it", async || {
            let mut parts = BTreeMap::new();
            for name in self.replicas.keys() {
                let replica = self.own_state(name).await["replica"].clone();
                let known = replica["leader"].as_str().map(ToOwned::to_owned);
                parts.insert(
                    replica["role"].as_str().unwrap().to_owned(),
                    (name.clone(), known),
                );
            }
            if let (Some((leader, _)), Some((standby, Some(known)))) =
                (parts.get("leads"), parts.get("stands_by"))
                && leader == known
            {
                found = Some((leader.clone(), standby.clone()));
            }
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    fn url(&self, name: &str, path: &str) -> String {
        format!("{}{path}", self.replicas[name].page)
    }

    /// Returns an aggregator's own state.
    pub(crate) async fn own_state(&self, name: &str) -> Value {
        let request = self.client.get(self.url(name, "/v1/state"));
        answer(request.header("parallax-forwarded-by", "test")).await.2
    }

    /// Returns status, responding aggregator and body; a body that is not JSON as text.
    pub(crate) async fn get(&self, name: &str, path: &str) -> (u16, String, Value) {
        answer(self.client.get(self.url(name, path))).await
    }

    pub(crate) async fn post(&self, name: &str, path: &str, body: &Value) -> (u16, String, Value) {
        answer(self.client.post(self.url(name, path)).json(body)).await
    }

    /// Sums an aggregator's series with this prefix.
    pub(crate) async fn metric(&self, name: &str, series: &str) -> u64 {
        let text = self.get(name, "/metrics").await.2;
        let lines = text
            .as_str()
            .unwrap()
            .lines()
            .filter(|line| line.starts_with(series));
        lines
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
            .sum()
    }

    /// Builds a `parallax` command that queries one of them.
    pub(crate) fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = parallax();
        command
            .args(arguments)
            .args(["--server", &self.replicas[name].page])
            .env("PARALLAX_TOKEN", PEOPLE);
        command
    }

    /// Kills one with SIGKILL.
    pub(crate) fn kill(&mut self, name: &str) {
        let child = &mut self.replicas.get_mut(name).unwrap().child;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal to one, by name.
    pub(crate) fn signal(&self, name: &str, signal: &str) {
        let id = self.replicas[name].child.id().to_string();
        let kill = Command::new("kill").args([&format!("-{signal}"), &id]).status();
        assert!(kill.unwrap().success());
    }

    /// Terminates one as the kubelet does.
    pub(crate) fn terminate(&mut self, name: &str) {
        let child = &mut self.replicas.get_mut(name).unwrap().child;
        let signalled = Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()
            .unwrap();
        assert!(signalled.success());
        assert!(child.wait().unwrap().success());
    }

    /// Returns the longest time in milliseconds between two failures of a target that one vantage reported to one
    /// aggregator. Only pairs whose second failure is later than `since` are considered.
    pub(crate) async fn longest_gap(&self, name: &str, target: &str, since: u64) -> u64 {
        let path = format!("/v1/history/failures?limit=500&target={target}");
        let (status, _, answer) = self.get(name, &path).await;
        assert_eq!(status, 200, "{answer}");
        let failures = &answer["failures"];
        let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for failure in failures.as_array().unwrap() {
            let vantage = failure["vantage"].as_str().unwrap().to_owned();
            times
                .entry(vantage)
                .or_default()
                .push(failure["t_us"].as_u64().unwrap());
        }
        assert_eq!(times.len(), NODES.len(), "{failures}");
        let gaps = times.values_mut().flat_map(|times| {
            times.sort_unstable();
            assert!(times.last().unwrap() > &since, "{failures}");
            times
                .windows(2)
                .map(|pair| (pair[1] - pair[0]) / 1_000)
                .collect::<Vec<_>>()
        });
        gaps.max().unwrap()
    }

    pub(crate) async fn stop(self) {
        assert_prober_pods_selected(&self.mesh.api);
        for prober in self.probers {
            prober.cancelled.cancel();
            prober.task.await.unwrap().unwrap();
        }
    }
}

/// The users' shared token in this test.
const PEOPLE: &str = "a-token-of-24-characters";

async fn answer(request: RequestBuilder) -> (u16, String, Value) {
    let response = request.bearer_auth(PEOPLE).send().await.unwrap();
    let by = response
        .headers()
        .get("parallax-replica")
        .map(|name| name.to_str().unwrap().to_owned())
        .unwrap_or_default();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (
        status,
        by,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

fn said(log: &std::path::Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}
