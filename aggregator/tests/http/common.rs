//! Starts an aggregator on a free port, with a client that acts as a prober or browser.

use std::{fs, io::Write, path::PathBuf, sync::Once};

use flate2::{Compression, write::GzEncoder};
use parallax_aggregator::{Aggregator, Config, RunError};
use parallax_diagnosis::view::View;
use parallax_history::recording::RecordOptions;
use parallax_runtime::SnapshotReader;
use reqwest::{Client, RequestBuilder, Response};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const TOPOLOGY: &str = r#"
proxyMode: ipvs
nodes:
  - {name: n1, prober: {pod: prober-n1, address: "10.244.1.5:9095"}}
  - {name: n2, prober: {pod: prober-n2, address: "10.244.2.5:9095"}}
services:
  - namespace: ingress
    name: nginx
    type: LoadBalancer
    clusterIPs: [10.96.0.50]
    loadBalancer: [{ip: 203.0.113.10}]
    externalTrafficPolicy: Local
    ports: [{name: http, port: 80, targetPort: 8080}]
    endpoints: [{pod: ingress-1, address: 10.244.1.10, node: n1}]
ingresses:
  - {namespace: shop, name: shop, service: ingress/nginx, hosts: [a.example.test, b.example.test]}
"#;

pub(crate) const HEADER: &str = r#"{"v":1,"incarnation":"life-1","vantage":"n1/pod","sent_us":1000000}"#;

pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) views: SnapshotReader<View>,
    cancelled: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::with("").await
    }

    /// Starts with additional lines in the configuration.
    pub(crate) async fn with(more: &str) -> Self {
        Self::recording(more, None).await
    }

    /// Starts with additional configuration and a recording.
    pub(crate) async fn recording(more: &str, record: Option<RecordOptions>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("topology.yaml"), TOPOLOGY).unwrap();
        fs::write(folder.path().join("token"), "a-token-of-24-characters\n").unwrap();
        let config = format!("listen: 127.0.0.1:0\ntopology: topology.yaml\n{more}");
        let path = folder.path().join("parallax.yaml");
        fs::write(&path, config).unwrap();
        Self::of(folder, record).await
    }

    /// Starts with the `parallax.yaml` of a folder.
    pub(crate) async fn of(folder: tempfile::TempDir, record: Option<RecordOptions>) -> Self {
        let config = Config::load(&folder.path().join("parallax.yaml")).unwrap();
        Self::configured(folder, config.with_record(record)).await
    }

    /// Starts with a loaded configuration.
    pub(crate) async fn configured(folder: tempfile::TempDir, config: Config) -> Self {
        // Boxed: the future holds every part of the aggregator and is large.
        let aggregator = Box::pin(Aggregator::bind(config)).await.unwrap();
        let views = aggregator.views();
        let cancelled = CancellationToken::new();
        let url = format!("http://{}", aggregator.local_addr());
        let task = tokio::spawn(aggregator.run(cancelled.clone()));
        let running = Self {
            url,
            client: client(),
            folder,
            views,
            cancelled,
            task,
        };
        // Ready once the checkpoint is restored.
        while !running.get("/readyz").send().await.unwrap().status().is_success() {
            running.views.current().await;
        }
        running
    }

    pub(crate) fn topology(&self) -> PathBuf {
        self.folder.path().join("topology.yaml")
    }

    /// Replaces the topology file in one step: a file that is written in place is empty for a moment.
    pub(crate) fn replace_topology(&self, text: &str) {
        let new = self.folder.path().join("topology.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.topology()).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.url))
    }

    pub(crate) fn report(&self) -> RequestBuilder {
        self.client
            .post(format!("{}/v1/observations", self.url))
            .header("content-type", "application/x-ndjson")
    }

    pub(crate) async fn send(&self, lines: &[&str]) -> Response {
        self.report().body(lines.join("\n")).send().await.unwrap()
    }

    pub(crate) async fn json(&self, path: &str) -> serde_json::Value {
        json(self.get(path).send().await.unwrap()).await
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        self.get(path).send().await.unwrap().text().await.unwrap()
    }

    /// Returns the value of a series; `series` is the line up to the space.
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.text("/metrics").await;
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    /// Aborts without a graceful shutdown, as `kill -9` does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub(crate) async fn stop(self) {
        drop(self.client);
        self.cancelled.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Creates a client. Also installs the process-wide crypto provider, so call it before creating any other client.
pub(crate) fn client() -> Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        rustls::crypto::ring::default_provider()
            .install_default()
            .unwrap();
    });
    Client::builder().no_proxy().build().unwrap()
}

pub(crate) async fn json(response: Response) -> serde_json::Value {
    serde_json::from_str(&response.text().await.unwrap()).unwrap()
}

pub(crate) fn observation(seq: u64) -> String {
    format!(
        r#"{{"seq":{seq},"t_us":{t},"target":"http://a.example.test/","channel":"vip","front":"203.0.113.10:80","result":"ok","status":200,"times":{{"connect_us":900,"total_us":4200}}}}"#,
        t = 900_000 + seq
    )
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
