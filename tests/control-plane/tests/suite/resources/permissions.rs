//! Users with tokens of ServiceAccounts, and the permissions of the printed roles.

use super::*;

/// Returns a user's token, with exactly the permission from docs/reference/api.md or with none.
pub(super) async fn user_token(client: &Client, name: &str, may: bool) -> String {
    create(
        &Api::<ServiceAccount>::namespaced(client.clone(), "default"),
        json!({"metadata": {"name": name}}),
    )
    .await;
    if may {
        create(
            &Api::<ClusterRole>::all(client.clone()),
            json!({"metadata": {"name": name},
                "rules": [{"apiGroups": ["parallax.dev"], "resources": ["runs"], "verbs": ["create"]}]}),
        )
        .await;
        create(
            &Api::<ClusterRoleBinding>::all(client.clone()),
            json!({"metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]}),
        )
        .await;
    }
    let holder = TokenHolder {
        namespace: "default",
        account: name,
        audience: Some("parallax-api"),
        pod: None,
    };
    holder.token(client.clone()).await.unwrap()
}

/// Uses once each permission of the aggregator for Targets, Runs and users, without any prober.
pub(crate) async fn use_every_right(client: &Client, aggregator: &InstalledAggregator) {
    defined(client).await;
    put(
        client,
        "Target",
        "default",
        "pay",
        json!({"url": "http://pay.example.test/"}),
    )
    .await;
    condition(
        &parallax_api(client, "Target", "default"),
        "pay",
        ("Accepted", "True"),
    )
    .await;
    // It cannot be executed, reports that, and is deleted after its TTL.
    let spec = json!({"url": "tcp://db.example.test", "ttlSecondsAfterFinished": 3});
    put(client, "Run", "default", "portless", spec).await;
    let runs = parallax_api(client, "Run", "default");
    let status_condition = condition(&runs, "portless", ("Accepted", "False")).await;
    assert_eq!(status_condition["reason"], "Invalid", "{status_condition}");
    until("finished objects are removed", async || {
        runs.get_opt("portless").await.unwrap().is_none().then_some(())
    })
    .await;
    let token = user_token(client, "passer-by", false).await;
    let (status, status_condition) = aggregator.request_run(&token, "http://pay.example.test/").await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{status_condition}");
    roles_for_people(client, aggregator).await;
}

/// Returns the token of an account that is bound to a role of the installation, once that is effective.
pub(crate) async fn bound_token(
    client: &Client,
    name: &str,
    role: &str,
    (verb, resource): (&str, &str),
) -> String {
    let token = user_token(client, name, false).await;
    create(
        &Api::<ClusterRoleBinding>::all(client.clone()),
        json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]}),
    )
    .await;
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:default:{name}")),
            resource_attributes: Some(ResourceAttributes {
                group: Some("parallax.dev".to_owned()),
                resource: Some(resource.to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    until(&format!("{name} may {verb} {resource}"), async || {
        let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
        answer.status.is_some_and(|status| status.allowed).then_some(())
    })
    .await;
    token
}

/// Each role of the installation allows what its name says, and no more.
async fn roles_for_people(client: &Client, aggregator: &InstalledAggregator) {
    let window = json!({"duration_s": 600, "note": "roles"});
    let reads = bound_token(client, "reads", "parallax-viewer", ("list", "incidents")).await;
    let asks = bound_token(client, "asks", "parallax-runner", ("create", "runs")).await;
    let handles = bound_token(client, "handles", "parallax-operator", ("update", "incidents")).await;
    let url = "http://pay.example.test/";
    let (status, body) = aggregator.request_run(&reads, url).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
    // No vantage reports, and an authorized user gets that error.
    let (status, body) = aggregator.request_run(&asks, url).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    let (status, body) = aggregator.post(&asks, "/v1/maintenance", &window).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
    assert!(body.contains("may not update incidents.parallax.dev"), "{body}");
    let (status, body) = aggregator.post(&handles, "/v1/maintenance", &window).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert!(body.contains("\"persisted\":true"), "{body}");
}
