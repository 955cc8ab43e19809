//! `parallax vantage`, from the account to the outside machine that reports.

use std::{path::Path, process::Output};

use parallax_api_server::ApiServer;
use serde_json::json;

use super::{
    client,
    mesh::{Mesh, NAMESPACE, until},
    report,
};
use crate::commands::{parallax, text};

/// Runs a command against the API server with a kubeconfig.
async fn vantage(api: &ApiServer, folder: &Path, args: &[&str]) -> Output {
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, api.kubeconfig()).unwrap();
    let mut command = parallax();
    command.arg("vantage").args(args).env("KUBECONFIG", kubeconfig);
    tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

fn outside_service(api: &ApiServer, host: &str) {
    api.put(
        "services",
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"namespace": NAMESPACE, "name": "parallax-outside", "annotations": {"parallax.dev/host": host}}}),
    );
}

/// Returns the text between the line that ends with `file` and the line `END`.
fn heredoc<'a>(script: &'a str, file: &str) -> &'a str {
    let start = format!("cat > {file} <<'END'\n");
    script
        .split(start.as_str())
        .nth(1)
        .unwrap()
        .split("\nEND\n")
        .next()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_outside_is_enrolled_probes_and_is_revoked() {
    let mesh = Mesh::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut running = mesh.aggregator(0).await;
    outside_service(&mesh.api, "localhost");
    let enrolled = vantage(
        &mesh.api,
        folder.path(),
        &["enroll", "laptop", "--network", "internet", "--ttl", "12h"],
    )
    .await;
    assert!(enrolled.status.success(), "{}", text(&enrolled.stderr));
    assert!(text(&enrolled.stderr).contains("internet:laptop is enrolled until"));
    let account = mesh
        .api
        .get("serviceaccounts", NAMESPACE, "parallax-vantage-laptop")
        .unwrap();
    assert_eq!(account["metadata"]["labels"]["parallax.dev/reach"], "internet");
    assert_eq!(account["automountServiceAccountToken"], false);

    let script = text(&enrolled.stdout);
    assert!(
        script.contains("--aggregator 'https://localhost:8443' --vantage 'internet:laptop'"),
        "{script}"
    );
    let token = heredoc(&script, "parallax-token");
    assert!(heredoc(&script, "parallax-ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    // Run the printed script in a shell, with the test's port and the binary under test.
    let script = script.replace("https://localhost:8443", &running.tls).replace(
        "\nparallax prober",
        &format!(
            "\nexec {} prober --echo-listen 127.0.0.1:0",
            env!("CARGO_BIN_EXE_parallax")
        ),
    );
    let mut machine = std::process::Command::new("sh")
        .args(["-eu", "-c", &script])
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    running.wait_for_report("internet:laptop").await;
    machine.kill().unwrap();
    machine.wait().unwrap();

    // It may report only for its own vantage.
    let client = client(&mesh);
    let (status, body, _) = report(&client, &running.tls, token, "n1/pod").await;
    assert_eq!(
        (status.as_u16(), body["reason"].as_str()),
        (403, Some("other_vantage"))
    );

    let listed = vantage(&mesh.api, folder.path(), &["list"]).await;
    let rows = text(&listed.stdout);
    assert!(
        rows.lines()
            .any(|row| row.starts_with("internet:laptop ") && row.contains("20")),
        "{rows}"
    );

    let revoked = vantage(&mesh.api, folder.path(), &["revoke", "laptop"]).await;
    assert!(revoked.status.success(), "{}", text(&revoked.stderr));
    assert!(
        mesh.api
            .get("serviceaccounts", NAMESPACE, "parallax-vantage-laptop")
            .is_none()
    );
    let listed = vantage(&mesh.api, folder.path(), &["list"]).await;
    assert_eq!(text(&listed.stdout), "no vantage is enrolled\n");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_said_before_anything_is_made() {
    let mesh = Mesh::new().await;
    let folder = tempfile::tempdir().unwrap();
    for (args, code, expected) in [
        (
            &["enroll", "Laptop", "--network", "vpc"][..],
            2,
            "expected a name of at most 48",
        ),
        (
            &["enroll", "laptop", "--network", "moon"],
            2,
            "expected vpc or internet",
        ),
        (
            &["enroll", "laptop", "--network", "vpc", "--ttl", "1m"],
            2,
            "expected 10m to 366d",
        ),
        (
            &["enroll", "laptop", "--network", "vpc"],
            3,
            "set externalHosts in the values, or give --aggregator URL",
        ),
        (
            &[
                "enroll",
                "laptop",
                "--network",
                "vpc",
                "--aggregator",
                "https://a:8443",
            ],
            3,
            "the aggregator has not published its CA",
        ),
        (&["revoke", "laptop"], 3, "no vantage laptop is enrolled"),
        (&["revoke", "Laptop"], 2, "expected a name"),
    ] {
        let output = vantage(&mesh.api, folder.path(), args).await;
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
    assert!(
        mesh.api
            .get("serviceaccounts", NAMESPACE, "parallax-vantage-laptop")
            .is_none()
    );
    // An account of this name that belongs to no vantage is not touched.
    let name = "parallax-vantage-ci";
    let metadata = json!({"namespace": NAMESPACE, "name": name});
    mesh.api.put(
        "serviceaccounts",
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
    );
    let output = vantage(&mesh.api, folder.path(), &["revoke", "ci"]).await;
    assert_eq!(output.status.code(), Some(3));
    assert!(mesh.api.get("serviceaccounts", NAMESPACE, name).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn enrolling_again_gives_another_token_and_never_another_scope() {
    let mesh = Mesh::new().await;
    let folder = tempfile::tempdir().unwrap();
    let running = mesh.aggregator(0).await;
    outside_service(&mesh.api, "localhost");
    let enroll = async |network: &str| {
        vantage(
            &mesh.api,
            folder.path(),
            &["enroll", "bastion", "--network", network],
        )
        .await
    };
    let first = enroll("vpc").await;
    let second = enroll("vpc").await;
    assert!(
        first.status.success() && second.status.success(),
        "{}",
        text(&second.stderr)
    );
    assert_ne!(
        heredoc(&text(&first.stdout), "parallax-token"),
        heredoc(&text(&second.stdout), "parallax-token")
    );
    let other = enroll("internet").await;
    assert_eq!(other.status.code(), Some(3));
    assert!(text(&other.stderr).contains("is enrolled as vpc:bastion; revoke it first"));
    // Thirty days were requested and the cluster granted one: the granted time is shown.
    let tomorrow = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(25);
    let stderr = text(&first.stderr);
    let until_text = stderr.split("until ").nth(1).unwrap().split(". ").next().unwrap();
    assert!(
        until_text.parse::<jiff::Timestamp>().unwrap() < tomorrow,
        "{stderr}"
    );
    until("both vantages are one", async || {
        running
            .views
            .current()
            .await
            .vantages
            .iter()
            .filter(|v| v.vantage.to_string() == "vpc:bastion")
            .count()
            == 1
    })
    .await;
    running.stop().await;
}
