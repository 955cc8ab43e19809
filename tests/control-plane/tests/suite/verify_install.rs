//! `parallax verify-install` with a real API server: an installation without the Pods of its nodes, with the permissions of
//! `helm test`.

use std::{path::Path, process::Output};

use k8s_openapi::api::{core::v1::Pod, rbac::v1::ClusterRole};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use parallax_control_plane::{ControlPlane, Manifest, TokenHolder};
use serde_json::{Value, json};
use tokio::{process::Command, task::spawn_blocking};

use crate::{
    installation::define_what_the_operator_has,
    lock,
    objects::{installation, node},
    parallax::{InstalledAggregator, binary, helm, until},
    plane,
};

const TEST: &str = "parallax verify-install";

/// Runs the command as the user of a kubeconfig, in a namespace.
async fn verify(aggregator: &InstalledAggregator, kubeconfig: &Path, more: &[&str]) -> Output {
    Command::new(binary())
        .args(["verify-install", "-n", "parallax", "--server", aggregator.page()])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(more)
        .output()
        .await
        .unwrap()
}

/// Runs it and returns the exit code and the checks by name.
async fn report(aggregator: &InstalledAggregator, kubeconfig: &Path) -> (Option<i32>, Value) {
    let output = verify(aggregator, kubeconfig, &["-o", "json"]).await;
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let checks = report["checks"].as_array().unwrap().iter();
    let by_name = checks.map(|check| (check["name"].as_str().unwrap().to_owned(), check.clone()));
    (output.status.code(), by_name.collect())
}

/// Applies what `helm test` creates, except its Pod, and returns a kubeconfig of the Pod's account.
async fn test_account(plane: &ControlPlane) -> Option<std::path::PathBuf> {
    let helm = helm(TEST)?;
    let test = "templates/tests/installation.yaml";
    let rendering = move || {
        helm.run(&[
            "template",
            "parallax",
            "deploy/chart",
            "-n",
            "parallax",
            "--show-only",
            test,
        ])
    };
    let rendered = spawn_blocking(rendering).await.unwrap().unwrap();
    assert!(
        rendered.status.success(),
        "{}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    let rendered = Manifest::read(&String::from_utf8(rendered.stdout).unwrap()).unwrap();
    let is_pod = |kind: Option<&str>| kind == Some("Pod");
    let objects = rendered.objects().iter().filter(|object| {
        let kind = object.types.as_ref().map(|types| types.kind.as_str());
        !is_pod(kind)
    });
    let admin = plane.admin().await.unwrap();
    let manifest = Manifest::from_objects(objects.cloned().collect());
    manifest.apply(&admin).await.unwrap();
    let holder = TokenHolder {
        namespace: "parallax",
        account: "parallax-test-installation",
        audience: None,
        pod: None,
    };
    let token = holder.token(admin).await.unwrap();
    Some(plane.kubeconfig("test-account", "parallax", &token).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_without_the_pods_of_its_nodes_is_not_ok_and_a_lost_permission_is_named() {
    let _turn = lock().await;
    let Some(mut plane) = plane(TEST).await else {
        return;
    };
    let admin = plane.admin().await.unwrap();
    define_what_the_operator_has(&admin).await;
    node(&admin, "n1", "192.0.2.1", json!({}), json!([])).await;
    installation().apply(&admin).await.unwrap();
    let Some(account) = test_account(&plane).await else {
        return;
    };
    let aggregator = InstalledAggregator::start(&plane).await;
    aggregator.wait_until_watching().await;
    aggregator.published_ca(&admin).await;

    let (code, checks) = until("the CA is known as published", async || {
        let (code, checks) = report(&aggregator, &account).await;
        let evidence = checks["ca"]["evidence"].as_str().unwrap();
        evidence.starts_with("published in").then_some((code, checks))
    })
    .await;
    assert_eq!(code, Some(1), "{checks}");
    let mut states: Vec<String> = checks
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, check)| format!("{name} {}", check["state"].as_str().unwrap()))
        .collect();
    states.retain(|state| !state.starts_with("aggregator "));
    states.sort();
    assert_eq!(
        states,
        [
            "api-server ok",
            "ca unknown",
            "notifications not_installed",
            "permissions ok",
            "plan unknown",
            "preflight not_installed",
            "probers not_ok",
            "prometheus not_installed",
            "workloads not_ok",
            "zones unknown",
        ],
        "{checks:#}"
    );
    assert_eq!(
        checks["ca"]["evidence"],
        "published in parallax/parallax-ca; no prober has connected with it yet"
    );
    let unobserved = "Deployment parallax/parallax-aggregator: its controller has not observed it yet";
    assert_eq!(checks["workloads"]["details"][0], unobserved);

    // An account with too few permissions sees less, and never more than unknown.
    let output = verify(&aggregator, &account, &[]).await;
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("✗ probers"), "{printed}");

    let roles = Api::<ClusterRole>::all(admin.clone());
    let mut role = roles.get("parallax-aggregator").await.unwrap();
    for rule in role.rules.iter_mut().flatten() {
        let resources = rule.resources.get_or_insert_default();
        resources.retain(|resource| resource != "tokenreviews");
    }
    let without = json!({"rules": role.rules.unwrap().into_iter()
        .filter(|rule| rule.resources.as_ref().is_some_and(|resources| !resources.is_empty()))
        .collect::<Vec<_>>()});
    let parameters = PatchParams::default();
    roles
        .patch("parallax-aggregator", &parameters, &Patch::Merge(without))
        .await
        .unwrap();
    until("the lost permission is named", async || {
        let (_, checks) = report(&aggregator, &account).await;
        let details = checks["permissions"]["details"].as_array()?;
        details
            .iter()
            .any(|lost| lost == "create tokenreviews.authentication.k8s.io")
            .then_some(())
    })
    .await;

    if !plane.has_controllers() {
        ControlPlane::skip_without_controllers("Pods of the DaemonSet that do not start");
        return;
    }
    plane.follow_daemon_sets().unwrap();
    let pods = Api::<Pod>::namespaced(admin.clone(), "parallax");
    until("the Pod that does not start is named", async || {
        let name = pods
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .pop()?
            .metadata
            .name?;
        let (_, checks) = report(&aggregator, &account).await;
        let probers = &checks["probers"];
        (probers["evidence"] == "0 of 1 node has a prober that reports"
            && probers["details"] == json!([format!("n1: Pod {name} is Pending")]))
        .then_some(())
    })
    .await;
}
