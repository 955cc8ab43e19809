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
    fn reject(&self, what: &str, code: u16) {
        self.allow();
        self.api.set_behaviour(what, Behaviour::Status(code));
    }

    fn allow(&self) {
        for what in ["services", "pods", "pods/portforward", "serviceaccounts/token"] {
            self.api.set_behaviour(what, Behaviour::Normal);
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
async fn the_aggregator_is_found_by_the_kubeconfig_and_its_user_is_who_asks() {
    let scene = Scene::start().await;
    let output = scene.kubectl(TOKEN, &["targets", "-o", "json"]).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    assert!(text(&output.stdout).contains("http://shop.example.test/"));
    assert_eq!(scene.api.last_credential().unwrap(), format!("Bearer {PEOPLE}"));

    // Write actions need a token that the aggregator accepts, wherever the kubeconfig gets it from.
    let file = scene.folder.path().join("token");
    fs::write(&file, PEOPLE).unwrap();
    let program = scene.folder.path().join("login");
    let said = "{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \
                \"status\": {\"token\": \"a-token-of-24-characters\"}}";
    fs::write(&program, format!("#!/bin/sh\necho '{said}'\n")).unwrap();
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
        let output = scene.kubectl(&user, &ANNOUNCE).await;
        assert!(output.status.success(), "{user}: {:?}", failed(&output));
    }
    let output = scene.kubectl(TOKEN, &["maintenance", "list", "-o", "json"]).await;
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let windows = listed
        .as_array()
        .or_else(|| listed["windows"].as_array())
        .unwrap();
    assert_eq!(windows.len(), 3, "{listed}");

    // Under its own name the program does the same if a cluster option is given, and otherwise queries this machine.
    let mut command = parallax();
    let kubeconfig = scene.kubeconfig(TOKEN);
    command
        .args(["targets", "--context", "here", "--kubeconfig"])
        .arg(&kubeconfig);
    let output = ended(command).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    let mut command = parallax();
    command.args(["targets", "--server", "http://127.0.0.1:1/", "-n", "parallax"]);
    let (code, said) = failed(&ended(command).await);
    assert_eq!(code, Some(2));
    assert!(said.contains("cannot be combined with --context"), "{said}");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_a_certificate_reads_and_changes_things_as_an_account() {
    let scene = Scene::start().await;
    let nobody = "{username: ann, password: secret}";
    let output = scene.kubectl(nobody, &["targets"]).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    let (code, said) = failed(&scene.kubectl(nobody, &ANNOUNCE).await);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("--account") && said.contains("certificate"),
        "{said}"
    );

    let as_account = [&ANNOUNCE[..], &["--account", "ops/ann"]].concat();
    let output = scene.kubectl(nobody, &as_account).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    assert_eq!(scene.api.token_requests(), ["ops/ann 600"]);
    scene.reject("serviceaccounts/token", 403);
    let (code, said) = failed(&scene.kubectl(nobody, &as_account).await);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("permission denied: cannot create serviceaccounts/token in the namespace ops"),
        "{said}"
    );
    scene.reject("serviceaccounts/token", 404);
    let (_, said) = failed(&scene.kubectl(nobody, &as_account).await);
    assert!(
        said.contains("no ServiceAccount ann in the namespace ops"),
        "{said}"
    );
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_thing_in_the_way_is_named_with_what_to_do() {
    let scene = Scene::start().await;
    let asked = async || failed(&scene.kubectl(TOKEN, &["status"]).await);
    for (what, code, exit, words) in [
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
        scene.reject(what, code);
        let (code, said) = asked().await;
        assert_eq!(code, Some(exit), "{what}: {said}");
        assert!(said.contains(words), "{what}: {said}");
        if words.contains("permission denied") {
            assert!(said.contains("Role parallax-reach"), "{said}");
        }
    }
    scene.replace_pods(vec![pod("agg-a", false)]);
    let (code, said) = asked().await;
    assert_eq!(code, Some(3));
    assert!(
        said.contains("no aggregator Pod is ready") && said.contains("agg-a is ImagePullBackOff"),
        "{said}"
    );
    scene.replace_pods(Vec::new());
    assert!(asked().await.1.contains("there are none"));
    // The other Pod is ready.
    scene.replace_pods(vec![pod("agg-a", false), pod("agg-b", true)]);
    let output = scene.kubectl(TOKEN, &["targets"]).await;
    assert!(output.status.success(), "{:?}", failed(&output));
    scene.api.delete("services", "parallax", "parallax");
    let (code, said) = asked().await;
    assert_eq!(code, Some(2));
    assert!(
        said.contains("no Service parallax in the namespace parallax") && said.contains("-n"),
        "{said}"
    );
    let (code, said) = failed(&scene.kubectl(TOKEN, &["status", "--context", "elsewhere"]).await);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cannot use the kubeconfig"), "{said}");

    let kubeconfig = scene.kubeconfig(TOKEN);
    let gone = fs::read_to_string(&kubeconfig)
        .unwrap()
        .replace(&scene.api.url(), "http://127.0.0.1:1");
    fs::write(&kubeconfig, gone).unwrap();
    let mut command = parallax();
    command.args(["status", "--kubeconfig"]).arg(&kubeconfig);
    let (code, said) = failed(&ended(command).await);
    assert_eq!(code, Some(3));
    assert!(
        said.contains("cannot reach the API server at http://127.0.0.1:1"),
        "{said}"
    );
    scene.stop().await;
}
