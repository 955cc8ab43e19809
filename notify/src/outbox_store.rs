//! Persistence of the outbox: a `ConfigMap` that the next leader reads, or the store. Without either, the outbox ends
//! with the process, and log and page show a warning.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use parallax_history::store::{DocumentKind, QueryError, StoreHandle, StoreHold, StoredDocument};
use parallax_kubernetes::{
    api_client::ApiClient,
    config_map::{self, ConfigMapError, GET, within},
    object_key::ObjectKey,
};
use parallax_model::EventTime;
use parking_lot::Mutex;

use super::outbox::Outbox;

/// Timeout of one API call.
const PATIENCE: Duration = Duration::from_secs(2);
/// The key in the `ConfigMap`, and the id of the document in the store.
const KEY: &str = "outbox.json";
const DOCUMENT: &str = "outbox";
/// Attempts in a row after write conflicts.
const TRIES: u32 = 5;

/// Where the outbox is persisted.
#[derive(Debug)]
pub enum OutboxStore {
    /// A `ConfigMap`, which the manifests create.
    Map {
        /// Client of the API server.
        client: ApiClient,
        /// The ConfigMap.
        place: ObjectKey,
        /// The content last read or written; anything else was written by another replica.
        known: Mutex<String>,
    },
    /// The store, which must stay open until the last write.
    Store {
        /// The store.
        store: StoreHandle,
        /// Keeps the store open.
        _hold: Arc<StoreHold>,
    },
    /// Memory only.
    Nowhere,
}

impl OutboxStore {
    /// An outbox that is persisted in a ConfigMap.
    #[must_use]
    pub const fn map(client: ApiClient, place: ObjectKey) -> Self {
        let known = Mutex::new(String::new());
        Self::Map { client, place, known }
    }

    /// Whether the outbox survives the process.
    pub(super) const fn keeps(&self) -> bool {
        !matches!(self, Self::Nowhere)
    }

    /// Reads the persisted outbox.
    pub(super) async fn read(&self) -> Result<Outbox, String> {
        match self {
            Self::Nowhere => Ok(Outbox::default()),
            Self::Map { client, place, known } => {
                let map = within(
                    PATIENCE,
                    GET,
                    config_map::api(client, place).get(place.name.as_str()),
                )
                .await;
                let map = map.map_err(|trouble| format!("ConfigMap {place}: {trouble}"))?;
                text(&map).clone_into(&mut known.lock());
                Ok(of_text(text(&map)))
            }
            Self::Store { store, .. } => {
                let kept = store
                    .ask(|store| store.document(DocumentKind::Outbox, DOCUMENT))
                    .await;
                match kept {
                    Ok(document) => {
                        Ok(document.map_or_else(Outbox::default, |document| parsed(&document.value)))
                    }
                    Err(QueryError::Off) => Ok(Outbox::default()),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }

    /// Persists the outbox. If another replica wrote meanwhile, merges its content first and returns the merged outbox.
    pub(super) async fn write(&self, outbox: &Outbox, now: EventTime) -> Result<Option<Outbox>, String> {
        match self {
            Self::Nowhere => Ok(None),
            Self::Map { client, place, known } => put((client, place), known, outbox)
                .await
                .map_err(|trouble| format!("ConfigMap {place}: {trouble}")),
            Self::Store { store, .. } => {
                let document = StoredDocument {
                    sort: DocumentKind::Outbox,
                    id: DOCUMENT.to_owned(),
                    at: now,
                    value: serde_json::to_value(outbox).unwrap_or_default(),
                };
                let kept = store.ask(move |store| store.put(&document)).await;
                kept.map(|()| None).map_err(|error| error.to_string())
            }
        }
    }
}

fn text(map: &ConfigMap) -> &str {
    let kept = map.data.as_ref().and_then(|data| data.get(KEY));
    kept.map_or("", String::as_str)
}

/// Parses the outbox; empty if the text is empty or unreadable, for example written by another version.
fn of_text(text: &str) -> Outbox {
    serde_json::from_str(text).map_or_else(|_| Outbox::default(), |value| parsed(&value))
}

/// Parses the notifications one by one and skips those that this version cannot read.
fn parsed(value: &serde_json::Value) -> Outbox {
    let letters = value["letters"].as_object().cloned().unwrap_or_default();
    let letters = letters
        .into_iter()
        .filter_map(|(thread, letter)| Some((thread, serde_json::from_value(letter).ok()?)));
    Outbox {
        letters: letters.collect(),
    }
}

/// Writes the outbox, merged with what another replica wrote meanwhile. Returns the merged outbox if there was a merge.
async fn put(
    (client, place): (&ApiClient, &ObjectKey),
    known: &Mutex<String>,
    outbox: &Outbox,
) -> Result<Option<Outbox>, ConfigMapError> {
    let mut joined = None;
    let mut written = String::new();
    config_map::change((client, place), (PATIENCE, TRIES), |map| {
        let foreign = *known.lock() != text(map);
        if foreign {
            let mut all = joined.take().unwrap_or_else(|| outbox.clone());
            all.join(of_text(text(map)));
            joined = Some(all);
            text(map).clone_into(&mut known.lock());
        }
        written = joined.as_ref().unwrap_or(outbox).written();
        if text(map) == written {
            return false;
        }
        map.data
            .get_or_insert_default()
            .insert(KEY.to_owned(), written.clone());
        true
    })
    .await?;
    *known.lock() = written;
    Ok(joined)
}
