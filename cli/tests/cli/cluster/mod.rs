//! `kubectl parallax`: finds the aggregator in the cluster and authenticates as the kubeconfig's user.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Output},
};

use parallax_aggregator::{Aggregator, Config};
use parallax_api_server::{ApiServer, Behaviour};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::commands::{called, parallax, text};

/// Token with which the aggregator of these tests authenticates users.
pub(crate) const PEOPLE: &str = "a-token-of-24-characters";

/// Page port in the Pods.
const PORT: u16 = 8_080;
/// Selector of the Service, and the labels of its Pods.
const SELECTOR: (&str, &str) = ("app.kubernetes.io/component", "aggregator");

/// Builds a Pod of the aggregator.
fn pod(name: &str, ready: bool) -> Value {
    let waiting = json!([{"name": "aggregator", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "parallax", "labels": {SELECTOR.0: SELECTOR.1}},
        "spec": {"containers": [{"name": "aggregator", "ports": [{"name": "http", "containerPort": PORT}]}]},
        "status": {"phase": "Pending", "containerStatuses": if ready { json!([]) } else { waiting },
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

/// Starts an API server with a Service and a Pod whose ports it forwards to this aggregator.
async fn api_server(aggregator: SocketAddr) -> ApiServer {
    let api = ApiServer::start(&[]).await;
    let port = json!({"name": "http", "port": 80, "targetPort": "http"});
    let spec = json!({"selector": {SELECTOR.0: SELECTOR.1}, "ports": [port]});
    let metadata = json!({"name": "parallax", "namespace": "parallax"});
    api.put(
        "services",
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}),
    );
    api.put("pods", pod("agg-a", true));
    let account = json!({"name": "ann", "namespace": "ops"});
    api.put(
        "serviceaccounts",
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}),
    );
    api.set_issued_token(PEOPLE);
    api.forward_ports_to(aggregator);
    api
}

struct Scene {
    api: ApiServer,
    folder: tempfile::TempDir,
    cancelled: CancellationToken,
    aggregator: JoinHandle<()>,
}

impl Scene {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("people"), PEOPLE).unwrap();
        let config = folder.path().join("parallax.yaml");
        let text = "listen: 127.0.0.1:0\ntargets: [{url: 'http://shop.example.test/'}]\n\
                    access: {tokenFile: people, openRead: true}\n";
        fs::write(&config, text).unwrap();
        let aggregator = Box::pin(Aggregator::bind(Config::load(&config).unwrap()))
            .await
            .unwrap();
        let (address, cancelled) = (aggregator.local_addr(), CancellationToken::new());
        let running = Box::pin(aggregator.run(cancelled.clone()));
        Self {
            api: api_server(address).await,
            folder,
            cancelled,
            aggregator: tokio::spawn(async move { running.await.unwrap() }),
        }
    }

    /// Writes a kubeconfig with this user (YAML).
    fn kubeconfig(&self, user: &str) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        let url = self.api.url();
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n\
             contexts: [{{name: here, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs `kubectl parallax …` as this user of a kubeconfig.
    async fn kubectl(&self, user: &str, arguments: &[&str]) -> Output {
        let plugin = self.folder.path().join("kubectl-parallax");
        if !plugin.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_parallax"), &plugin).unwrap();
        }
        let mut command = called(&plugin);
        command.env("KUBECONFIG", self.kubeconfig(user)).args(arguments);
        ended(command).await
    }

    /// Rejects requests for one resource or subresource from now on, and no other.
    fn reject(&self, resource: &str, code: u16) {
        self.allow();
        self.api.set_behaviour(resource, Behaviour::Status(code));
    }

    fn allow(&self) {
        for resource in ["services", "pods", "pods/portforward", "serviceaccounts/token"] {
            self.api.set_behaviour(resource, Behaviour::Normal);
        }
    }

    /// Replaces the Pods, and rejects no more requests.
    fn replace_pods(&self, pods: Vec<Value>) {
        self.allow();
        for known in self.api.all("pods") {
            let name = known["metadata"]["name"].as_str().unwrap();
            self.api.delete("pods", "parallax", name);
        }
        for pod in pods {
            self.api.put("pods", pod);
        }
    }

    /// Stops the aggregator. Every client listed the Pods of the Service and forwarded their page port.
    async fn stop(self) {
        let selector = format!("{}={}", SELECTOR.0, SELECTOR.1);
        assert_eq!(self.api.label_selectors("pods"), BTreeSet::from([selector]));
        assert_eq!(self.api.forwarded_ports(), BTreeSet::from([PORT]));
        self.cancelled.cancel();
        self.aggregator.await.unwrap();
    }
}

async fn ended(mut command: Command) -> Output {
    spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// Returns exit code and error message.
fn failed(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

const TOKEN: &str = "{token: a-token-of-24-characters}";
const ANNOUNCE: [&str; 4] = ["maintenance", "start", "--for", "1h"];

#[tokio::test(flavor = "multi_thread")]
async fn the_aggregator_is_found_by_the_kubeconfig_whose_credentials_it_never_sees() {
    let harness = Scene::start().await;
    let output = harness.kubectl(TOKEN, &["targets", "-o", "json"]).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    assert!(text(&output.stdout).contains("http://shop.example.test/"));
    assert_eq!(harness.api.last_credential().unwrap(), format!("Bearer {PEOPLE}"));

    // The aggregator would accept the kubeconfig's token for a write action, wherever it comes from, if it got it.
    let file = harness.folder.path().join("token");
    fs::write(&file, PEOPLE).unwrap();
    let program = harness.folder.path().join("login");
    let credential = "{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \
                \"status\": {\"token\": \"a-token-of-24-characters\"}}";
    fs::write(&program, format!("#!/bin/sh\necho '{credential}'\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{}', interactiveMode: Never}}}}",
        program.display()
    );
    for user in [
        TOKEN.to_owned(),
        format!("{{tokenFile: '{}'}}", file.display()),
        exec,
    ] {
        let (code, stderr) = failed(&harness.kubectl(&user, &ANNOUNCE).await);
        assert_eq!(code, Some(2), "{user}");
        assert!(
            stderr.contains("--account") && stderr.contains("are not sent to the aggregator"),
            "{user}: {stderr}"
        );
        let as_account = [&ANNOUNCE[..], &["--account", "ops/ann"]].concat();
        let output = harness.kubectl(&user, &as_account).await;
        assert!(output.status.success(), "{user}: {:?}", failed(&output));
    }
    let output = harness
        .kubectl(TOKEN, &["maintenance", "list", "-o", "json"])
        .await;
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let windows = listed
        .as_array()
        .or_else(|| listed["windows"].as_array())
        .unwrap();
    assert_eq!(windows.len(), 3, "{listed}");

    // Under its own name the program does the same if a cluster option is given, and otherwise queries this machine.
    let mut command = parallax();
    let kubeconfig = harness.kubeconfig(TOKEN);
    command
        .args(["targets", "--context", "here", "--kubeconfig"])
        .arg(&kubeconfig);
    let output = ended(command).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    let mut command = parallax();
    command.args(["targets", "--server", "http://127.0.0.1:1/", "-n", "parallax"]);
    let (code, stderr) = failed(&ended(command).await);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("cannot be combined with --context"), "{stderr}");
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_acts_as_a_service_account_by_a_token_for_the_aggregator() {
    let harness = Scene::start().await;
    let basic_auth = "{username: ann, password: secret}";
    let output = harness.kubectl(basic_auth, &["targets"]).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    let (code, stderr) = failed(&harness.kubectl(basic_auth, &ANNOUNCE).await);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("--account") && stderr.contains("parallax-api"),
        "{stderr}"
    );

    let as_account = [&ANNOUNCE[..], &["--account", "ops/ann"]].concat();
    let output = harness.kubectl(basic_auth, &as_account).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    assert_eq!(harness.api.token_requests(), ["ops/ann 600 parallax-api"]);
    harness.reject("serviceaccounts/token", 403);
    let (code, stderr) = failed(&harness.kubectl(basic_auth, &as_account).await);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("permission denied: cannot create serviceaccounts/token in the namespace ops"),
        "{stderr}"
    );
    harness.reject("serviceaccounts/token", 404);
    let (_, stderr) = failed(&harness.kubectl(basic_auth, &as_account).await);
    assert!(
        stderr.contains("no ServiceAccount ann in the namespace ops"),
        "{stderr}"
    );
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_obstacle_is_named_with_a_remedy() {
    let harness = Scene::start().await;
    let run_status = async || failed(&harness.kubectl(TOKEN, &["status"]).await);
    for (resource, code, exit, words) in [
        (
            "services",
            403,
            2,
            "permission denied: cannot get services in the namespace parallax",
        ),
        ("pods", 403, 2, "permission denied: cannot list pods"),
        (
            "pods/portforward",
            403,
            2,
            "permission denied: cannot create pods/portforward",
        ),
        (
            "services",
            401,
            2,
            "rejects the kubeconfig's credentials: they have expired",
        ),
        ("pods/portforward", 401, 2, "have expired"),
        ("pods/portforward", 500, 3, "check whether the node is ready"),
        ("services", 500, 3, "cannot get services"),
    ] {
        harness.reject(resource, code);
        let (code, stderr) = run_status().await;
        assert_eq!(code, Some(exit), "{resource}: {stderr}");
        assert!(stderr.contains(words), "{resource}: {stderr}");
        if words.contains("permission denied") {
            assert!(stderr.contains("Role parallax-reach"), "{stderr}");
        }
    }
    harness.replace_pods(vec![pod("agg-a", false)]);
    let (code, stderr) = run_status().await;
    assert_eq!(code, Some(3));
    assert!(
        stderr.contains("no aggregator Pod is ready") && stderr.contains("agg-a is ImagePullBackOff"),
        "{stderr}"
    );
    harness.replace_pods(Vec::new());
    assert!(run_status().await.1.contains("there are none"));
    // The other Pod is ready.
    harness.replace_pods(vec![pod("agg-a", false), pod("agg-b", true)]);
    let output = harness.kubectl(TOKEN, &["targets"]).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    harness.api.delete("services", "parallax", "parallax");
    let (code, stderr) = run_status().await;
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("no Service parallax in the namespace parallax") && stderr.contains("-n"),
        "{stderr}"
    );
    let (code, stderr) = failed(
        &harness
            .kubectl(TOKEN, &["status", "--context", "elsewhere"])
            .await,
    );
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("cannot use the kubeconfig"), "{stderr}");

    let kubeconfig = harness.kubeconfig(TOKEN);
    let gone = fs::read_to_string(&kubeconfig)
        .unwrap()
        .replace(&harness.api.url(), "http://127.0.0.1:1");
    fs::write(&kubeconfig, gone).unwrap();
    let mut command = parallax();
    command.args(["status", "--kubeconfig"]).arg(&kubeconfig);
    let (code, stderr) = failed(&ended(command).await);
    assert_eq!(code, Some(3));
    assert!(
        stderr.contains("cannot reach the API server at http://127.0.0.1:1"),
        "{stderr}"
    );
    harness.stop().await;
}
