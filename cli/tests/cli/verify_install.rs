//! `parallax verify-install`: exit codes, output, and what it reads where.

use std::{fs, path::PathBuf, process::Output};

use parallax_api_server::{ApiServer, Behaviour};
use parallax_model::Network;
use parallax_prober::Role;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::{
    commands::{config, parallax, run, text},
    identity::mesh::{Mesh, PROBER_ACCOUNT, until},
    up::{Server, Up},
};

/// Returns a check by its name.
fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {report}"))
}

fn state(report: &Value, name: &str) -> String {
    check(report, name)["state"].as_str().unwrap().to_owned()
}

/// Runs the command with JSON output; returns its exit code and the report.
async fn verify(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = verify_as_text(&[arguments, &["-o", "json"]].concat()).await;
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    (output.status.code(), report)
}

async fn verify_as_text(arguments: &[&str]) -> Output {
    let mut command = parallax();
    command.arg("verify-install").args(arguments);
    spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[test]
fn a_mesh_without_a_cluster_is_in_order_once_its_prober_reports() {
    let server = Server::start();
    let (_folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 2000\ntimeoutMs: 1000\ntargets: [{{url: 'http://{}/'}}]\n",
        server.address
    ));
    let up = Up::start(&path);
    let url = format!("http://{}/", up.page);
    let output = run(&["verify-install", "--server", &url, "--wait", "2m"]);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    for line in [
        "✓ probers         reports come from 1 of 1 vantage",
        "✓ plan            the current plan is followed by 1 of 1 reporting prober",
        "- workloads       not installed: the aggregator watches no cluster",
    ] {
        assert!(stdout.contains(line), "{line} is not in\n{stdout}");
    }
    assert!(
        stdout.ends_with("The installation is in order: 3 checks pass.\n"),
        "{stdout}"
    );
    assert_eq!(up.interrupt(), Some(0));
    let output = run(&["verify-install", "--server", &url]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stdout).contains("? aggregator      unknown: does not answer:"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ca_is_handed_over_once_a_prober_has_its_plan_and_a_silent_prober_is_named() {
    let mesh = Mesh::new().await;
    let mut aggregator = mesh.aggregator(0).await;
    let server = format!("{}/", aggregator.plain);
    let arguments = ["--server", server.as_str()];
    let (code, report) = verify(&arguments).await;
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(report["outcome"], "not_ok");
    assert_eq!(state(&report, "ca"), "unknown");
    assert_eq!(state(&report, "permissions"), "ok");
    assert_eq!(
        check(&report, "ca")["evidence"],
        "published in parallax/parallax-ca; no prober has connected with it yet"
    );
    assert_eq!(
        check(&report, "probers")["details"],
        json!(["n1/pod: no report yet", "n2/pod: no report yet"])
    );

    mesh.pods.add("uid-1", "n1", Network::Pod);
    mesh.write_token(&mesh.api.issue_pod_token(PROBER_ACCOUNT, "uid-1", "n1", "first"));
    mesh.mount_ca();
    let prober = mesh.prober(&aggregator, "n1/pod", Role::Prober).await;
    aggregator.wait_for_report("n1/pod").await;
    until("the plan is followed", async || {
        state(&verify(&arguments).await.1, "plan") == "ok"
    })
    .await;
    let (code, report) = verify(&arguments).await;
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(
        check(&report, "ca")["evidence"],
        "published in parallax/parallax-ca; 1 prober connected with it"
    );
    assert_eq!(
        check(&report, "probers")["details"],
        json!(["n2/pod: no report yet"])
    );
    prober.stop().await;
    aggregator.stop().await;
}

/// An API server with an installation whose image cannot be pulled.
struct UnpulledImage {
    api: ApiServer,
    folder: tempfile::TempDir,
}

impl UnpulledImage {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let api = ApiServer::start(&["servicemonitors"]).await;
        let metadata = |name: &str, component: &str| {
            json!({"name": name, "namespace": "monitoring", "generation": 1, "labels": {
                "app.kubernetes.io/name": "parallax", "app.kubernetes.io/component": component}})
        };
        let port = json!({"name": "http", "port": 80, "targetPort": 8080});
        let spec = json!({"selector": {"app.kubernetes.io/component": "aggregator"}, "ports": [port]});
        api.put(
            "services",
            json!({"metadata": metadata("parallax", "aggregator"), "spec": spec}),
        );
        api.put(
            "deployments",
            json!({"metadata": metadata("parallax-aggregator", "aggregator"),
            "spec": {"replicas": 1, "selector": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
            "status": {"observedGeneration": 1}}),
        );
        api.put(
            "daemonsets",
            json!({"metadata": metadata("parallax-prober", "prober"),
            "spec": {"selector": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 1, "numberReady": 1,
                "currentNumberScheduled": 1, "numberMisscheduled": 0}}),
        );
        let waiting = json!([{"name": "aggregator", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
        api.put(
            "pods",
            json!({"metadata": metadata("agg-a", "aggregator"), "spec": {"containers": [], "nodeName": "n1"},
            "status": {"phase": "Pending", "containerStatuses": waiting}}),
        );
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kubeconfig"), api.kubeconfig()).unwrap();
        Self { api, folder }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_is_named_although_no_aggregator_answers() {
    let cluster = UnpulledImage::start().await;
    let kubeconfig = cluster.kubeconfig();
    let arguments = ["-n", "monitoring", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let output = verify_as_text(&arguments).await;
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}{}", text(&output.stderr));
    for line in [
        "✗ workloads       1 of 2 Pods of 2 workloads are ready",
        "Deployment monitoring/parallax-aggregator: 0 of 1 Pods are ready",
        "Pod agg-a on n1 is Pending: ImagePullBackOff",
        "→ set image.registry, image.repository and image.tag",
        "✗ aggregator      does not answer: no Pod of the Deployment monitoring/parallax-aggregator is ready",
        "? probers         unknown: the aggregator could not be asked",
        "- preflight       not installed",
        "not in order: 2 of",
    ] {
        assert!(stdout.contains(line), "{line} is not in\n{stdout}");
    }

    // The same through a URL at which nothing answers.
    let server = ["--server", "http://127.0.0.1:1/"];
    let (code, report) = verify(&[&arguments[..], &server].concat()).await;
    assert_eq!((code, state(&report, "workloads").as_str()), (Some(1), "not_ok"));
    assert_eq!(report["namespace"], "monitoring");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_unknown_with_the_missing_permission() {
    let cluster = UnpulledImage::start().await;
    let kubeconfig = cluster.kubeconfig();
    let server = ["--server", "http://127.0.0.1:1/", "-n", "monitoring"];
    let arguments = [&server[..], &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat();
    cluster.api.set_behaviour("deployments", Behaviour::Status(403));
    let (code, report) = verify(&arguments).await;
    assert_eq!(code, Some(3), "{report}");
    assert_eq!(report["outcome"], "unknown");
    assert_eq!(
        check(&report, "workloads")["evidence"],
        "cannot list deployments.apps in the namespace monitoring: permission denied; it requires the verb list"
    );
    let states = report["checks"].as_array().unwrap().iter();
    let states: Vec<&Value> = states.map(|check| &check["state"]).collect();
    assert!(states.iter().all(|state| **state == "unknown"), "{states:?}");

    // A URL alone names no cluster, whatever the current context is.
    let mut command = parallax();
    command
        .env("KUBECONFIG", &kubeconfig)
        .arg("verify-install")
        .args(&server[..2]);
    let output = spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(3));
    let stdout = text(&output.stdout);
    assert!(stdout.contains("the API server was not asked"), "{stdout}");
    assert!(
        text(&output.stderr)
            .contains("cannot tell whether the installation is in order: workloads, aggregator"),
        "{}",
        text(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_told_apart_from_an_installation_that_is_not_in_order() {
    let cluster = UnpulledImage::start().await;
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let server = ["--server", "http://127.0.0.1:1/"];
    for (arguments, words) in [
        (vec!["--wait", "soon"], "expected a duration such as 90s or 4m"),
        (
            [&kubeconfig[..], &["-n", "elsewhere"]].concat(),
            "no Service parallax in the namespace elsewhere",
        ),
        (
            [&server[..], &kubeconfig, &["--account", "ann"]].concat(),
            "cannot be combined",
        ),
    ] {
        let output = verify_as_text(&arguments).await;
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
}
