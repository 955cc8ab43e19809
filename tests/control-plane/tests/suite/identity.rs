//! Real tokens and the real TokenReview.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::{Api, Client, ResourceExt, api::DeleteParams};
use parallax_control_plane::TokenHolder;
use serde_json::json;

use crate::{
    lock,
    objects::{installation, node, pod},
    parallax::{AUDIENCE, InstalledAggregator, overlay, until},
    plane,
};

async fn token(admin: &Client, account: &str, audience: Option<&str>, pod: Option<&Pod>) -> String {
    let holder = TokenHolder {
        namespace: "parallax",
        account,
        audience,
        pod,
    };
    holder.token(admin.clone()).await.unwrap()
}

#[tokio::test]
async fn a_prober_may_report_for_its_own_node_while_its_pod_exists_and_nobody_else_may() {
    let _turn = lock().await;
    let Some(plane) = plane("identity").await else {
        return;
    };
    let admin = plane.admin().await.unwrap();
    let installation = installation();
    installation.apply(&admin).await.unwrap();
    let daemons: DaemonSet = installation.object("DaemonSet", "parallax-prober").unwrap();
    let template = daemons.spec.unwrap().template;
    node(&admin, "n1", "192.0.2.1", json!({}), json!([])).await;
    node(&admin, "n2", "192.0.2.2", json!({}), json!([])).await;
    let first = pod(&admin, "parallax", &template, ("prober-1", "n1"), "192.0.2.17").await;
    let second = pod(&admin, "parallax", &template, ("prober-2", "n2"), "192.0.2.18").await;
    // A Pod of the account that is not a prober: its labels differ.
    let mut other = template.clone();
    other.metadata = None;
    let other_pod = pod(&admin, "parallax", &other, ("stranger", "n1"), "192.0.2.19").await;

    let aggregator = InstalledAggregator::start(&plane).await;
    aggregator.wait_until_watching().await;
    let authority = aggregator.published_ca(&admin).await;
    let right = token(&admin, "parallax-prober", Some(AUDIENCE), Some(&first)).await;
    let line = until("its plan is granted", async || {
        let (status, line) = aggregator.plan(&authority, &right, "n1/pod").await;
        status.is_success().then_some(line)
    })
    .await;
    assert!(line.contains("snapshot"), "{line}");

    let another = token(&admin, "parallax-prober", Some(AUDIENCE), Some(&second)).await;
    let unbound = token(&admin, "parallax-prober", Some(AUDIENCE), None).await;
    let api_server = token(&admin, "parallax-prober", None, Some(&first)).await;
    let wrong_account = token(&admin, "parallax-aggregator", Some(AUDIENCE), None).await;
    let other_token = token(&admin, "parallax-prober", Some(AUDIENCE), Some(&other_pod)).await;
    let forged = format!("{right}x");
    for (shown, status, reason) in [
        (&another, 403, "other_vantage"),
        (&unbound, 403, "not_bound"),
        (&api_server, 401, "wrong_audience"),
        (&wrong_account, 403, "wrong_account"),
        (&other_token, 403, "unknown_pod"),
        (&forged, 401, "invalid_token"),
    ] {
        let (answered, body) = aggregator.plan(&authority, shown, "n1/pod").await;
        assert_eq!(
            (answered.as_u16(), body.contains(reason)),
            (status, true),
            "{reason}: {answered} {body}"
        );
        let counted = format!("parallax_identity_refused_total{{reason=\"{reason}\"}}");
        assert!(aggregator.metric(&counted).await > 0.0, "{reason} is counted");
        assert!(aggregator.log().contains(reason), "{reason} is logged");
    }

    // The token ends with its Pod, although it has been reviewed and would be valid for minutes.
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    let pods = Api::<Pod>::namespaced(admin.clone(), "parallax");
    pods.delete(&first.name_any(), &now).await.unwrap();
    until("the token of a deleted Pod is rejected", async || {
        let (status, _) = aggregator.plan(&authority, &right, "n1/pod").await;
        (!status.is_success()).then_some(())
    })
    .await;
    let (status, body) = tokio::time::timeout(
        Duration::from_mins(1),
        aggregator.plan(&authority, &another, "n2/pod"),
    )
    .await
    .unwrap();
    assert!(status.is_success(), "the others still work: {status} {body}");
}

#[tokio::test]
async fn a_prober_in_its_nodes_own_network_has_a_plan_beside_the_one_in_the_pod_network() {
    let _turn = lock().await;
    let Some(plane) = plane("probers in the host network").await else {
        return;
    };
    let admin = plane.admin().await.unwrap();
    let Some(installation) = overlay("probers in the host network", "host-vantage") else {
        return;
    };
    installation.apply(&admin).await.unwrap();
    node(&admin, "n1", "192.0.2.1", json!({}), json!([])).await;
    let mut probers = Vec::new();
    for (namespace, account) in [
        ("parallax", "parallax-prober"),
        ("parallax-host", "parallax-prober-host"),
    ] {
        let daemons: DaemonSet = installation.object("DaemonSet", account).unwrap();
        let template = daemons.spec.unwrap().template;
        probers.push(pod(&admin, namespace, &template, (account, "n1"), "192.0.2.17").await);
    }
    let aggregator = InstalledAggregator::with_installation(&plane, &installation, "").await;
    aggregator.wait_until_watching().await;
    let authority = aggregator.published_ca(&admin).await;
    for (pod, vantage) in probers.iter().zip(["n1/pod", "n1/host"]) {
        let namespace = pod.namespace().unwrap();
        let account = pod.name_any();
        let holder = TokenHolder {
            namespace: &namespace,
            account: &account,
            audience: Some(AUDIENCE),
            pod: Some(pod),
        };
        let token = holder.token(admin.clone()).await.unwrap();
        until("it has a plan", async || {
            let (status, line) = aggregator.plan(&authority, &token, vantage).await;
            (status.is_success() && line.contains("dns://kubernetes.default.svc")).then_some(())
        })
        .await;
    }
}
