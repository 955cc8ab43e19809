//! A value that one task owns and others read: published when it changes, and computed when a reader asks.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval, timeout},
};

/// A snapshot younger than this is current: a request for it computes nothing.
const CURRENT: Duration = Duration::from_millis(500);

/// Longest wait for the owner. A reader gets the last snapshot afterwards, whose own time shows its age.
const PATIENCE: Duration = Duration::from_secs(2);

/// The owner's end.
#[derive(Debug)]
pub struct SnapshotWriter<T> {
    latest: watch::Sender<Arc<T>>,
    requests: Arc<Notify>,
    published: Instant,
}

/// A reader's end. Clones read the same snapshots.
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

/// Both ends, with the first snapshot.
pub fn snapshot<T>(first: T) -> (SnapshotWriter<T>, SnapshotReader<T>) {
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
    /// Waits until a reader asks for a current snapshot.
    pub async fn requested(&self) {
        self.requests.notified().await;
    }

    /// Whether the last snapshot is too old to answer a request with.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.published.elapsed() >= CURRENT
    }

    /// Publishes a new snapshot.
    pub fn publish(&mut self, value: Arc<T>) {
        self.published = Instant::now();
        self.latest.send_replace(value);
    }

    /// Answers requests with the last snapshot.
    pub fn confirm(&self) {
        self.latest.send_modify(|_| {});
    }
}

impl<T> SnapshotReader<T> {
    /// The last snapshot that was published, whatever its age.
    #[must_use]
    pub fn latest(&self) -> Arc<T> {
        self.latest.borrow().clone()
    }

    /// Each snapshot as it is published.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<T>> {
        self.latest.clone()
    }

    /// Whether the owner has ended, so that no snapshot follows.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.latest.has_changed().is_err()
    }

    /// A snapshot of now. The last one if the owner does not answer, because it is busy or has ended.
    pub async fn current(&self) -> Arc<T> {
        let mut latest = self.latest.clone();
        latest.mark_unchanged();
        self.requests.notify_one();
        // An owner that has ended or does not answer leaves the last snapshot.
        let _ = timeout(PATIENCE, latest.changed()).await;
        latest.borrow().clone()
    }

    /// Waits for a snapshot that satisfies the condition; the last one if the owner ends before.
    pub async fn wait_for(&self, mut condition: impl FnMut(&T) -> bool) -> Arc<T> {
        let mut tick = interval(CURRENT);
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
        let (mut writer, reader) = snapshot(0);
        let owner = tokio::spawn(async move {
            for made in 1.. {
                writer.requested().await;
                if writer.is_stale() {
                    writer.publish(Arc::new(made));
                } else {
                    writer.confirm();
                }
            }
        });
        assert_eq!(*reader.current().await, 0);
        tokio::time::sleep(CURRENT).await;
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
