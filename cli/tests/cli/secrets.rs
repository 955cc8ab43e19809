//! A secret reaches the server that it is for, and nothing else: neither plan, reports, recording, store, metrics, API and
//! page, nor the logs of prober and aggregator.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::read::MultiGzDecoder;

use crate::{
    commands::parallax,
    identity::mesh::until,
    servers::{RequestHeads, Server, tls::Ca},
};

const TOKEN: &str = "tok3nQZ7correctHorse";
const PASSWORD: &str = "passw0rdQZ8batteryStaple";
const PROXY_PASSWORD: &str = "pr0xyQZ9troubadour";

/// A process that is killed at the end.
struct Process(Child);

impl Process {
    fn start(mut command: Command, log: &Path) -> Self {
        let log = File::create(log).unwrap();
        command
            .env("PARALLAX_LOG", "trace")
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Self(command.spawn().unwrap())
    }

    /// Ends the process as Kubernetes does, so that it writes what it still holds.
    fn stop(mut self) {
        let kill = Command::new("kill")
            .args(["-TERM", &self.0.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the secret, and what base64 makes of it at any position in a longer text.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    for before in 0..3 {
        let encoded = BASE64_STANDARD.encode(format!("{}{secret}", "x".repeat(before)));
        // The characters at both ends depend on what stands beside the secret.
        let start = (before * 8).div_ceil(6);
        forms.push(encoded[start..encoded.len() - 4].to_owned());
    }
    forms
}

fn assert_absent(place: &str, content: &[u8]) {
    for secret in [TOKEN, PASSWORD, PROXY_PASSWORD] {
        for form in forms(secret) {
            let found = content
                .windows(form.len())
                .any(|window| window == form.as_bytes());
            assert!(!found, "{place} contains {secret} as {form}");
        }
    }
}

/// Returns an address that nothing listens on.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

fn secret(folder: &Path, name: &str, keys: &[(&str, &str)]) {
    fs::create_dir(folder.join(name)).unwrap();
    for (key, content) in keys {
        fs::write(folder.join(name).join(key), content).unwrap();
    }
}

/// Reads a stream of the plan until it has a snapshot.
fn plan(aggregator: &str) -> String {
    let mut stream = TcpStream::connect(aggregator).unwrap();
    let query = "vantage=n1/pod&incarnation=test";
    write!(
        stream,
        "GET /v1/plan?{query} HTTP/1.1\r\nhost: {aggregator}\r\n\r\n"
    )
    .unwrap();
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.contains("\"assignments\"") || !text.contains("proxy-user") {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the stream ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

/// The servers that the targets lead to, and what they received.
struct Servers {
    ca: Ca,
    bearer: (Server, RequestHeads),
    basic: (Server, RequestHeads),
    plain: (Server, RequestHeads),
    proxy: (Server, RequestHeads),
}

impl Servers {
    fn start() -> Self {
        let ca = Ca::new();
        let tls = |ca: &Ca| {
            let heads = RequestHeads::default();
            (ca.recording(&["127.0.0.1"], heads.clone()), heads)
        };
        let plain = || {
            let heads = RequestHeads::default();
            (Server::recording(heads.clone()), heads)
        };
        Self {
            bearer: tls(&ca),
            basic: tls(&ca),
            plain: plain(),
            proxy: plain(),
            ca,
        }
    }

    /// One target for each way of sending a secret, one that fails, and one whose probes are not made.
    fn targets(&self) -> String {
        format!(
            "targets:\n\
             - {{url: 'https://{}/', credential: bearer, requestHeaders: {{X-Team: shop}}}}\n\
             - {{url: 'https://{}/', credential: basic, expectStatus: '418'}}\n\
             - {{url: 'https://{}/', credential: bearer}}\n\
             - {{url: 'http://{}/', credential: bearer}}\n\
             - {{url: 'http://outside.example.test/', httpProxy: 'http://{}', proxyCredential: proxy-user}}\n",
            self.bearer.0.addr,
            self.basic.0.addr,
            free_address(),
            self.plain.0.addr,
            self.proxy.0.addr,
        )
    }

    /// The servers saw the secrets, or their absence elsewhere would prove nothing.
    fn assert_seen(&self) {
        let seen = |heads: &RequestHeads, line: &str| {
            let heads = heads.lock().unwrap();
            assert!(
                heads.iter().any(|head| head.contains(line)),
                "{line} in {heads:?}"
            );
        };
        seen(&self.bearer.1, &format!("authorization: Bearer {TOKEN}\r\n"));
        seen(&self.bearer.1, "x-team: shop\r\n");
        let pair = |user: &str, password: &str| BASE64_STANDARD.encode(format!("{user}:{password}"));
        seen(
            &self.basic.1,
            &format!("authorization: Basic {}\r\n", pair("shop", PASSWORD)),
        );
        let proxy = pair("probe", PROXY_PASSWORD);
        seen(&self.proxy.1, &format!("proxy-authorization: Basic {proxy}\r\n"));
        assert_eq!(self.plain.1.lock().unwrap().len(), 0, "not over plain HTTP");
        for (pair, password) in [(pair("shop", PASSWORD), PASSWORD), (proxy, PROXY_PASSWORD)] {
            let found = forms(password).iter().any(|form| pair.contains(form));
            assert!(found, "the search finds {pair}");
        }
    }
}

/// A prober and an aggregator with recording and store, in one folder.
struct Mesh {
    folder: tempfile::TempDir,
    aggregator: String,
    echo: String,
    client: reqwest::Client,
}

impl Mesh {
    fn new(targets: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mesh = Self {
            folder: tempfile::tempdir().unwrap(),
            aggregator: free_address(),
            echo: free_address(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
        };
        let folder = mesh.folder.path();
        secret(folder, "bearer", &[("token", &format!("{TOKEN}\n"))]);
        secret(folder, "basic", &[("username", "shop"), ("password", PASSWORD)]);
        secret(
            folder,
            "proxy-user",
            &[("username", "probe"), ("password", PROXY_PASSWORD)],
        );
        let credentials = "credentials:\n- {name: bearer, directory: bearer, hosts: [127.0.0.1]}\n\
            - {name: basic, directory: basic, hosts: [127.0.0.1]}\n\
            - {name: proxy-user, directory: proxy-user, hosts: [127.0.0.1], allowPlaintext: true}\n";
        fs::write(mesh.at("credentials.yaml"), credentials).unwrap();
        let node = "{name: n1, prober: {pod: prober-n1, address: '127.0.0.1:9'}}";
        let config = format!(
            "listen: '{}'\nintervalMs: 500\ntimeoutMs: 400\nstore: {{path: history.db}}\n\
             topology: {{nodes: [{node}]}}\n{targets}",
            mesh.aggregator
        );
        fs::write(mesh.at("parallax.yaml"), config).unwrap();
        fs::create_dir(mesh.at("records")).unwrap();
        mesh
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn start_aggregator(&self) -> Process {
        let mut command = parallax();
        command
            .args(["aggregator", "--config"])
            .arg(self.at("parallax.yaml"));
        command.arg("--record").arg(self.at("records"));
        let process = Process::start(command, &self.at("aggregator.log"));
        until("the aggregator is ready", async || {
            let request = self.client.get(format!("http://{}/readyz", self.aggregator));
            request
                .send()
                .await
                .is_ok_and(|answer| answer.status().is_success())
        })
        .await;
        process
    }

    fn start_prober(&self, ca: &Ca) -> Process {
        let mut command = parallax();
        command
            .args([
                "prober",
                "--vantage",
                "n1/pod",
                "--pod",
                "prober-n1",
                "--echo-listen",
                &self.echo,
            ])
            .args([
                "--aggregator",
                &format!("http://{}", self.aggregator),
                "--credentials",
            ])
            .arg(self.at("credentials.yaml"))
            .arg("--extra-roots")
            .arg(ca.file());
        Process::start(command, &self.at("prober.log"))
    }

    async fn get(&self, address: &str, path: &str) -> String {
        match self.client.get(format!("http://{address}{path}")).send().await {
            Ok(response) => response.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Waits for successes, failures, probes that were not made, and a request through the proxy.
    async fn wait_until_probed(&self, proxied: &RequestHeads) {
        until("all targets have been probed", async || {
            let text = self.get(&self.aggregator, "/v1/state").await;
            let state: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let states = ["ok", "failing", "unknown"];
            let named = states
                .iter()
                .all(|known| text.contains(&format!("\"state\":\"{known}\"")));
            let own = state["counters"]["own_faults"].as_u64() >= Some(2);
            named && own && !proxied.lock().unwrap().is_empty()
        })
        .await;
    }

    async fn assert_nothing_served(&self) {
        for path in ["/", "/v1/state", "/metrics"] {
            let text = self.get(&self.aggregator, path).await;
            assert!(text.contains("127.0.0.1"), "{path}: {text}");
            assert_absent(path, text.as_bytes());
        }
        let metrics = self.get(&self.echo, "/metrics").await;
        assert!(metrics.contains("parallax_prober_probes_total"), "{metrics}");
        assert_absent("/metrics of the prober", metrics.as_bytes());
        let plan = plan(&self.aggregator);
        assert!(
            plan.contains("\"credential\":\"bearer\"") && plan.contains("\"x-team\":\"shop\""),
            "{plan}"
        );
        assert_absent("/v1/plan", plan.as_bytes());
    }

    fn assert_nothing_logged(&self) {
        for name in ["aggregator.log", "prober.log"] {
            let log = fs::read(self.at(name)).unwrap();
            let text = String::from_utf8_lossy(&log);
            assert!(text.contains("DEBUG"), "{name} has the lines of low levels");
            assert_absent(name, &log);
        }
        let log = fs::read_to_string(self.at("prober.log")).unwrap();
        assert!(log.contains("not making probes that need a credential"), "{log}");
    }

    fn assert_nothing_written(&self, target: &str) {
        let mut recorded = String::new();
        for file in files(&self.at("records")) {
            let mut file = MultiGzDecoder::new(File::open(file).unwrap());
            file.read_to_string(&mut recorded).unwrap();
        }
        assert!(
            recorded.contains("credential_refused") && recorded.contains("proxy-user"),
            "{recorded}"
        );
        assert_absent("the recording", recorded.as_bytes());
        let is_store = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("history.db")
        };
        let stores = files(self.folder.path()).into_iter().filter(is_store);
        let content: Vec<u8> = stores.flat_map(|path| fs::read(path).unwrap()).collect();
        let known = content
            .windows(target.len())
            .any(|window| window == target.as_bytes());
        assert!(known, "the store has the targets");
        assert_absent("the store", &content);
    }
}

#[tokio::test]
async fn a_secret_occurs_in_the_request_of_the_prober_and_nowhere_else() {
    let servers = Servers::start();
    let mesh = Mesh::new(&servers.targets());
    let aggregator = mesh.start_aggregator().await;
    let prober = mesh.start_prober(&servers.ca);
    mesh.wait_until_probed(&servers.proxy.1).await;
    servers.assert_seen();
    mesh.assert_nothing_served().await;
    prober.stop();
    aggregator.stop();
    mesh.assert_nothing_logged();
    mesh.assert_nothing_written(&servers.basic.0.addr.to_string());
}
