//! Persistence of the outbox: a `ConfigMap` that the next leader reads, or the store. Without either, the outbox ends
//! with the process, and log and page show a warning.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use parallax_history::store::{DocumentKind, QueryError, StoreHandle, StoreHold, StoredDocument};
use parallax_kubernetes::{
    api_client::ApiClient,
    config_map::{self, ConfigMapError, GET_DENIED, with_timeout},
    object_key::ObjectKey,
};
use parallax_model::EventTime;
use parking_lot::Mutex;

use super::outbox::Outbox;

/// Timeout of one API call.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(2);
/// The key in the `ConfigMap`, and the id of the document in the store.
const CONFIG_MAP_KEY: &str = "outbox.json";
const DOCUMENT_ID: &str = "outbox";
/// Attempts in a row after write conflicts.
const MAX_ATTEMPTS: u32 = 5;

/// Where the outbox is persisted.
#[derive(Debug)]
pub enum OutboxStore {
    /// A `ConfigMap`, which the manifests create.
    ConfigMap {
        /// Client of the API server.
        client: ApiClient,
        /// The ConfigMap.
        key: ObjectKey,
        /// The content last read or written; anything else was written by another replica.
        last_content: Mutex<String>,
    },
    /// The store, which must stay open until the last write.
    Store {
        /// The store.
        store: StoreHandle,
        /// Keeps the store open.
        _hold: Arc<StoreHold>,
    },
    /// Memory only.
    Memory,
}

impl OutboxStore {
    /// An outbox that is persisted in a ConfigMap.
    #[must_use]
    pub const fn config_map(client: ApiClient, place: ObjectKey) -> Self {
        let known = Mutex::new(String::new());
        Self::ConfigMap {
            client,
            key: place,
            last_content: known,
        }
    }

    /// Whether the outbox survives the process.
    pub(super) const fn is_persistent(&self) -> bool {
        !matches!(self, Self::Memory)
    }

    /// Reads the persisted outbox.
    pub(super) async fn read(&self) -> Result<Outbox, String> {
        match self {
            Self::Memory => Ok(Outbox::default()),
            Self::ConfigMap {
                client,
                key: place,
                last_content: known,
            } => {
                let map = with_timeout(
                    API_SERVER_TIMEOUT,
                    GET_DENIED,
                    config_map::api(client, place).get(place.name.as_str()),
                )
                .await;
                let map = map.map_err(|error| format!("ConfigMap {place}: {error}"))?;
                content(&map).clone_into(&mut known.lock());
                Ok(parse_content(content(&map)))
            }
            Self::Store { store, .. } => {
                let kept = store
                    .query(|store| store.document(DocumentKind::Outbox, DOCUMENT_ID))
                    .await;
                match kept {
                    Ok(document) => Ok(document
                        .map_or_else(Outbox::default, |document| parse_notifications(&document.value))),
                    Err(QueryError::NotConfigured) => Ok(Outbox::default()),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }

    /// Persists the outbox. If another replica wrote meanwhile, merges its content first and returns the merged outbox.
    pub(super) async fn write(&self, outbox: &Outbox, now: EventTime) -> Result<Option<Outbox>, String> {
        match self {
            Self::Memory => Ok(None),
            Self::ConfigMap {
                client,
                key: place,
                last_content: known,
            } => write_config_map((client, place), known, outbox)
                .await
                .map_err(|error| format!("ConfigMap {place}: {error}")),
            Self::Store { store, .. } => {
                let document = StoredDocument {
                    kind: DocumentKind::Outbox,
                    id: DOCUMENT_ID.to_owned(),
                    changed_at: now,
                    value: serde_json::to_value(outbox).unwrap_or_default(),
                };
                let kept = store.query(move |store| store.put_document(&document)).await;
                kept.map(|()| None).map_err(|error| error.to_string())
            }
        }
    }
}

fn content(map: &ConfigMap) -> &str {
    let kept = map.data.as_ref().and_then(|data| data.get(CONFIG_MAP_KEY));
    kept.map_or("", String::as_str)
}

/// Parses the outbox; empty if the text is empty or unreadable, for example written by another version.
fn parse_content(text: &str) -> Outbox {
    serde_json::from_str(text).map_or_else(|_| Outbox::default(), |value| parse_notifications(&value))
}

/// Parses the notifications one by one and skips those that this version cannot read.
fn parse_notifications(value: &serde_json::Value) -> Outbox {
    let notifications = value["notifications"].as_object().cloned().unwrap_or_default();
    let notifications = notifications
        .into_iter()
        .filter_map(|(thread, notification)| Some((thread, serde_json::from_value(notification).ok()?)));
    Outbox {
        notifications: notifications.collect(),
    }
}

/// Writes the outbox, merged with what another replica wrote meanwhile. Returns the merged outbox if there was a merge.
async fn write_config_map(
    (client, place): (&ApiClient, &ObjectKey),
    known: &Mutex<String>,
    outbox: &Outbox,
) -> Result<Option<Outbox>, ConfigMapError> {
    let mut joined = None;
    let mut written = String::new();
    config_map::update((client, place), (API_SERVER_TIMEOUT, MAX_ATTEMPTS), |map| {
        let foreign = *known.lock() != content(map);
        if foreign {
            let mut all = joined.take().unwrap_or_else(|| outbox.clone());
            all.merge(parse_content(content(map)));
            joined = Some(all);
            content(map).clone_into(&mut known.lock());
        }
        written = joined.as_ref().unwrap_or(outbox).to_json();
        if content(map) == written {
            return false;
        }
        map.data
            .get_or_insert_default()
            .insert(CONFIG_MAP_KEY.to_owned(), written.clone());
        true
    })
    .await?;
    *known.lock() = written;
    Ok(joined)
}
