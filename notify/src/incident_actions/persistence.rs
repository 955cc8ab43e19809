//! Reads actions from the store, and writes them to store and `ConfigMap`.

use std::time::Duration;

use parallax_history::store::{DocumentKind, QueryError, StoredDocument};
use parallax_model::EventTime;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use super::{
    ActionManager,
    document::{ActionDocument, MAX_INCIDENTS, VersionedAction},
};

/// Time between two attempts to read the actions of the previous process.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);

impl ActionManager {
    /// Reads the actions in the store as soon as it is available; actions taken since then take precedence.
    pub(super) async fn load_from_store(&self, cancelled: &CancellationToken) {
        loop {
            let result = tokio::select! {
                () = cancelled.cancelled() => return,
                result = self.store.query(|store| {
                    Ok((store.documents(DocumentKind::IncidentActions, MAX_INCIDENTS)?, store.documents(DocumentKind::MaintenanceWindow, MAX_INCIDENTS)?))
                }) => result,
            };
            match result {
                Ok((handled, windows)) => {
                    let mut kept = ActionDocument {
                        incidents: parse_documents(handled).collect(),
                        windows: parse_documents(windows).collect(),
                    };
                    kept.incidents
                        .values_mut()
                        .for_each(|entry| entry.value.persisted = true);
                    kept.windows
                        .values_mut()
                        .for_each(|entry| entry.value.persisted = true);
                    drop(self.merge(kept));
                    return;
                }
                Err(QueryError::NotConfigured) => return,
                Err(QueryError::Unavailable(_) | QueryError::Busy) => {}
            }
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = tokio::time::sleep(STORE_RETRY_DELAY) => {}
            }
        }
    }

    /// Merges newer entries from elsewhere. Returns the result and the number of the last change in it.
    pub(super) fn merge(&self, other: ActionDocument) -> (ActionDocument, u64) {
        let mut inner = self.inner.lock();
        inner.document.merge(other);
        inner.document.prune(self.clock.now());
        (inner.document.clone(), inner.change_number)
    }

    /// Marks these versions as persisted.
    pub(super) fn mark_persisted(&self, sheet: &ActionDocument) {
        let mut inner = self.inner.lock();
        for (id, entry) in &mut inner.document.incidents {
            let same = sheet
                .incidents
                .get(id)
                .is_some_and(|current| current.changed_at == entry.changed_at);
            entry.value.persisted |= same;
        }
        for (id, entry) in &mut inner.document.windows {
            let same = sheet
                .windows
                .get(id)
                .is_some_and(|current| current.changed_at == entry.changed_at);
            entry.value.persisted |= same;
        }
    }

    /// Waits until the actions of the previous leader are known, for a bounded time.
    pub(super) async fn wait_until_ready(&self) {
        if let Some(config_map) = &self.config_map {
            config_map.wait_until_read().await;
        }
    }

    /// Persists a change in the store and the `ConfigMap`. Returns whether it survives a restart.
    pub(super) async fn persist(
        &self,
        sort: DocumentKind,
        id: &str,
        (at, number): (EventTime, u64),
        value: &impl Serialize,
    ) -> bool {
        let Ok(value) = serde_json::to_value(value) else {
            return false;
        };
        let document = StoredDocument {
            kind: sort,
            id: id.to_owned(),
            changed_at: at,
            value,
        };
        let shared = async {
            match &self.config_map {
                Some(config_map) => config_map.persisted(number).await,
                None => false,
            }
        };
        let (stored, shared) = tokio::join!(
            self.store.query(move |store| store.put_document(&document)),
            shared
        );
        if let Err(error) = &stored
            && !matches!(error, QueryError::NotConfigured)
        {
            tracing::warn!(%error, id, "cannot write an action on an incident to the store");
        }
        // With a `ConfigMap`, the other replicas read only that.
        match self.config_map {
            Some(_) => shared,
            None => stored.is_ok(),
        }
    }
}

/// Parses documents, and skips those of another version that this one cannot read.
fn parse_documents<T: DeserializeOwned>(
    documents: Vec<StoredDocument>,
) -> impl Iterator<Item = (String, VersionedAction<T>)> {
    documents.into_iter().filter_map(|document| {
        let entry = VersionedAction {
            changed_at: document.changed_at,
            value: serde_json::from_value(document.value).ok()?,
        };
        Some((document.id, entry))
    })
}
