//! The real binary: an aggregator, and probers that report to it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, ResourceExt};
use parallax_control_plane::{ControlPlane, Manifest, RunningProgram, TokenHolder};
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::objects::installation;

/// Only a failing test waits so long.
const DEADLINE: Duration = Duration::from_mins(1);
/// Time between two looks at something that becomes true by itself.
const PAUSE: Duration = Duration::from_millis(20);

/// The ServiceAccount that the aggregator has, as the API server calls it.
pub(crate) const AGGREGATOR: &str = "system:serviceaccount:parallax:parallax-aggregator";
/// The audience of probers' tokens.
pub(crate) const AUDIENCE: &str = "parallax";

/// Waits until something is so.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "{what}: not so after {DEADLINE:?}");
        sleep(PAUSE).await;
    }
}

/// The binary of this build.
pub(crate) fn binary() -> PathBuf {
    // target/debug/deps/control-plane-HASH
    let test = std::env::current_exe().unwrap();
    let parallax = test.parent().and_then(Path::parent).unwrap().join("parallax");
    assert!(
        parallax.is_file(),
        "there is no {}; build it with: cargo build -p parallax-cli",
        parallax.display()
    );
    parallax
}

/// Where an overlay is.
pub(crate) fn overlay_folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/overlays")
        .join(name)
}

/// What the binary prints for the values of an overlay.
pub(crate) fn overlay(name: &str) -> Manifest {
    printed(&overlay_folder(name).join("values.yaml"))
}

/// What the binary prints for some values.
pub(crate) fn installed(values: &str) -> Manifest {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("values.yaml");
    fs::write(&path, values).unwrap();
    printed(&path)
}

fn printed(values: &Path) -> Manifest {
    let printed = Command::new(binary())
        .args(["manifests", "--values"])
        .arg(values)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&printed.stderr);
    assert!(printed.status.success(), "{said}");
    Manifest::read(std::str::from_utf8(&printed.stdout).unwrap()).unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// An aggregator as it is installed, with the rights of its ServiceAccount. Only its ports are others.
pub(crate) struct InstalledAggregator {
    process: RunningProgram,
    page: String,
    probers: String,
    client: reqwest::Client,
    folder: PathBuf,
}

impl InstalledAggregator {
    pub(crate) async fn start(plane: &ControlPlane) -> Self {
        Self::of(plane, &installation(), "").await
    }

    /// As another installation configures it, and with more lines than that.
    pub(crate) async fn of(plane: &ControlPlane, installation: &Manifest, more: &str) -> Self {
        Self::named(plane, installation, ("aggregator", more)).await
    }

    /// One of several, as in the Pod of that name.
    pub(crate) async fn named(
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
        until("the aggregator answers", async || {
            if let Some(status) = aggregator.process.ended() {
                panic!("the aggregator ended: {status}; {}", aggregator.process.tail());
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

    /// Where page and API are.
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

    /// The sum of the series that begin like this.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let text = self.metrics().await;
        text.lines()
            .filter(|line| line.starts_with(series))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }

    /// Asks for a run with a token of the cluster; how that is answered.
    pub(crate) async fn ask_for_a_run(&self, token: &str, url: &str) -> (StatusCode, String) {
        let request = serde_json::json!({"url": url, "rounds": 1});
        self.post(token, "/v1/runs", &request).await
    }

    /// Asks for something with a token of the cluster; how that is answered.
    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> (StatusCode, String) {
        let asked = self.client.post(format!("{}{path}", self.page));
        let answer = asked
            .bearer_auth(token)
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// What page or API say by themselves.
    pub(crate) async fn get(&self, path: &str) -> String {
        let asked = self.client.get(format!("{}{path}", self.page));
        asked.send().await.unwrap().text().await.unwrap()
    }

    /// Ends it without a word, as a node that dies would.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// What it says of itself and the others, not of the one that leads.
    pub(crate) async fn replica(&self) -> Value {
        let asked = self.client.get(format!("{}/v1/state", self.page));
        let answer = asked
            .header("parallax-forwarded-by", "the-test")
            .send()
            .await
            .unwrap();
        let state: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        state["replica"].clone()
    }

    /// That it has not ended, nor was started again.
    pub(crate) fn lives(&mut self) -> bool {
        self.process.ended().is_none()
    }

    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Waits until every kind was read, or is not there.
    pub(crate) async fn settled(&self) {
        until("every watch is up", async || {
            let state = self.state().await;
            state["topology_error"].is_null().then_some(())
        })
        .await;
    }

    /// What the kubelets would hand to probers: the CA that the aggregator has published.
    pub(crate) async fn authority(&self, client: &Client) -> PathBuf {
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

    /// Asks for the plan of a vantage with a token.
    async fn ask(&self, authority: &Path, token: &str, vantage: &str) -> reqwest::Response {
        let roots = reqwest::Certificate::from_pem_bundle(&fs::read(authority).unwrap()).unwrap();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only(roots)
            .build()
            .unwrap();
        let url = format!("{}/v1/plan?vantage={vantage}", self.probers);
        client.get(url).bearer_auth(token).send().await.unwrap()
    }

    /// How that is answered, with the first line where it is granted.
    pub(crate) async fn plan(&self, authority: &Path, token: &str, vantage: &str) -> (StatusCode, String) {
        let mut answer = self.ask(authority, token, vantage).await;
        let status = answer.status();
        let first = answer.chunk().await.unwrap().unwrap_or_default();
        (status, String::from_utf8_lossy(&first).into_owned())
    }

    /// The plan as it goes on.
    pub(crate) async fn follow(&self, authority: &Path, token: &str, vantage: &str) -> Plan {
        let answer = self.ask(authority, token, vantage).await;
        assert!(answer.status().is_success(), "{}", answer.status());
        Plan(answer)
    }

    /// Starts the prober of a Pod with a token as its kubelet would have projected it, and these resolvers.
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
        let file = |what: &str, text: &str| {
            let path = self.folder.join(format!("{name}.{what}"));
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let token = file("token", &holder.token(admin.clone()).await.unwrap());
        let resolvers = file("resolv.conf", resolv_conf);
        let authority = self.authority(admin).await;
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

/// A plan that is being followed.
pub(crate) struct Plan(reqwest::Response);

impl Plan {
    /// Reads on until it says something.
    pub(crate) async fn says(&mut self, text: &str) {
        let reading = async {
            let mut read = String::new();
            while !read.contains(text) {
                let chunk = self.0.chunk().await.unwrap().expect("the plan goes on");
                read.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        timeout(DEADLINE, reading)
            .await
            .unwrap_or_else(|_| panic!("the plan does not say {text}"));
    }
}
