//! Limits the concurrent reviews of tokens by the API server. Known tokens have slots of their own, so that a flood of
//! forged tokens delays only strangers.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Maximum number of concurrent reviews of known tokens, and of those of strangers; further ones wait instead of loading
/// the API server.
const MAX_CONCURRENT_REVIEWS: usize = 16;

/// The slots.
#[derive(Debug)]
pub(crate) struct ReviewSlots {
    known: Semaphore,
    strangers: Semaphore,
    /// Pods of the mesh whose unknown tokens are in review.
    pods: Mutex<BTreeSet<String>>,
}

/// Who shows a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenOwner<'a> {
    /// The API server has accepted this token before.
    Known,
    /// The token says that it belongs to this running Pod of the mesh (`metadata.uid`). Only one such token per Pod
    /// counts as known at a time, because the UID is not a secret.
    Pod(&'a str),
    /// Anyone.
    Stranger,
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub(crate) struct ReviewSlot<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    _pod: Option<PodInReview<'a>>,
}

#[derive(Debug)]
struct PodInReview<'a> {
    pods: &'a Mutex<BTreeSet<String>>,
    uid: String,
}

impl ReviewSlots {
    pub(crate) fn new() -> Self {
        Self {
            known: Semaphore::new(MAX_CONCURRENT_REVIEWS),
            strangers: Semaphore::new(MAX_CONCURRENT_REVIEWS),
            pods: Mutex::default(),
        }
    }

    /// Waits for a slot.
    pub(crate) async fn acquire(&self, owner: TokenOwner<'_>) -> ReviewSlot<'_> {
        let pod = match owner {
            TokenOwner::Pod(uid) => self.enter(uid),
            TokenOwner::Known | TokenOwner::Stranger => None,
        };
        let slots = if owner == TokenOwner::Known || pod.is_some() {
            &self.known
        } else {
            &self.strangers
        };
        ReviewSlot {
            // The semaphores are never closed.
            _permit: slots.acquire().await.ok(),
            _pod: pod,
        }
    }

    fn enter(&self, uid: &str) -> Option<PodInReview<'_>> {
        let is_first = self.pods.lock().insert(uid.to_owned());
        is_first.then(|| PodInReview {
            pods: &self.pods,
            uid: uid.to_owned(),
        })
    }
}

impl Drop for PodInReview<'_> {
    fn drop(&mut self) {
        self.pods.lock().remove(&self.uid);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn strangers_that_take_all_their_slots_do_not_delay_who_is_known() {
        let slots = ReviewSlots::new();
        let mut strangers = Vec::new();
        for _ in 0..MAX_CONCURRENT_REVIEWS {
            strangers.push(slots.acquire(TokenOwner::Stranger).await);
        }
        assert!(slots.acquire(TokenOwner::Stranger).now_or_never().is_none());
        assert!(slots.acquire(TokenOwner::Known).now_or_never().is_some());
        assert!(slots.acquire(TokenOwner::Pod("uid-1")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn tokens_that_name_one_pod_take_one_slot_of_the_known() {
        let slots = ReviewSlots::new();
        let mut forged = Vec::new();
        for _ in 0..=MAX_CONCURRENT_REVIEWS {
            forged.push(slots.acquire(TokenOwner::Pod("uid-1")).await);
        }
        assert_eq!(slots.known.available_permits(), MAX_CONCURRENT_REVIEWS - 1);
        drop(forged);
        assert_eq!(slots.known.available_permits(), MAX_CONCURRENT_REVIEWS);
        assert!(slots.pods.lock().is_empty());
    }
}
