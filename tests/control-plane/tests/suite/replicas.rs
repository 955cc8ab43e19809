//! Two aggregators, and a Lease of the real API server.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

use crate::{
    lock,
    parallax::{InstalledAggregator, installed, until},
    plane,
    resources::bound_token,
    rights::assert_minimal,
};

#[tokio::test]
async fn of_two_aggregators_the_one_left_takes_the_lease_of_the_one_that_was_killed() {
    let _turn = lock().await;
    let Some(plane) = plane("two aggregators").await else {
        return;
    };
    let admin = plane.admin().await.unwrap();
    let Some(installation) = installed("two aggregators", "aggregator: {replicas: 2}\n") else {
        return;
    };
    installation.apply(&admin).await.unwrap();
    let start = async |name| InstalledAggregator::with_name(&plane, &installation, (name, "")).await;
    let (mut one, mut other) = (start("parallax-a").await, start("parallax-b").await);
    let leads = async |aggregator: &InstalledAggregator| aggregator.replica().await["role"] == "leads";
    until("one of them leads", async || {
        (leads(&one).await || leads(&other).await).then_some(())
    })
    .await;
    if leads(&other).await {
        std::mem::swap(&mut one, &mut other);
    }
    let known = until("the standby knows the leader", async || {
        let known = other.replica().await;
        known["leader"].is_string().then_some(known)
    })
    .await;
    let (first, name) = (one.replica().await, known["leader"].clone());
    assert_eq!(
        (&first["name"], known["role"].as_str()),
        (&name, Some("stands_by"))
    );

    // A user's action is known to the next leader after the first one is killed.
    let token = bound_token(&admin, "sre", "parallax-operator", ("update", "incidents")).await;
    let window = json!({"duration_s": 600, "note": "before the crash"});
    let (status, body) = other.post(&token, "/v1/maintenance", &window).await;
    assert_eq!(status, 201, "{body}");
    assert!(body.contains("\"persisted\":true"), "{body}");

    one.kill();
    until("the standby leads", async || leads(&other).await.then_some(())).await;
    let second = other.replica().await;
    assert!(
        second["epoch"].as_u64() > first["epoch"].as_u64(),
        "{first} {second}"
    );
    until("it knows the actions on the former leader", async || {
        other
            .get("/v1/maintenance")
            .await
            .contains("before the crash")
            .then_some(())
    })
    .await;
    let lease = Api::<Lease>::namespaced(admin, "parallax")
        .get("parallax-aggregator")
        .await
        .unwrap();
    assert_eq!(
        lease.spec.unwrap().holder_identity.as_deref(),
        second["name"].as_str()
    );
    assert_minimal(&plane, &installation, |right| {
        right.contains(" leases.") || right.contains("parallax-incident-actions")
    });
}
