//! Decides what each Preflight needs next. Pure: objects and the time in, work items out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, api::DynamicObject};
use parallax_aggregator::crd::{objects::Key, preflights::PreflightStatus};
use tokio_util::sync::CancellationToken;

use super::attempt::AttemptResult;

/// Work to do.
#[derive(Debug)]
pub(super) enum WorkItem {
    /// Make the preflight; the token cancels it.
    Start(Key, Box<DynamicObject>, CancellationToken),
    /// Delete the object: its TTL has expired.
    Delete(Key),
}

/// A preflight in progress.
#[derive(Debug)]
struct ActivePreflight {
    version: ObjectVersion,
    stop: CancellationToken,
}

/// A preflight that is tried again.
#[derive(Debug)]
struct PendingRetry {
    version: ObjectVersion,
    due: Timestamp,
    /// The status that the last attempt wrote.
    status: Option<Box<PreflightStatus>>,
}

/// The identity and generation of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObjectVersion {
    uid: String,
    generation: i64,
}

impl ObjectVersion {
    fn of(object: &DynamicObject) -> Self {
        Self {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
        }
    }
}

/// The state between two calls. It includes written results, because the watch may not have returned them yet.
#[derive(Debug)]
pub(super) struct WorkQueue {
    max_concurrent: usize,
    stop: CancellationToken,
    active: BTreeMap<Key, ActivePreflight>,
    retries: BTreeMap<Key, PendingRetry>,
    /// Finished preflights.
    finished: BTreeMap<Key, ObjectVersion>,
    /// The UIDs of objects that were deleted.
    deleted_uids: BTreeSet<String>,
}

impl WorkQueue {
    /// Creates a queue for at most `most` preflights at once; none starts after `stop` is cancelled.
    pub(super) fn new(most: usize, stop: &CancellationToken) -> Self {
        Self {
            max_concurrent: most,
            stop: stop.clone(),
            active: BTreeMap::new(),
            retries: BTreeMap::new(),
            finished: BTreeMap::new(),
            deleted_uids: BTreeSet::new(),
        }
    }

    /// Returns the work to start now, and the time until more work is due without further events.
    pub(super) fn poll<'a>(
        &mut self,
        all: impl IntoIterator<Item = (&'a Key, &'a DynamicObject)>,
        now: Timestamp,
    ) -> (Vec<WorkItem>, Option<Duration>) {
        let mut all: Vec<(&Key, &DynamicObject)> = all.into_iter().collect();
        self.prune(&all);
        if self.stop.is_cancelled() {
            return (Vec::new(), None);
        }
        // Oldest first.
        all.sort_by_key(|(key, object)| (object.creation_timestamp().map(|time| time.0), *key));
        let mut steps = Vec::new();
        let mut next: Option<Timestamp> = None;
        let mut at = |time: Timestamp| next = Some(next.map_or(time, |next| next.min(time)));
        for (key, object) in all {
            let version = ObjectVersion::of(object);
            if let Some(under_way) = self.active.get(key) {
                if under_way.version != version || object.metadata.deletion_timestamp.is_some() {
                    under_way.stop.cancel();
                }
                continue;
            }
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if is_finished(object) {
                let due = ttl_expiry(object);
                if let Some(later) = due.filter(|due| *due > now) {
                    at(later);
                } else if due.is_some() && self.deleted_uids.insert(version.uid) {
                    steps.push(WorkItem::Delete(key.clone()));
                }
                continue;
            }
            if self.finished.get(key) == Some(&version) {
                continue;
            }
            match self.retries.get(key) {
                Some(retry) if retry.version == version && retry.due > now => at(retry.due),
                _ if self.active.len() < self.max_concurrent => {
                    let stop = self.stop.child_token();
                    let mut object = Box::new(object.clone());
                    let retry = self.retries.remove(key);
                    let written = retry
                        .filter(|retry| retry.version == version)
                        .and_then(|retry| retry.status);
                    if let Some(status) = written.and_then(|status| serde_json::to_value(status).ok()) {
                        object.data["status"] = status;
                    }
                    self.active.insert(
                        key.clone(),
                        ActivePreflight {
                            version,
                            stop: stop.clone(),
                        },
                    );
                    steps.push(WorkItem::Start(key.clone(), object, stop));
                }
                _ => {}
            }
        }
        let wake = next.map(|next| {
            let pause = now.duration_until(next).max(SignedDuration::from_millis(1));
            Duration::try_from(pause).unwrap_or(Duration::from_millis(1))
        });
        (steps, wake)
    }

    /// Takes the result of an attempt.
    pub(super) fn finish(&mut self, key: &Key, ended: AttemptResult, now: Timestamp) {
        let Some(under_way) = self.active.remove(key) else {
            return;
        };
        match ended {
            AttemptResult::Finished => drop(self.finished.insert(key.clone(), under_way.version)),
            AttemptResult::Retry(pause, status) => {
                let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
                let retry = PendingRetry {
                    version: under_way.version,
                    due: now.checked_add(pause).unwrap_or(Timestamp::MAX),
                    status,
                };
                self.retries.insert(key.clone(), retry);
            }
            AttemptResult::Stopped => {}
        }
    }

    /// Forgets objects that are gone, and stops their preflights.
    fn prune(&mut self, all: &[(&Key, &DynamicObject)]) {
        let keys: BTreeSet<&Key> = all.iter().map(|(key, _)| *key).collect();
        for (key, under_way) in &self.active {
            if !keys.contains(key) {
                under_way.stop.cancel();
            }
        }
        self.retries.retain(|key, _| keys.contains(key));
        self.finished.retain(|key, _| keys.contains(key));
        let uids: BTreeSet<&str> = all
            .iter()
            .filter_map(|(_, object)| object.metadata.uid.as_deref())
            .collect();
        self.deleted_uids.retain(|uid| uids.contains(uid.as_str()));
    }
}

/// Reports whether the current generation is finished.
fn is_finished(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    status["observedGeneration"].as_i64() == object.metadata.generation
        && status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
}

/// Returns the time at which the TTL expires.
fn ttl_expiry(object: &DynamicObject) -> Option<Timestamp> {
    let ttl = object.data["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    let completed: Timestamp = object.data["status"]["completionTime"].as_str()?.parse().ok()?;
    completed.checked_add(SignedDuration::from_secs(ttl)).ok()
}

#[cfg(test)]
#[path = "work_queue_tests.rs"]
mod tests;
