//! Custom resources as they are followed and answered: read loosely, so that one that this version cannot read does not
//! hide the others.

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
    core::GroupVersionKind,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::types::Condition;
use parallax_kubernetes::api_client::ApiClient;

/// A call that takes longer is given up and made again later.
const PATIENCE: Duration = Duration::from_secs(10);

/// `namespace/name`.
pub type Key = (String, String);

/// One kind of object, everywhere or in one namespace.
#[derive(Debug, Clone)]
pub struct ObjectClient {
    client: ApiClient,
    resource: ApiResource,
    namespace: Option<String>,
    /// Whose right is missing where something is refused.
    account: &'static str,
    /// The last status could not be written, and that was said.
    silent: Arc<AtomicBool>,
}

impl ObjectClient {
    pub(super) fn new(client: ApiClient, kind: &str) -> Self {
        let kind = GroupVersionKind::gvk("parallax.dev", "v1alpha1", kind);
        Self {
            client,
            resource: ApiResource::from_gvk(&kind),
            namespace: None,
            account: "the aggregator's account",
            silent: Arc::default(),
        }
    }

    /// Objects of a kind of ours for somebody else than the aggregator; `account` says whose rights these are.
    #[must_use]
    pub fn of(client: kube::Client, kind: &str, account: &'static str, namespace: Option<String>) -> Self {
        Self {
            namespace,
            account,
            ..Self::new(ApiClient(client), kind)
        }
    }

    /// As RBAC calls them.
    #[must_use]
    pub fn plural(&self) -> &str {
        &self.resource.plural
    }

    /// What happens to them. Trouble is an item like any other: it goes on by itself.
    pub fn follow(
        &self,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + Send + use<> {
        let api = match &self.namespace {
            Some(namespace) => self.api(namespace),
            None => Api::<DynamicObject>::all_with(self.client.0.clone(), &self.resource),
        };
        watcher(api, watcher::Config::default()).default_backoff().boxed()
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.0.clone(), namespace, &self.resource)
    }

    /// Says how an object is; whether that was taken.
    pub(super) async fn say(&self, key: &Key, status: &Value) -> bool {
        self.write(key, json!({"status": status})).await
    }

    /// The same, to the object of this uid only: one that was deleted and made anew has heard nothing yet.
    pub async fn say_to(&self, key: &Key, uid: &str, status: &Value) -> bool {
        self.write(key, json!({"metadata": {"uid": uid}, "status": status}))
            .await
    }

    async fn write(&self, (namespace, name): &Key, patch: Value) -> bool {
        let api = self.api(namespace);
        let of_one = patch["metadata"]["uid"].is_string();
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let call = api.patch_status(name, &parameters, &patch);
        let trouble = match timeout(PATIENCE, call).await {
            Ok(Ok(_)) => {
                self.silent.store(false, Ordering::Relaxed);
                return true;
            }
            // There is nobody left to tell.
            Ok(Err(kube::Error::Api(status)))
                if status.code == 404 || (of_one && status.code == 409 && status.message.contains("UID")) =>
            {
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        // The first of a row is worth a word.
        if self.silent.swap(true, Ordering::Relaxed) {
            return false;
        }
        tracing::warn!(
            kind = self.resource.kind, namespace, name, reason = %trouble,
            "cannot write the status, trying again; see whether {} may patch {}/status of the group parallax.dev", self.account, self.resource.plural
        );
        false
    }

    /// Removes an object, with what belongs to it.
    pub async fn remove(&self, (namespace, name): &Key) {
        let api = self.api(namespace);
        let parameters = kube::api::DeleteParams::background();
        match timeout(PATIENCE, api.delete(name, &parameters)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(namespace, name, %error, "cannot remove what is over; see whether {} may delete {}.parallax.dev", self.account, self.resource.plural);
            }
            Err(_) => tracing::warn!(namespace, name, "cannot remove what is over: no answer in time"),
        }
    }
}

/// Objects as known, from what happens to them.
#[derive(Debug, Default)]
pub struct KnownObjects {
    objects: BTreeMap<Key, DynamicObject>,
    /// What a new list has told so far.
    listing: BTreeMap<Key, DynamicObject>,
}

impl KnownObjects {
    /// Takes one event; whether what is known may be another.
    pub fn take(&mut self, event: watcher::Event<DynamicObject>) -> bool {
        match event {
            watcher::Event::Init => self.listing.clear(),
            watcher::Event::InitApply(object) => drop(self.listing.insert(key(&object), object)),
            watcher::Event::InitDone => {
                self.objects = std::mem::take(&mut self.listing);
                return true;
            }
            watcher::Event::Apply(object) => {
                self.objects.insert(key(&object), object);
                return true;
            }
            watcher::Event::Delete(object) => {
                self.objects.remove(&key(&object));
                return true;
            }
        }
        false
    }

    /// By namespace and name.
    #[must_use]
    pub const fn objects(&self) -> &BTreeMap<Key, DynamicObject> {
        &self.objects
    }
}

fn key(object: &DynamicObject) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// A condition, with the time of its last change: that of the object's own where it says the same.
#[must_use]
pub fn condition(
    object: &DynamicObject,
    sort: &str,
    (status, reason, message): (&str, &str, &str),
) -> Condition {
    let before = object.data["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == sort && condition["status"] == status)
        .and_then(|condition| condition["lastTransitionTime"].as_str());
    Condition {
        sort: sort.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        // As much as the API takes of a condition's message (KEP-1623).
        message: message.chars().take(1_000).collect(),
        last_transition_time: before.map_or_else(now, ToOwned::to_owned),
        observed_generation: object.metadata.generation,
    }
}

/// Now, to the second.
#[must_use]
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
