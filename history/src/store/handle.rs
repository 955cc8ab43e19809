//! Read access for API and page: queries that the store's thread answers.

use std::{sync::Arc, time::Duration};

use tokio::sync::{oneshot, watch};

use super::{
    HistoryStore,
    error::StoreError,
    state::{Status, StoreState},
    write_queue::WriteQueue,
};

/// Timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No store is configured.
    #[error("no store is configured, so only the history in memory is available; set `store` to keep more")]
    NotConfigured,
    /// The store does not work.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store is busy, or its disk is slow.
    #[error("the store is busy; retry later")]
    Busy,
}

/// Handle to query the store.
#[derive(Debug, Clone)]
pub struct StoreHandle {
    pub(super) queue: Option<Arc<WriteQueue>>,
    /// The state of the store.
    pub state: watch::Receiver<Arc<StoreState>>,
}

impl StoreHandle {
    /// A handle without a store.
    #[must_use]
    pub fn off() -> Self {
        // The value stays readable after the sender is dropped.
        let (_, state) = watch::channel(Arc::new(StoreState::off()));
        Self { queue: None, state }
    }

    /// The current state.
    #[must_use]
    pub fn current_state(&self) -> Arc<StoreState> {
        self.state.borrow().clone()
    }

    /// Runs a query on the store's thread, after the writes before it.
    pub async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn HistoryStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let waiting = self.queue.as_ref().ok_or(QueryError::NotConfigured)?;
        let (sender, receiver) = oneshot::channel();
        let queued = waiting.push_query(Box::new(move |store| {
            let answer = question(store);
            let error = answer.as_ref().err().cloned();
            // The caller may have timed out.
            let _ = sender.send(answer);
            error
        }));
        if !queued {
            return Err(QueryError::Busy);
        }
        match tokio::time::timeout(QUERY_TIMEOUT, receiver).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(QueryError::Unavailable(error.message)),
            Ok(Err(_)) => Err(QueryError::Unavailable(match &self.state.borrow().status {
                Status::Down { reason, .. } => reason.clone(),
                Status::Off | Status::Opening | Status::Up => "it is being opened".to_owned(),
            })),
            Err(_) => Err(QueryError::Busy),
        }
    }
}
