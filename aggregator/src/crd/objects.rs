//! Watches custom resources and writes their status. Objects are read untyped, so that one that this version cannot
//! parse does not hide the others.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use parallax_kubernetes::{
    api_client::ApiClient,
    watch::{WatchTiming, WatchUpdate, watch_updates},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    resource::{CustomResourceCollection, CustomResourceKind},
    types::Condition,
};

/// Timeout of a request to the API server.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// `namespace/name`.
pub type Key = (String, String);

/// Client for one kind of custom resource, in all namespaces or in one.
#[derive(Debug, Clone)]
pub struct ObjectClient {
    client: ApiClient,
    kind: CustomResourceKind,
    resource: ApiResource,
    namespace: Option<String>,
    /// Description of the `ServiceAccount`, for messages about missing permissions.
    account_description: &'static str,
    /// Whether the last write failed and has been logged.
    failure_logged: Arc<AtomicBool>,
}

impl ObjectClient {
    pub(super) fn new(client: ApiClient, kind: CustomResourceKind) -> Self {
        Self {
            client,
            kind,
            resource: kind.api_resource(),
            namespace: None,
            account_description: "the aggregator's ServiceAccount",
            failure_logged: Arc::default(),
        }
    }

    /// Creates a client for another program than the aggregator; `account` describes its `ServiceAccount` in messages.
    #[must_use]
    pub fn for_account(
        client: kube::Client,
        kind: CustomResourceKind,
        account: &'static str,
        namespace: Option<String>,
    ) -> Self {
        Self {
            namespace,
            account_description: account,
            ..Self::new(ApiClient(client), kind)
        }
    }

    /// Watches the objects. The watch retries with backoff and logs its failures.
    pub fn watch(&self) -> impl Stream<Item = WatchUpdate<DynamicObject>> + Send + Unpin + use<> {
        let kind = self.kind;
        let collection = CustomResourceCollection {
            kind,
            namespace: self.namespace.clone(),
            account: self.account_description,
        };
        let mut absence_logged = false;
        watch_updates(self.client.0.clone(), collection, None, WatchTiming::default())
            .inspect(move |update| match update {
                WatchUpdate::Absent if !std::mem::replace(&mut absence_logged, true) => {
                    tracing::warn!("the API server does not know {kind}; apply deploy/crds.yaml");
                }
                WatchUpdate::Listed(..) => absence_logged = false,
                _ => {}
            })
            .boxed()
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.0.clone(), namespace, &self.resource)
    }

    /// Patches the status of an object; returns whether that succeeded.
    pub(super) async fn write_status(&self, key: &Key, status: &Value) -> bool {
        self.patch_status(key, json!({"status": status})).await
    }

    /// Patches the status only if the object still has this UID, so that a recreated object is not affected.
    pub async fn write_status_of_uid(&self, key: &Key, uid: &str, status: &Value) -> bool {
        self.patch_status(key, json!({"metadata": {"uid": uid}, "status": status}))
            .await
    }

    async fn patch_status(&self, (namespace, name): &Key, patch: Value) -> bool {
        let api = self.api(namespace);
        let of_one = patch["metadata"]["uid"].is_string();
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let call = api.patch_status(name, &parameters, &patch);
        let failure = match timeout(API_SERVER_TIMEOUT, call).await {
            Ok(Ok(_)) => {
                self.failure_logged.store(false, Ordering::Relaxed);
                return true;
            }
            // The object no longer exists.
            Ok(Err(kube::Error::Api(status)))
                if status.code == 404 || (of_one && status.code == 409 && status.message.contains("UID")) =>
            {
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "request timed out".to_owned(),
        };
        // Log only the first of consecutive failures.
        if self.failure_logged.swap(true, Ordering::Relaxed) {
            return false;
        }
        tracing::warn!(
            kind = self.resource.kind, namespace, name, reason = %failure,
            "cannot write the status, retrying; check that {} may patch {}/status of the API group parallax.dev", self.account_description, self.resource.plural
        );
        false
    }

    /// Deletes an object and its dependents.
    pub async fn delete(&self, (namespace, name): &Key) {
        let api = self.api(namespace);
        let parameters = kube::api::DeleteParams::background();
        match timeout(API_SERVER_TIMEOUT, api.delete(name, &parameters)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(namespace, name, %error, "cannot delete a completed object; check that {} may delete {}.parallax.dev", self.account_description, self.resource.plural);
            }
            Err(_) => tracing::warn!(
                namespace,
                name,
                "cannot delete a completed object: request timed out"
            ),
        }
    }
}

/// Store of the watched objects.
#[derive(Debug, Default)]
pub struct KnownObjects {
    objects: BTreeMap<Key, DynamicObject>,
}

impl KnownObjects {
    /// Applies an update; returns whether the objects may have changed.
    pub fn apply(&mut self, update: WatchUpdate<DynamicObject>) -> bool {
        match update {
            WatchUpdate::Listed(objects, _) => {
                self.objects = objects.into_iter().map(|object| (key(&object), object)).collect();
                true
            }
            WatchUpdate::Applied(object) => {
                self.objects.insert(key(&object), *object);
                true
            }
            WatchUpdate::Deleted(deleted) => {
                self.objects.remove(&(deleted.namespace, deleted.name)).is_some()
            }
            WatchUpdate::Absent => !std::mem::take(&mut self.objects).is_empty(),
            WatchUpdate::Unreadable | WatchUpdate::Live | WatchUpdate::Failed(_) => false,
        }
    }

    /// Returns the objects by namespace and name.
    #[must_use]
    pub const fn objects(&self) -> &BTreeMap<Key, DynamicObject> {
        &self.objects
    }
}

fn key(object: &DynamicObject) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Creates a condition. Keeps the transition time of the object's current condition if the status is unchanged.
#[must_use]
pub fn condition(
    object: &DynamicObject,
    condition_type: &str,
    (status, reason, message): (&str, &str, &str),
) -> Condition {
    let before = object.data["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == condition_type && condition["status"] == status)
        .and_then(|condition| condition["lastTransitionTime"].as_str());
    Condition {
        condition_type: condition_type.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        // The API limits the length of a condition's message (KEP-1623).
        message: message.chars().take(1_000).collect(),
        last_transition_time: before.map_or_else(now, ToOwned::to_owned),
        observed_generation: object.metadata.generation,
    }
}

/// Returns the current time in RFC 3339, in whole seconds.
#[must_use]
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
