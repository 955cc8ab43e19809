//! A value that one task owns and others read. The owner publishes it on changes and computes it on a
//! reader's request.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// Maximum age of a snapshot that satisfies a request without being computed again.
const MAX_AGE: Duration = Duration::from_millis(500);

/// Maximum time that a reader waits for the owner. After it, the reader gets the latest snapshot, whose
/// timestamp shows its age.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The owner's handle.
#[derive(Debug)]
pub struct SnapshotWriter<T> {
    latest: watch::Sender<Arc<T>>,
    requests: Arc<Notify>,
    published: Instant,
}

/// A reader's handle. Clones read the same snapshots.
#[derive(Debug)]
pub struct SnapshotReader<T> {
    latest: watch::Receiver<Arc<T>>,
    requests: Arc<Notify>,
}

impl<T> Clone for SnapshotReader<T> {
    fn clone(&self) -> Self {
        Self {
            latest: self.latest.clone(),
            requests: Arc::clone(&self.requests),
        }
    }
}

/// Creates both handles, with an initial snapshot.
pub fn snapshot_channel<T>(first: T) -> (SnapshotWriter<T>, SnapshotReader<T>) {
    let (sender, latest) = watch::channel(Arc::new(first));
    let requests = Arc::new(Notify::new());
    let writer = SnapshotWriter {
        latest: sender,
        requests: Arc::clone(&requests),
        published: Instant::now(),
    };
    (writer, SnapshotReader { latest, requests })
}

impl<T> SnapshotWriter<T> {
    /// Waits until a reader requests a current snapshot.
    pub async fn wait_for_request(&self) {
        self.requests.notified().await;
    }

    /// Whether the latest snapshot is too old to satisfy a request.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.published.elapsed() >= MAX_AGE
    }

    /// Publishes a new snapshot.
    pub fn publish(&mut self, value: Arc<T>) {
        self.published = Instant::now();
        self.latest.send_replace(value);
    }

    /// Satisfies pending requests with the latest snapshot.
    pub fn answer_with_latest(&self) {
        self.latest.send_modify(|_| {});
    }
}

impl<T> SnapshotReader<T> {
    /// Returns the latest published snapshot, whatever its age.
    #[must_use]
    pub fn latest(&self) -> Arc<T> {
        self.latest.borrow().clone()
    }

    /// Returns a receiver of all published snapshots.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<T>> {
        self.latest.clone()
    }

    /// Whether the owner was dropped, so that no further snapshot follows.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.latest.has_changed().is_err()
    }

    /// Requests a current snapshot. Returns the latest one if the owner does not respond in time or was
    /// dropped.
    pub async fn current(&self) -> Arc<T> {
        let mut latest = self.latest.clone();
        latest.mark_unchanged();
        self.requests.notify_one();
        // On a timeout or if the owner was dropped, the latest snapshot stays in place.
        let _ = timeout(REQUEST_TIMEOUT, latest.changed()).await;
        latest.borrow().clone()
    }

    /// Waits for a snapshot that satisfies the condition. Returns the latest one if the owner is dropped
    /// first.
    pub async fn wait_for(&self, mut condition: impl FnMut(&T) -> bool) -> Arc<T> {
        let mut tick = interval(MAX_AGE);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut latest = self.latest.clone();
        loop {
            {
                let snapshot = latest.borrow_and_update().clone();
                if condition(&snapshot) {
                    return snapshot;
                }
            }
            tokio::select! {
                changed = latest.changed() => if changed.is_err() {
                    return latest.borrow().clone();
                },
                _ = tick.tick() => self.requests.notify_one(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_gets_a_new_snapshot_once_the_last_one_is_old_and_the_last_one_before() {
        let (mut writer, reader) = snapshot_channel(0);
        let owner = tokio::spawn(async move {
            for made in 1.. {
                writer.wait_for_request().await;
                if writer.is_stale() {
                    writer.publish(Arc::new(made));
                } else {
                    writer.answer_with_latest();
                }
            }
        });
        assert_eq!(*reader.current().await, 0);
        tokio::time::sleep(MAX_AGE).await;
        let new = *reader.current().await;
        assert!(new > 0);
        assert_eq!(*reader.latest(), new);
        assert!(*reader.wait_for(|made| *made > new).await > new);
        owner.abort();
        assert!(owner.await.unwrap_err().is_cancelled());
        assert!(reader.is_closed());
        assert!(*reader.current().await > new, "the last one outlives its owner");
    }
}
