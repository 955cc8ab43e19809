//! `kubectl parallax` with a real API server: each missing permission is named, and the installation's Role grants all
//! of them. There is no kubelet, so the connection fails at the node.

use std::process::Command;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::Api;
use parallax_control_plane::{ControlPlane, TokenHolder};
use serde_json::json;

use crate::{
    lock,
    objects::{create, installation, node, pod},
    parallax::{binary, until},
    plane,
};

/// Runs the command as a user; returns its error.
fn run_and_get_error(plane: &ControlPlane, token: &str) -> String {
    let kubeconfig = plane.kubeconfig("ann", "default", token).unwrap();
    let output = Command::new(binary())
        .args(["status", "--kubeconfig"])
        .arg(kubeconfig)
        .env_remove("PARALLAX_SERVER")
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_named_and_the_role_of_the_installation_has_them_all() {
    let _turn = lock().await;
    let Some(plane) = plane("access of kubectl parallax").await else {
        return;
    };
    let admin = plane.admin().await.unwrap();
    let installation = installation();
    installation.apply(&admin).await.unwrap();
    let account = json!({"metadata": {"name": "ann"}});
    create(
        &Api::<ServiceAccount>::namespaced(admin.clone(), "default"),
        account,
    )
    .await;
    let holder = TokenHolder {
        namespace: "default",
        account: "ann",
        audience: None,
        pod: None,
    };
    let token = holder.token(admin.clone()).await.unwrap();
    let error = run_and_get_error(&plane, "unknown-token");
    assert!(error.contains("rejects the kubeconfig's credentials"), "{error}");

    // Grant one permission after the other, each with a separate Role.
    let subject = json!([{"kind": "ServiceAccount", "name": "ann", "namespace": "default"}]);
    let bind = async |name: &str| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subject});
        create(
            &Api::<RoleBinding>::namespaced(admin.clone(), "parallax"),
            binding,
        )
        .await;
    };
    let mut lacking = "services";
    for (resource, verb, next) in [("services", "get", "pods"), ("pods", "list", "pods/portforward")] {
        let error = run_and_get_error(&plane, &token);
        assert!(
            error.contains(&format!(
                "permission denied: cannot {verb} {lacking} in the namespace parallax"
            )),
            "{error}"
        );
        assert!(error.contains("Role parallax-reach"), "{error}");
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": [verb]}]);
        let role = json!({"metadata": {"name": resource}, "rules": rules});
        create(&Api::<Role>::namespaced(admin.clone(), "parallax"), role).await;
        bind(resource).await;
        lacking = next;
        until(&format!("access to {resource} is allowed"), async || {
            (!run_and_get_error(&plane, &token)
                .contains(&format!("permission denied: cannot {verb} {resource} ")))
            .then_some(())
        })
        .await;
    }
    let error = run_and_get_error(&plane, &token);
    assert!(
        error.contains("no aggregator Pod is ready in the namespace parallax"),
        "{error}"
    );

    node(&admin, "n1", "127.0.0.1", json!({}), json!([])).await;
    let deployment: Deployment = installation.object("Deployment", "parallax-aggregator").unwrap();
    let template = deployment.spec.unwrap().template;
    let _: Pod = pod(&admin, "parallax", &template, ("aggregator-1", "n1"), "192.0.2.7").await;
    until("only port forwarding is denied", async || {
        run_and_get_error(&plane, &token)
            .contains("permission denied: cannot create pods/portforward")
            .then_some(())
    })
    .await;
    bind("parallax-reach").await;
    until("no permission is missing", async || {
        let error = run_and_get_error(&plane, &token);
        let reached = error.contains("cannot forward a port of the Pod parallax/aggregator-1");
        (reached && error.contains("check whether the node is ready")).then_some(())
    })
    .await;
}
