//! The real binary: an aggregator, and probers that report to it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, ResourceExt};
use parallax_control_plane::{ControlPlane, Manifest, RunningProgram, TokenHolder};
use parallax_skip::skip;
use parallax_test_support::helm::{Helm, INSTALL_COMMAND};
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::objects::installation;

/// Only a failing test waits this long.
const DEADLINE: Duration = Duration::from_mins(1);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The aggregator's ServiceAccount, as a user of the API server.
pub(crate) const AGGREGATOR: &str = "system:serviceaccount:parallax:parallax-aggregator";
/// The audience of probers' tokens.
pub(crate) const AUDIENCE: &str = "parallax";

/// Polls until a condition holds.
pub(crate) async fn until<T>(description: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(
            begin.elapsed() < DEADLINE,
            "{description}: does not hold after {DEADLINE:?}"
        );
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns this build's binary.
pub(crate) fn binary() -> PathBuf {
    // target/debug/deps/control-plane-HASH
    let test = std::env::current_exe().unwrap();
    let parallax = test.parent().and_then(Path::parent).unwrap().join("parallax");
    assert!(
        parallax.is_file(),
        "cannot find {}; build it with: cargo build -p parallax-cli",
        parallax.display()
    );
    parallax
}

/// Returns the directory of an overlay.
pub(crate) fn overlay_folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/overlays")
        .join(name)
}

/// Returns Helm; `None`, with a message, if there is none.
pub(crate) fn helm(test: &str) -> Option<Helm> {
    let helm = Helm::find();
    if helm.is_none() {
        skip(
            test,
            "helm is not installed",
            &format!("{INSTALL_COMMAND} && cargo test --workspace --locked --test control-plane"),
        );
    }
    helm
}

/// Renders the chart with the values of an overlay; `None`, with a message, without Helm.
pub(crate) fn overlay(test: &str, name: &str) -> Option<Manifest> {
    let values = overlay_folder(name).join("values.yaml");
    helm(test).map(|helm| rendered(&helm, &values))
}

/// Renders the chart with given values; `None`, with a message, without Helm.
pub(crate) fn installed(test: &str, values: &str) -> Option<Manifest> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values.yaml");
    fs::write(&path, values).unwrap();
    helm(test).map(|helm| rendered(&helm, &path))
}

fn rendered(helm: &Helm, values: &Path) -> Manifest {
    let text = helm.installation("parallax", &[values]).unwrap();
    Manifest::read(&text).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// An aggregator as installed, with the permissions of its ServiceAccount. Only its ports differ.
pub(crate) struct InstalledAggregator {
    process: RunningProgram,
    page: String,
    probers: String,
    client: reqwest::Client,
    folder: PathBuf,
}

impl InstalledAggregator {
    pub(crate) async fn start(plane: &ControlPlane) -> Self {
        Self::with_installation(plane, &installation(), "").await
    }

    /// Starts one with another installation and additional configuration.
    pub(crate) async fn with_installation(plane: &ControlPlane, installation: &Manifest, more: &str) -> Self {
        Self::with_name(plane, installation, ("aggregator", more)).await
    }

    /// Starts one of several replicas, with the name of its Pod.
    pub(crate) async fn with_name(
        plane: &ControlPlane,
        installation: &Manifest,
        (name, more): (&str, &str),
    ) -> Self {
        let admin = plane.admin().await.unwrap();
        let account = TokenHolder {
            namespace: "parallax",
            account: "parallax-aggregator",
            audience: None,
            pod: None,
        };
        let token = account.token(admin).await.unwrap();
        let kubeconfig = plane.kubeconfig(name, "parallax", &token).unwrap();
        let installed: ConfigMap = installation.object("ConfigMap", "parallax-config").unwrap();
        let (page, probers) = (free_port(), free_port());
        let config = installed.data.unwrap()["parallax.yaml"]
            .replace("'[::]:8080'", &format!("127.0.0.1:{page}"))
            .replace("'[::]:8443'", &format!("127.0.0.1:{probers}"))
            .replace("[parallax-aggregator.parallax.svc]", "[localhost]")
            + more;
        let path = plane.folder().join(format!("{name}.yaml"));
        fs::write(&path, config).unwrap();
        let process = RunningProgram::start(
            plane.folder(),
            name,
            &binary(),
            ["aggregator", "--config", path.to_str().unwrap(), "--pod", name],
            &[("KUBECONFIG", kubeconfig.to_str().unwrap())],
        )
        .unwrap();
        let mut aggregator = Self {
            process,
            page: format!("http://127.0.0.1:{page}"),
            probers: format!("https://localhost:{probers}"),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            folder: plane.folder().to_owned(),
        };
        until("the aggregator responds", async || {
            if let Some(status) = aggregator.process.exit_status() {
                panic!("the aggregator exited: {status}; {}", aggregator.process.tail());
            }
            aggregator
                .client
                .get(format!("{}/healthz", aggregator.page))
                .send()
                .await
                .ok()
        })
        .await;
        aggregator
    }

    /// Returns the URL of page and API.
    pub(crate) fn page(&self) -> &str {
        &self.page
    }

    pub(crate) async fn state(&self) -> Value {
        let answer = self
            .client
            .get(format!("{}/v1/state", self.page))
            .send()
            .await
            .unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    pub(crate) async fn metrics(&self) -> String {
        let answer = self
            .client
            .get(format!("{}/metrics", self.page))
            .send()
            .await
            .unwrap();
        answer.text().await.unwrap()
    }

    /// Sums the series with this prefix.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let text = self.metrics().await;
        text.lines()
            .filter(|line| line.starts_with(series))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }

    /// Requests a run with a token of the cluster, and returns the response.
    pub(crate) async fn request_run(&self, token: &str, url: &str) -> (StatusCode, String) {
        let request = serde_json::json!({"url": url, "rounds": 1});
        self.post(token, "/v1/runs", &request).await
    }

    /// Sends a POST request with a token of the cluster, and returns the response.
    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> (StatusCode, String) {
        let request = self.client.post(format!("{}{path}", self.page));
        let answer = request
            .bearer_auth(token)
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// Sends a GET request without a token.
    pub(crate) async fn get(&self, path: &str) -> String {
        let request = self.client.get(format!("{}{path}", self.page));
        request.send().await.unwrap().text().await.unwrap()
    }

    /// Kills it, as a failing node would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Returns its own view of the replicas, not the leader's.
    pub(crate) async fn replica(&self) -> Value {
        let request = self.client.get(format!("{}/v1/state", self.page));
        let answer = request
            .header("parallax-forwarded-by", "the-test")
            .send()
            .await
            .unwrap();
        let state: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        state["replica"].clone()
    }

    /// Reports whether it still runs and has not been restarted.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.exit_status().is_none()
    }

    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until every kind has been read or does not exist.
    pub(crate) async fn wait_until_watching(&self) {
        until("every watch is up", async || {
            let state = self.state().await;
            state["topology_error"].is_null().then_some(())
        })
        .await;
    }

    /// Returns the CA that the aggregator has published, as kubelets would mount it for probers.
    pub(crate) async fn published_ca(&self, client: &Client) -> PathBuf {
        let api = Api::<ConfigMap>::namespaced(client.clone(), "parallax");
        let pem = until("the CA is published", async || {
            let map = api.get("parallax-ca").await.unwrap();
            map.data?.remove("ca.crt")
        })
        .await;
        let path = self.folder.join("ca.crt");
        fs::write(&path, pem).unwrap();
        path
    }

    /// Requests the plan of a vantage with a token.
    async fn request_plan(&self, authority: &Path, token: &str, vantage: &str) -> reqwest::Response {
        let roots = reqwest::Certificate::from_pem_bundle(&fs::read(authority).unwrap()).unwrap();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only(roots)
            .build()
            .unwrap();
        let url = format!("{}/v1/plan?vantage={vantage}", self.probers);
        client.get(url).bearer_auth(token).send().await.unwrap()
    }

    /// Requests a plan and returns the status and, if granted, the first line.
    pub(crate) async fn plan(&self, authority: &Path, token: &str, vantage: &str) -> (StatusCode, String) {
        let mut answer = self.request_plan(authority, token, vantage).await;
        let status = answer.status();
        let first = answer.chunk().await.unwrap().unwrap_or_default();
        (status, String::from_utf8_lossy(&first).into_owned())
    }

    /// Follows a plan stream.
    pub(crate) async fn follow(&self, authority: &Path, token: &str, vantage: &str) -> Plan {
        let answer = self.request_plan(authority, token, vantage).await;
        assert!(answer.status().is_success(), "{}", answer.status());
        Plan(answer)
    }

    /// Starts a Pod's prober with a projected token and these resolvers.
    pub(crate) async fn prober(
        &self,
        admin: &Client,
        pod: &Pod,
        (account, vantage): (&str, &str),
        resolv_conf: &str,
    ) -> RunningProgram {
        let namespace = pod.namespace().unwrap();
        let holder = TokenHolder {
            namespace: &namespace,
            account,
            audience: Some(AUDIENCE),
            pod: Some(pod),
        };
        let name = pod.name_any();
        let file = |suffix: &str, text: &str| {
            let path = self.folder.join(format!("{name}.{suffix}"));
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let token = file("token", &holder.token(admin.clone()).await.unwrap());
        let resolvers = file("resolv.conf", resolv_conf);
        let authority = self.published_ca(admin).await;
        let arguments = [
            "prober",
            "--vantage",
            vantage,
            "--pod",
            &name,
            "--aggregator",
            &self.probers,
        ]
        .into_iter()
        .chain(["--token-file", &token, "--resolv-conf", &resolvers])
        .chain(["--aggregator-roots", authority.to_str().unwrap()])
        .chain(["--echo-listen", "127.0.0.1:0"]);
        RunningProgram::start(&self.folder, &name, &binary(), arguments, &[]).unwrap()
    }
}

/// A plan stream.
pub(crate) struct Plan(reqwest::Response);

impl Plan {
    /// Reads on until the stream contains a text.
    pub(crate) async fn read_until(&mut self, text: &str) {
        let reading = async {
            let mut read = String::new();
            while !read.contains(text) {
                let chunk = self.0.chunk().await.unwrap().expect("the plan stream continues");
                read.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        timeout(DEADLINE, reading)
            .await
            .unwrap_or_else(|_| panic!("the plan does not contain {text}"));
    }
}
