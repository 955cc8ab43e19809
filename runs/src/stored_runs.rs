//! Writes ended runs to the store and reads them back.

use parallax_api::runs::PreflightRun;
use parallax_history::store::{DocumentKind, QueryError, StoredDocument};

use super::RunManager;

/// The maximum number of vantages per run in the store; failing ones are kept first.
const MAX_STORED_VANTAGES: usize = 200;

impl RunManager {
    /// Writes an ended run to the store, with a limited number of vantages.
    pub(super) async fn store_run(&self, mut run: PreflightRun) {
        run.vantages.truncate(MAX_STORED_VANTAGES);
        let Ok(value) = serde_json::to_value(&run) else {
            return;
        };
        let document = StoredDocument {
            kind: DocumentKind::Run,
            id: run.id.to_string(),
            changed_at: self.clock.now(),
            value,
        };
        match self.store.query(move |store| store.put_document(&document)).await {
            Ok(()) | Err(QueryError::NotConfigured) => {}
            Err(error) => {
                tracing::warn!(run = %run.id, %error, "cannot write the run to the store; it is kept in memory only");
            }
        }
    }

    /// Returns one run from the store, as it was written.
    pub async fn stored_run(&self, id: &str) -> Option<serde_json::Value> {
        let id = id.to_owned();
        let kept = self
            .store
            .query(move |store| store.document(DocumentKind::Run, &id))
            .await;
        kept.ok().flatten().map(|document| document.value)
    }
}
