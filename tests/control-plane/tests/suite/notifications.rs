//! Events as accepted by the API server: their format, their series, and the permission to write them, which is granted
//! only if configured.

use std::{fs, process::Command};

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use parallax_control_plane::{ControlPlane, TokenHolder};
use serde_json::json;

use crate::{
    lock,
    objects::installation,
    parallax::{binary, installed},
    plane,
};

/// Runs `parallax notify test` as the aggregator's account; returns exit code and output.
fn tried(plane: &ControlPlane, kubeconfig: &std::path::Path) -> (Option<i32>, String) {
    let config = plane.folder().join("notify.yaml");
    fs::write(
        &config,
        "notify: {configMap: parallax/parallax-notifications, events: true}\n",
    )
    .unwrap();
    let output = Command::new(binary())
        .args(["notify", "test", "--config"])
        .arg(&config)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_taken_with_the_rights_of_an_installation_that_asks_for_them_and_refused_without() {
    let _turn = lock().await;
    let Some(plane) = plane("Events").await else {
        return;
    };
    let admin = plane.admin().await.unwrap();
    installation().apply(&admin).await.unwrap();
    let account = TokenHolder {
        namespace: "parallax",
        account: "parallax-aggregator",
        audience: None,
        pod: None,
    };
    let token = account.token(admin.clone()).await.unwrap();
    let kubeconfig = plane.kubeconfig("notifier", "parallax", &token).unwrap();
    let (code, text) = tokio::task::block_in_place(|| tried(&plane, &kubeconfig));
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("permission denied: the aggregator cannot create")
            && text.contains("apply the manifests"),
        "{text}"
    );

    let Some(with_events) = installed("Events with the permission", "notify: {events: true}") else {
        return;
    };
    with_events.apply(&admin).await.unwrap();
    // A permission takes effect a moment after it is granted.
    crate::parallax::until("the permission is effective", async || {
        let (code, _) = tokio::task::block_in_place(|| tried(&plane, &kubeconfig));
        (code == Some(0)).then_some(())
    })
    .await;
    let events = Api::<Event>::namespaced(admin.clone(), "parallax");
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let event = all
        .iter()
        .find(|event| event.reason.as_deref() == Some("NotificationTest"))
        .unwrap();
    assert_eq!(
        event.regarding.as_ref().unwrap().name.as_deref(),
        Some("parallax-notifications")
    );
    assert_eq!(event.type_.as_deref(), Some("Normal"));

    // Renewing an open incident's Event needs the same permission.
    let read = Kubeconfig::read_from(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
        .await
        .unwrap();
    let own = Api::<Event>::namespaced(Client::try_from(config).unwrap(), "parallax");
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-11-22T08:00:00.000000Z"}});
    let name = event.metadata.name.as_deref().unwrap();
    let renewed = own
        .patch(name, &PatchParams::default(), &Patch::Merge(series))
        .await
        .unwrap();
    assert_eq!(renewed.series.unwrap().count, 2);
}
