//! Asks the API server whether it grants the aggregator what the configuration requires.
//!
//! A missing permission otherwise shows only in its consequences: without `create tokenreviews`, for example, no prober is
//! admitted. Every authenticated account may review its own access.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, join_all},
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use parallax_api::installation::PermissionReview;
use parallax_kubernetes::{api_client::ApiClient, object_key::ObjectKey};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{access::AccessMode, checkpoint::CheckpointOptions, config::Config};

/// Timeout of a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// TTL of the answer: requests for it need no authentication, and must not multiply into requests to the API server.
const CACHE_TTL: Duration = Duration::from_secs(15);

/// A permission at the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequiredPermission {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    /// The object in its namespace; any object if absent.
    object: Option<ObjectKey>,
}

impl RequiredPermission {
    fn resource_and_subresource(&self) -> (&'static str, Option<&'static str>) {
        match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (self.resource, None),
        }
    }

    /// Formats it as kubectl does: `update configmaps parallax/parallax-ca`, `patch runs.parallax.dev/status`.
    fn describe(&self) -> String {
        let (resource, subresource) = self.resource_and_subresource();
        let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
        let group = if self.group.is_empty() { "" } else { "." };
        let object = self
            .object
            .as_ref()
            .map(|object| format!(" {object}"))
            .unwrap_or_default();
        format!(
            "{} {resource}{group}{}{subresource}{object}",
            self.verb, self.group
        )
    }
}

/// A review that all who ask for it share, until it is too old.
pub(crate) type SharedReview = Shared<BoxFuture<'static, PermissionReview>>;

/// Reviews the permissions that the configuration requires besides those of watches.
#[derive(Debug, Clone)]
pub(crate) struct PermissionReviewer {
    client: Option<ApiClient>,
    required: Arc<[RequiredPermission]>,
    /// The latest review, and when it was requested.
    latest: Arc<Mutex<Option<(Instant, SharedReview)>>>,
}

impl PermissionReviewer {
    pub(crate) fn new(config: &Config, client: Option<&ApiClient>) -> Self {
        Self {
            client: client.cloned(),
            required: required_permissions(config).into(),
            latest: Arc::default(),
        }
    }

    /// Returns the current review. Concurrent requests share one.
    pub(crate) fn review(&self) -> SharedReview {
        let mut latest = self.latest.lock();
        if let Some((at, review)) = &*latest
            && at.elapsed() < CACHE_TTL
        {
            return review.clone();
        }
        let review = request(self.client.clone(), Arc::clone(&self.required));
        let review = review.boxed().shared();
        *latest = Some((Instant::now(), review.clone()));
        review
    }
}

async fn request(client: Option<ApiClient>, required: Arc<[RequiredPermission]>) -> PermissionReview {
    let Some(client) = client else {
        return PermissionReview::default();
    };
    let answers = join_all(required.iter().map(|permission| ask(&client, permission))).await;
    let mut review = PermissionReview {
        required: required.len(),
        ..PermissionReview::default()
    };
    for (permission, answer) in required.iter().zip(answers) {
        match answer {
            Ok(true) => {}
            Ok(false) => review.missing.push(permission.describe()),
            Err(reason) => review.unknown_because = Some(reason),
        }
    }
    review
}

/// Asks whether a permission is granted.
async fn ask(client: &ApiClient, permission: &RequiredPermission) -> Result<bool, String> {
    let object = permission.object.as_ref();
    let (resource, subresource) = permission.resource_and_subresource();
    let review = SelfSubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(permission.verb.to_owned()),
                group: Some(permission.group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: subresource.map(ToOwned::to_owned),
                namespace: object.map(|object| object.namespace.to_string()),
                name: object.map(|object| object.name.to_string()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        status: None,
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.0.clone());
    let parameters = PostParams::default();
    let asked = tokio::time::timeout(REVIEW_TIMEOUT, api.create(&parameters, &review)).await;
    match asked {
        Ok(Ok(answer)) => answer
            .status
            .map(|status| status.allowed && status.denied != Some(true))
            .ok_or_else(|| "the API server returned a SelfSubjectAccessReview without a status".to_owned()),
        Ok(Err(error)) => Err(format!("cannot create a SelfSubjectAccessReview: {error}")),
        Err(_) => Err(format!(
            "no response to a SelfSubjectAccessReview within {} s",
            REVIEW_TIMEOUT.as_secs()
        )),
    }
}

fn required_permissions(config: &Config) -> Vec<RequiredPermission> {
    let mut all = Vec::new();
    let mut require = |verbs: &[&'static str], (group, resource), object: Option<&ObjectKey>| {
        all.extend(verbs.iter().map(|verb| RequiredPermission {
            verb,
            group,
            resource,
            object: object.cloned(),
        }));
    };
    let by_cluster = config
        .access
        .as_ref()
        .map_or(config.identity.is_some(), |access| {
            matches!(access.mode, AccessMode::Cluster)
        });
    if config.identity.is_some() || by_cluster {
        require(&["create"], ("authentication.k8s.io", "tokenreviews"), None);
    }
    if by_cluster {
        require(
            &["create"],
            ("authorization.k8s.io", "subjectaccessreviews"),
            None,
        );
    }
    let checkpoint = match config.checkpoint_options() {
        Some(CheckpointOptions::ConfigMap(key)) => Some(key),
        Some(CheckpointOptions::File(_)) | None => None,
    };
    let published = config.tls.iter().flat_map(|tls| &tls.publish_to);
    let config_maps = published
        .chain(&checkpoint)
        .chain(&config.actions_config_map)
        .chain(&config.notify.outbox_config_map);
    for key in config_maps {
        require(&["get", "update"], ("", "configmaps"), Some(key));
    }
    if let Some(replicas) = &config.replicas {
        require(
            &["get", "update"],
            ("coordination.k8s.io", "leases"),
            Some(&replicas.lease),
        );
    }
    if config.notify.events {
        require(&["create", "patch"], ("events.k8s.io", "events"), None);
    }
    if config.custom_resources {
        require(&["delete"], ("parallax.dev", "runs"), None);
        require(&["patch"], ("parallax.dev", "runs/status"), None);
        require(&["patch"], ("parallax.dev", "targets/status"), None);
    }
    all
}

#[cfg(test)]
mod tests {
    use parallax_diagnosis::topology::Topology;

    use super::*;
    use crate::tls::TlsOptions;

    fn required(config: &Config) -> Vec<String> {
        let all = required_permissions(config);
        all.iter().map(RequiredPermission::describe).collect()
    }

    #[test]
    fn each_setting_requires_its_permissions() {
        let mut config = Config::embedded(Topology::default());
        assert_eq!(required(&config), [""; 0]);
        config.tls = Some(TlsOptions {
            listen: ([127, 0, 0, 1], 0).into(),
            hosts: Vec::new(),
            publish_to: vec!["parallax/parallax-ca".parse().unwrap()],
            ca_folder: None,
        });
        config.notify.events = true;
        config.custom_resources = true;
        assert_eq!(
            required(&config),
            [
                "get configmaps parallax/parallax-ca",
                "update configmaps parallax/parallax-ca",
                "create events.events.k8s.io",
                "patch events.events.k8s.io",
                "delete runs.parallax.dev",
                "patch runs.parallax.dev/status",
                "patch targets.parallax.dev/status",
            ]
        );
    }

    #[tokio::test]
    async fn without_an_api_server_nothing_is_required() {
        let reviewer = PermissionReviewer::new(&Config::embedded(Topology::default()), None);
        assert_eq!(reviewer.review().await, PermissionReview::default());
    }
}
