//! The aggregator's permissions are minimal: the rules of its roles are compared with the API server's audit log.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use kube::Api;
use parallax_control_plane::{AuditedRequest, ControlPlane, Manifest, TokenHolder};
use serde_json::json;

use crate::{
    discovery::{define_cert_manager, define_gateways},
    lock,
    objects::{create, node, pod},
    parallax::{AGGREGATOR, AUDIENCE, InstalledAggregator, overlay, until},
    plane,
    resources::use_every_right,
};

/// Returns `VERB RESOURCE.GROUP NAME` for each permission; without a name it applies to any object.
pub(crate) fn permissions(rules: impl IntoIterator<Item = PolicyRule>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in rules {
        let names = rule.resource_names.unwrap_or_else(|| vec![String::new()]);
        for group in rule.api_groups.unwrap_or_default() {
            for resource in rule.resources.clone().unwrap_or_default() {
                for verb in &rule.verbs {
                    all.extend(names.iter().map(|name| right(verb, &resource, &group, name)));
                }
            }
        }
    }
    all
}

pub(crate) fn right(verb: &str, resource: &str, group: &str, name: &str) -> String {
    format!("{verb} {resource}.{group} {name}")
}

#[tokio::test]
async fn the_aggregator_is_refused_nothing_and_needs_every_right_it_has() {
    let _turn = lock().await;
    let Some(plane) = plane("the aggregator's permissions").await else {
        return;
    };
    let admin = plane.admin().await.unwrap();
    let Some(installation) = overlay("the aggregator's permissions", "custom-resources") else {
        return;
    };
    installation.apply(&admin).await.unwrap();
    define_gateways(&admin).await;
    define_cert_manager(&admin).await;
    node(&admin, "n1", "192.0.2.1", json!({}), json!([])).await;
    let daemons: DaemonSet = installation.object("DaemonSet", "parallax-prober").unwrap();
    let template = daemons.spec.unwrap().template;
    let prober = pod(&admin, "parallax", &template, ("prober-1", "n1"), "192.0.2.17").await;
    create(
        &Api::<ServiceAccount>::namespaced(admin.clone(), "parallax"),
        json!({"metadata": {"name": "laptop", "labels":
            {"parallax.dev/vantage": "laptop", "parallax.dev/reach": "internet"}}}),
    )
    .await;

    let aggregator = InstalledAggregator::with_installation(&plane, &installation, "").await;
    aggregator.wait_until_watching().await;
    let authority = aggregator.published_ca(&admin).await;
    for (account, pod, vantage) in [
        ("parallax-prober", Some(&prober), "n1/pod"),
        ("laptop", None, "internet:laptop"),
    ] {
        let holder = TokenHolder {
            namespace: "parallax",
            account,
            audience: Some(AUDIENCE),
            pod,
        };
        let token = holder.token(admin.clone()).await.unwrap();
        until("its plan is granted", async || {
            let (status, _) = aggregator.plan(&authority, &token, vantage).await;
            status.is_success().then_some(())
        })
        .await;
    }

    use_every_right(&admin, &aggregator).await;

    assert_minimal(&plane, &installation, |_| true);
}

/// Asserts that the aggregator was never denied a permission, and used each one of a kind that it has.
pub(crate) fn assert_minimal(
    plane: &ControlPlane,
    installation: &Manifest,
    of_the_kind: impl Fn(&str) -> bool,
) {
    let requests: Vec<AuditedRequest> = plane
        .audited_requests()
        .unwrap()
        .into_iter()
        .filter(|request| request.user == AGGREGATOR)
        .collect();
    let refused: Vec<&AuditedRequest> = requests.iter().filter(|request| !request.allowed).collect();
    assert!(refused.is_empty(), "{refused:#?}");

    let cluster: ClusterRole = installation.object("ClusterRole", "parallax-aggregator").unwrap();
    let own: Role = installation.object("Role", "parallax-aggregator").unwrap();
    let rules = cluster.rules.into_iter().chain(own.rules).flatten();
    let used: BTreeSet<String> = requests
        .iter()
        .flat_map(|a| [a.name.as_str(), ""].map(|name| right(&a.verb, &a.resource, &a.group, name)))
        .collect();
    let all: Vec<String> = permissions(rules)
        .into_iter()
        .filter(|right| of_the_kind(right))
        .collect();
    assert!(!all.is_empty(), "no permission of this kind is granted");
    let idle: Vec<&String> = all.iter().filter(|right| !used.contains(*right)).collect();
    assert!(
        idle.is_empty(),
        "granted and never used: {idle:#?}\nused: {used:#?}"
    );
}
