//! Storage of the checkpoint: a `ConfigMap`, a file, a document in the store, or none.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::ByteString;
use parallax_diagnosis::Checkpoint;
use parallax_history::store::{self, DocumentKind, QueryError, Status, StoreHandle, StoreHold};
use parallax_kubernetes::{
    api_client::ApiClient,
    config_map::{self, ConfigMapError, GET_DENIED, with_timeout},
    object_key::ObjectKey,
    replicas::mesh_nonce,
};
use parallax_model::EventTime;

use super::document::{CheckpointDocument, MAX_DOCUMENT_BYTES};

/// Timeout of a request to the API server.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Key in the `ConfigMap`.
const CONFIG_MAP_KEY: &str = "checkpoint.json.gz";
/// Id of the document in the store.
const DOCUMENT_ID: &str = "checkpoint";
/// Maximum size in a `ConfigMap`, which is limited to 1 MiB.
const MAX_CONFIG_MAP_BYTES: usize = 900 << 10;
/// Maximum number of attempts on conflicts with the other replica.
const MAX_WRITE_ATTEMPTS: u32 = 3;

/// A storage of the checkpoint.
#[derive(Debug)]
pub(crate) enum CheckpointStorage {
    ConfigMap {
        client: ApiClient,
        key: ObjectKey,
    },
    File(PathBuf),
    /// The store, which must not close before the last checkpoint is written.
    Store {
        store: StoreHandle,
        /// Keeps the store open.
        _hold: Arc<StoreHold>,
    },
    /// Memory only.
    Memory,
}

/// A checkpoint as read.
#[derive(Debug, Default)]
pub(super) struct LoadedCheckpoint {
    pub(super) checkpoint: Checkpoint,
    /// The echo nonce, if the storage has one.
    pub(super) nonce: Option<Arc<str>>,
}

/// Why the checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// A retry may succeed.
    #[error("{0}")]
    Transient(String),
    /// It persists until an operator intervenes.
    #[error("{0}")]
    Permanent(String),
}

impl CheckpointStorage {
    pub(crate) const fn is_persistent(&self) -> bool {
        !matches!(self, Self::Memory)
    }

    /// Describes the storage, for logs.
    pub(super) fn description(&self) -> String {
        match self {
            Self::ConfigMap { key, .. } => format!("ConfigMap {key}"),
            Self::File(path) => path.display().to_string(),
            Self::Store { .. } => "the store".to_owned(),
            Self::Memory => "memory".to_owned(),
        }
    }

    /// Reads the checkpoint; empty if none was written yet.
    pub(super) async fn read(&self) -> Result<LoadedCheckpoint, ReadError> {
        match self {
            Self::Memory => Ok(LoadedCheckpoint::default()),
            Self::ConfigMap { client, key } => read_config_map(client, key).await,
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                read.map_err(|error| ReadError::Permanent(error.to_string()))?
                    .map(LoadedCheckpoint::from)
                    .map_err(ReadError::Permanent)
            }
            Self::Store { store, .. } => {
                let kept = store
                    .query(|store| store.document(DocumentKind::Checkpoint, DOCUMENT_ID))
                    .await;
                match kept {
                    Ok(None) | Err(QueryError::NotConfigured) => Ok(LoadedCheckpoint::default()),
                    Ok(Some(document)) => CheckpointDocument::from_value(document.value)
                        .map(LoadedCheckpoint::from)
                        .map_err(ReadError::Permanent),
                    // A failure of the store may last, and probing does not depend on it.
                    Err(error) if matches!(store.current_state().status, Status::Down { .. }) => {
                        Err(ReadError::Permanent(error.to_string()))
                    }
                    Err(error) => Err(ReadError::Transient(error.to_string())),
                }
            }
        }
    }

    /// Writes the checkpoint, replacing the previous one.
    pub(super) async fn write(
        &self,
        checkpoint: &Checkpoint,
        nonce: Option<&str>,
        now: EventTime,
    ) -> Result<(), String> {
        let document = CheckpointDocument {
            nonce: nonce.map(str::to_owned),
            checkpoint: checkpoint.clone(),
        };
        match self {
            Self::Memory => Ok(()),
            Self::ConfigMap { client, key } => write_config_map(client, key, document)
                .await
                .map_err(|error| error.to_string()),
            Self::File(path) => {
                let path = path.clone();
                let written = tokio::task::spawn_blocking(move || write_file(&path, &document)).await;
                written
                    .map_err(|error| error.to_string())?
                    .map_err(|error| error.to_string())
            }
            Self::Store { store, .. } => {
                let document = store::StoredDocument {
                    kind: DocumentKind::Checkpoint,
                    id: DOCUMENT_ID.to_owned(),
                    changed_at: now,
                    value: document.to_value(),
                };
                let kept = store.query(move |store| store.put_document(&document)).await;
                kept.map_err(|error| error.to_string())
            }
        }
    }
}

impl From<CheckpointDocument> for LoadedCheckpoint {
    fn from(document: CheckpointDocument) -> Self {
        Self {
            checkpoint: document.checkpoint,
            nonce: document.nonce.map(Arc::from),
        }
    }
}

async fn read_config_map(client: &ApiClient, key: &ObjectKey) -> Result<LoadedCheckpoint, ReadError> {
    let map = with_timeout(
        API_SERVER_TIMEOUT,
        GET_DENIED,
        config_map::api(client, key).get(key.name.as_str()),
    )
    .await;
    let map = map.map_err(|error| match error {
        ConfigMapError::Missing | ConfigMapError::Forbidden(_) => ReadError::Permanent(error.to_string()),
        ConfigMapError::Conflict | ConfigMapError::Timeout | ConfigMapError::Other(_) => {
            ReadError::Transient(error.to_string())
        }
    })?;
    let nonce = map.metadata.uid.as_deref().map(mesh_nonce);
    let bytes = map.binary_data.as_ref().and_then(|data| data.get(CONFIG_MAP_KEY));
    let checkpoint = match bytes.map(|ByteString(bytes)| CheckpointDocument::from_gzip(bytes)) {
        None => Checkpoint::default(),
        Some(Ok(document)) => document.checkpoint,
        Some(Err(reason)) => {
            // The nonce is still valid.
            tracing::warn!(place = %key, %reason, "cannot read the checkpoint; starting without it");
            Checkpoint::default()
        }
    };
    Ok(LoadedCheckpoint { checkpoint, nonce })
}

async fn write_config_map(
    client: &ApiClient,
    key: &ObjectKey,
    mut document: CheckpointDocument,
) -> Result<(), ConfigMapError> {
    // The nonce is derived from the ConfigMap's UID instead.
    document.nonce = None;
    let bytes = document
        .to_gzip_within(MAX_CONFIG_MAP_BYTES)
        .map_err(|error| ConfigMapError::Other(kube::Error::Service(error.into())))?;
    config_map::update((client, key), (API_SERVER_TIMEOUT, MAX_WRITE_ATTEMPTS), |map| {
        map.binary_data
            .get_or_insert_default()
            .insert(CONFIG_MAP_KEY.to_owned(), ByteString(bytes.clone()));
        true
    })
    .await
}

/// Reads the document; an empty one if there is no file yet.
fn read_file(path: &Path) -> Result<CheckpointDocument, String> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(CheckpointDocument::default()),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    CheckpointDocument::from_slice(&bytes)
}

/// Writes atomically: a temporary file in the same folder, then a rename.
fn write_file(path: &Path, document: &CheckpointDocument) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Temporary files are readable by their owner only, and so is the result.
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut beside, document)?;
    beside.flush()?;
    beside.as_file().sync_all()?;
    beside.persist(path).map_err(|error| error.error)?;
    Ok(())
}
