//! The asking end: questions of the API and the page, answered by the one thread that holds the store.

use std::{sync::Arc, time::Duration};

use tokio::sync::{oneshot, watch};

use super::{
    HistoryStore,
    error::StoreError,
    state::{Status, StoreState},
    write_queue::WriteQueue,
};

/// A store that takes longer than this to answer is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// There is no store.
    #[error("no store is configured, so only what is in memory is known; set `store` to keep more")]
    Off,
    /// There is one and it does not work.
    #[error("the store does not answer at present: {0}")]
    Down(String),
    /// It is busy, or its disk is slow.
    #[error("the store is slow at present; ask again later")]
    Slow,
}

/// Access for those who ask.
#[derive(Debug, Clone)]
pub struct StoreHandle {
    pub(super) waiting: Option<Arc<WriteQueue>>,
    /// The state of the store.
    pub state: watch::Receiver<Arc<StoreState>>,
}

impl StoreHandle {
    /// Without a store.
    #[must_use]
    pub fn off() -> Self {
        // The last value stays readable after the sender is gone.
        let (_, state) = watch::channel(Arc::new(StoreState::off()));
        Self { waiting: None, state }
    }

    /// How it is.
    #[must_use]
    pub fn now(&self) -> Arc<StoreState> {
        self.state.borrow().clone()
    }

    /// Asks; waits its turn behind what is being written.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn HistoryStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let waiting = self.waiting.as_ref().ok_or(QueryError::Off)?;
        let (tell, told) = oneshot::channel();
        let asked = waiting.ask(Box::new(move |store| {
            let answer = question(store);
            let trouble = answer.as_ref().err().cloned();
            // Whoever asked may have gone.
            let _ = tell.send(answer);
            trouble
        }));
        if !asked {
            return Err(QueryError::Slow);
        }
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(trouble))) => Err(QueryError::Down(trouble.message)),
            Ok(Err(_)) => Err(QueryError::Down(match &self.state.borrow().status {
                Status::Down { reason, .. } => reason.clone(),
                Status::Off | Status::Opening | Status::Up => "it is being opened".to_owned(),
            })),
            Err(_) => Err(QueryError::Slow),
        }
    }
}
