//! An aggregator that serves TLS and identifies probers by their Pods, with real probers.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use parallax_aggregator::{Aggregator, Config, RunError};
use parallax_api_server::ApiServer;
use parallax_diagnosis::view::View;
use parallax_kubernetes::prober_pods::{PodLookup, ProberPod, ProberPods};
use parallax_model::{Network, Vantage};
use parallax_prober::{
    Agent, AgentConfig, AgentError, AggregatorRoots, ProberCredential, Role, SPOOL_CAPACITY,
};
use parallax_runtime::SnapshotReader;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Namespace of the installation.
pub(crate) const NAMESPACE: &str = "parallax";
/// `ServiceAccount` of the probers.
pub(crate) const PROBER_ACCOUNT: &str = "parallax/parallax-prober";

/// Pods that the watch would know.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<BTreeMap<String, ProberPod>>);

impl Watched {
    pub(crate) fn add(&self, uid: &str, node: &str, network: Network) {
        let pod = ProberPod {
            name: format!("prober-{uid}").parse().unwrap(),
            node: node.parse().unwrap(),
            network,
        };
        self.0.lock().unwrap().insert(uid.to_owned(), pod);
    }

    pub(crate) fn remove(&self, uid: &str) {
        self.0.lock().unwrap().remove(uid);
    }
}

impl ProberPods for Watched {
    fn find(&self, uid: &str) -> PodLookup {
        let known = self.0.lock().unwrap().get(uid).cloned();
        known.map_or(PodLookup::Unknown, PodLookup::Known)
    }
}

pub(crate) struct Mesh {
    pub(crate) api: ApiServer,
    pub(crate) pods: Arc<Watched>,
    /// Whether the aggregator watches Pods itself.
    pub(crate) own_watch: bool,
    folder: tempfile::TempDir,
}

/// A running aggregator.
pub(crate) struct Running {
    pub(crate) plain: String,
    pub(crate) tls: String,
    pub(crate) views: SnapshotReader<View>,
    cancelled: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Mesh {
    pub(crate) async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let api = ApiServer::start(&[]).await;
        put_config_map(&api, "parallax-ca");
        let pods = Arc::new(Watched::default());
        pods.add("uid-1", "n1", Network::Pod);
        Self {
            api,
            pods,
            own_watch: false,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn client(&self) -> kube::Client {
        let config = kube::Config::new(self.api.url().parse().unwrap());
        kube::Client::try_from(config).unwrap()
    }

    /// Starts an aggregator. Returns after its CA is published and mounted for the probers.
    pub(crate) async fn aggregator(&self, port: u16) -> Running {
        let (running, certificate) = self.start(port).await;
        self.published(&certificate).await;
        running
    }

    /// Waits until the CA of an aggregator is the first one published.
    pub(crate) async fn published(&self, certificate: &str) {
        until("the CA is published", async || {
            let map = self.ca_config_map().unwrap();
            map["data"]["ca.crt"]
                .as_str()
                .is_some_and(|pem| pem.starts_with(certificate))
        })
        .await;
    }

    /// Starts an aggregator and returns its CA too.
    pub(crate) async fn start(&self, port: u16) -> (Running, String) {
        let target = "targets: [{url: 'tcp://127.0.0.1:1'}]";
        let nodes = "topology: {nodes: [{name: n1, prober: {pod: prober-uid-1, address: '127.0.0.1:9'}}, \
                     {name: n2, prober: {pod: p2, address: '127.0.0.2:9'}}]}";
        let config = format!(
            "listen: 127.0.0.1:0\nintervalMs: 1000\ntimeoutMs: 500\n{nodes}\n{target}\n\
             tls: {{listen: '127.0.0.1:{port}', hosts: [127.0.0.1, localhost], publish: [parallax/parallax-ca]}}\n\
             identity: {{audience: parallax, probers: [parallax/parallax-prober], \
             responders: [parallax/parallax-responder], vantages: parallax}}\n"
        );
        let path = self.file("parallax.yaml");
        fs::write(&path, config).unwrap();
        let mut config = Config::load(&path).unwrap().with_client(self.client());
        if !self.own_watch {
            config = config.with_pods(self.pods.clone());
        }
        let aggregator = Aggregator::bind(config).await.unwrap();
        let certificate = aggregator.ca_certificate().unwrap().trim().to_owned();
        let (plain, tls) = (aggregator.local_addr(), aggregator.tls_addr().unwrap());
        let cancelled = CancellationToken::new();
        let running = Running {
            plain: format!("http://{plain}"),
            tls: format!("https://{tls}"),
            views: aggregator.views(),
            task: tokio::spawn(aggregator.run(cancelled.clone())),
            cancelled,
        };
        (running, certificate)
    }

    /// Returns the ConfigMap of the CA.
    pub(crate) fn ca_config_map(&self) -> Option<Value> {
        self.api.get("configmaps", NAMESPACE, "parallax-ca")
    }

    /// Copies the ConfigMap into the volume, as the kubelet does some time later.
    pub(crate) fn mount_ca(&self) {
        let map = self.ca_config_map().unwrap();
        replace(&self.file("ca.crt"), map["data"]["ca.crt"].as_str().unwrap());
    }

    /// Writes a token into the volume, as the kubelet does.
    pub(crate) fn write_token(&self, token: &str) {
        replace(&self.file("token"), token);
    }

    /// Starts a prober as a Pod would.
    pub(crate) async fn prober(&self, aggregator: &Running, vantage: &str, role: Role) -> Prober {
        let config = AgentConfig {
            vantage: vantage.parse().unwrap(),
            pod: "prober-uid-1".parse().unwrap(),
            aggregator: aggregator.tls.parse().unwrap(),
            credential: Some(ProberCredential::File(self.file("token"))),
            aggregator_roots: AggregatorRoots::Files(vec![self.file("ca.crt")]),
            role,
            echo_listen: "127.0.0.1:0".parse().unwrap(),
            resolv_conf: "/etc/resolv.conf".into(),
            extra_roots: Vec::new(),
            credentials: Vec::new(),
            facts: parallax_prober::FactSources::default(),
            spool_capacity: SPOOL_CAPACITY,
        };
        let agent = Agent::bind(config).await.unwrap();
        let cancelled = CancellationToken::new();
        Prober {
            echo: format!("http://{}", agent.echo_addr()),
            task: tokio::spawn(agent.run(cancelled.clone())),
            cancelled,
        }
    }
}

/// Creates an empty ConfigMap.
pub(crate) fn put_config_map(api: &ApiServer, name: &str) {
    let metadata = json!({"namespace": NAMESPACE, "name": name});
    api.put(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
    );
}

/// Asserts that the prober Pods were listed and watched with the label of Parallax.
pub(crate) fn assert_prober_pods_selected(api: &ApiServer) {
    let selectors = api.label_selectors("pods");
    let of_parallax = |selector: &String| selector.contains("app.kubernetes.io/name=parallax");
    assert!(selectors.iter().all(of_parallax), "{selectors:?}");
    assert!(!selectors.is_empty(), "the Pods were never listed");
}

/// Replaces a file atomically, as the kubelet does: readers see the old or the new content.
fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}

pub(crate) struct Prober {
    pub(crate) echo: String,
    cancelled: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Prober {
    pub(crate) async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.unwrap().unwrap();
    }
}

impl Running {
    pub(crate) async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Returns the TLS port, so that a successor can reuse it.
    pub(crate) fn port(&self) -> u16 {
        self.tls.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Waits until a vantage has reported something newer than now.
    pub(crate) async fn wait_for_report(&mut self, vantage: &str) {
        let vantage: Vantage = vantage.parse().unwrap();
        let last = |view: &View| {
            let seen = view.vantages.iter().find(|seen| seen.vantage == vantage);
            seen.and_then(|seen| seen.last_seen)
        };
        let before = last(&self.views.latest());
        self.views.wait_for(|view| last(view) > before).await;
    }
}

/// Polls a condition. Ends with the test's own time limit.
pub(crate) async fn until(description: &str, mut holds: impl AsyncFnMut() -> bool) {
    let mut turns = 0_u32;
    while !holds().await {
        turns += 1;
        if turns.is_multiple_of(500) {
            eprintln!("still waiting until {description}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
