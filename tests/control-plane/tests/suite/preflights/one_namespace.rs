use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use parallax_control_plane::TokenHolder;
use serde_json::json;

use super::{NAMESPACE, preflights};
use crate::{
    lock,
    objects::create,
    parallax::{installed, until},
    plane,
};

/// Only in the configured namespaces, with an error that names the missing rule elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn with_namespaces_named_it_may_nothing_elsewhere() {
    let _turn = lock().await;
    let Some(plane) = plane("Preflights of one namespace").await else {
        return;
    };
    let client = plane.admin().await.unwrap();
    for name in [NAMESPACE, "pay", "cert-manager"] {
        let spaces = Api::<Namespace>::all(client.clone());
        create(&spaces, json!({"metadata": {"name": name}})).await;
    }
    let values = "preflight: {namespaces: [shop]}\n";
    let Some(installation) = installed("Preflights of one namespace", values) else {
        return;
    };
    installation.apply(&client).await.unwrap();
    let account = TokenHolder {
        namespace: "parallax",
        account: "parallax-preflight",
        audience: None,
        pod: None,
    };
    let own = plane
        .client("parallax", &account.token(client.clone()).await.unwrap())
        .await
        .unwrap();
    let tried = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let service = json!({"metadata": {"name": "tried"}, "spec": {"ports": [{"port": 80}]}});
    let make = async |namespace: &str| {
        let api = Api::<DynamicObject>::namespaced_with(
            own.clone(),
            namespace,
            &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service")),
        );
        let mut object: DynamicObject = serde_json::from_value(service.clone()).unwrap();
        object.types = Some(kube::core::TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
        });
        api.create(&tried, &object).await
    };
    until("its permissions are effective", async || {
        make(NAMESPACE).await.ok()
    })
    .await;
    let refused = make("pay").await.unwrap_err().to_string();
    assert!(refused.contains("forbidden"), "{refused}");
    let kind = GroupVersionKind::gvk("parallax.dev", "v1alpha1", "Preflight");
    let all_namespaces = Api::<DynamicObject>::all_with(own.clone(), &ApiResource::from_gvk(&kind));
    let refused = all_namespaces
        .list(&ListParams::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("forbidden"), "{refused}");
    preflights(&own).list(&ListParams::default()).await.unwrap();
    let pods = Api::<Pod>::namespaced(own, "cert-manager");
    pods.list(&ListParams::default())
        .await
        .expect("the placement of cert-manager");
    pods.delete("any", &DeleteParams::default()).await.unwrap_err();
}
