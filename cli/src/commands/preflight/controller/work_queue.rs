//! Decides what each Preflight needs next. Pure: objects and the time in, work items out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt as _, api::DynamicObject};
use parallax_aggregator::crd::objects::Key;
use tokio_util::sync::CancellationToken;

use super::attempt::AttemptResult;

/// Work to do.
#[derive(Debug)]
pub(super) enum WorkItem {
    /// Make the preflight; the token cancels it.
    Begin(Key, Box<DynamicObject>, CancellationToken),
    /// Delete the object: its TTL has expired.
    Remove(Key),
}

/// A preflight in progress.
#[derive(Debug)]
struct UnderWay {
    of: ObjectVersion,
    stop: CancellationToken,
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
    most: usize,
    stop: CancellationToken,
    under_way: BTreeMap<Key, UnderWay>,
    /// Retries, with their time.
    waits: BTreeMap<Key, (ObjectVersion, Timestamp)>,
    /// Finished preflights.
    over: BTreeMap<Key, ObjectVersion>,
    /// The UIDs of objects that were deleted.
    removed: BTreeSet<String>,
}

impl WorkQueue {
    /// Creates a queue for at most `most` preflights at once; none starts after `stop` is cancelled.
    pub(super) fn new(most: usize, stop: &CancellationToken) -> Self {
        Self {
            most,
            stop: stop.clone(),
            under_way: BTreeMap::new(),
            waits: BTreeMap::new(),
            over: BTreeMap::new(),
            removed: BTreeSet::new(),
        }
    }

    /// Returns the work to start now, and the time until more work is due without further events.
    pub(super) fn turn<'a>(
        &mut self,
        all: impl IntoIterator<Item = (&'a Key, &'a DynamicObject)>,
        now: Timestamp,
    ) -> (Vec<WorkItem>, Option<Duration>) {
        let mut all: Vec<(&Key, &DynamicObject)> = all.into_iter().collect();
        self.forget(&all);
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
            if let Some(under_way) = self.under_way.get(key) {
                if under_way.of != version || object.metadata.deletion_timestamp.is_some() {
                    under_way.stop.cancel();
                }
                continue;
            }
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if is_over(object) {
                let due = due(object);
                if let Some(later) = due.filter(|due| *due > now) {
                    at(later);
                } else if due.is_some() && self.removed.insert(version.uid) {
                    steps.push(WorkItem::Remove(key.clone()));
                }
                continue;
            }
            if self.over.get(key) == Some(&version) {
                continue;
            }
            match self.waits.get(key) {
                Some((of, until)) if *of == version && *until > now => at(*until),
                _ if self.under_way.len() < self.most => {
                    let stop = self.stop.child_token();
                    self.waits.remove(key);
                    self.under_way.insert(
                        key.clone(),
                        UnderWay {
                            of: version,
                            stop: stop.clone(),
                        },
                    );
                    steps.push(WorkItem::Begin(key.clone(), Box::new(object.clone()), stop));
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
    pub(super) fn ended(&mut self, key: &Key, ended: AttemptResult, now: Timestamp) {
        let Some(under_way) = self.under_way.remove(key) else {
            return;
        };
        match ended {
            AttemptResult::Over => drop(self.over.insert(key.clone(), under_way.of)),
            AttemptResult::Again(pause) => {
                let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
                let until = now.checked_add(pause).unwrap_or(Timestamp::MAX);
                self.waits.insert(key.clone(), (under_way.of, until));
            }
            AttemptResult::Stopped => {}
        }
    }

    /// Forgets objects that are gone, and stops their preflights.
    fn forget(&mut self, all: &[(&Key, &DynamicObject)]) {
        let keys: BTreeSet<&Key> = all.iter().map(|(key, _)| *key).collect();
        for (key, under_way) in &self.under_way {
            if !keys.contains(key) {
                under_way.stop.cancel();
            }
        }
        self.waits.retain(|key, _| keys.contains(key));
        self.over.retain(|key, _| keys.contains(key));
        let uids: BTreeSet<&str> = all
            .iter()
            .filter_map(|(_, object)| object.metadata.uid.as_deref())
            .collect();
        self.removed.retain(|uid| uids.contains(uid.as_str()));
    }
}

/// Reports whether the current generation is finished.
fn is_over(object: &DynamicObject) -> bool {
    let status = &object.data["status"];
    status["observedGeneration"].as_i64() == object.metadata.generation
        && status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
}

/// Returns the time at which the TTL expires.
fn due(object: &DynamicObject) -> Option<Timestamp> {
    let ttl = object.data["spec"]["ttlSecondsAfterFinished"].as_i64()?;
    let completed: Timestamp = object.data["status"]["completionTime"].as_str()?.parse().ok()?;
    completed.checked_add(SignedDuration::from_secs(ttl)).ok()
}

#[cfg(test)]
#[path = "work_queue_tests.rs"]
mod tests;
