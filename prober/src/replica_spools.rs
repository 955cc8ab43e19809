//! One spool per aggregator, so that an aggregator that does not accept reports does not affect the others. Pure.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{EventTime, Incarnation, ReportSeq, Resend};

use crate::{
    recent_observations::RecentObservations,
    replica_key::ReplicaKey,
    result::ProbeResult,
    spool::{ObservationSpool, SpooledObservation},
};

/// All spools. An observation has the same sequence number for every aggregator and is serialized once.
#[derive(Debug)]
pub(crate) struct ReplicaSpools {
    capacity: usize,
    next: ReportSeq,
    by_replica: BTreeMap<ReplicaKey, ObservationSpool>,
    /// Recent observations, which a newly started aggregator may request.
    history: RecentObservations,
    /// The incarnation of each aggregator for which they were queued.
    resent_for: BTreeMap<ReplicaKey, Incarnation>,
    /// Observations that could not be serialized.
    serialize_failures: u64,
}

impl ReplicaSpools {
    /// Creates one spool, for an aggregator that is reached by name.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            next: ReportSeq(0),
            by_replica: BTreeMap::from([(ReplicaKey::default(), ObservationSpool::new(capacity))]),
            history: RecentObservations::default(),
            resent_for: BTreeMap::new(),
            serialize_failures: 0,
        }
    }

    /// Assigns a sequence number to a result and adds it to all spools.
    pub(crate) fn push(&mut self, result: ProbeResult) {
        let seq = self.next;
        self.next = ReportSeq(seq.0 + 1);
        // Plain data with string keys always serializes.
        let Ok(line) = SpooledObservation::from_observation(&result.into_observation(seq)) else {
            self.serialize_failures += 1;
            return;
        };
        for spool in self.by_replica.values_mut() {
            spool.push(line.clone());
        }
        self.history.push(line);
    }

    /// Queues the delivered observations that a newly started aggregator requests, once per incarnation.
    pub(crate) fn resend(&mut self, key: &ReplicaKey, wanted: &Resend) {
        let Some(spool) = self.by_replica.get_mut(key) else {
            return;
        };
        if self.resent_for.get(key) == Some(&wanted.incarnation) {
            return;
        }
        self.resent_for.insert(key.clone(), wanted.incarnation.clone());
        spool.resend(self.history.since(wanted.since));
    }

    /// The incarnation of an aggregator for which the recent observations were queued.
    pub(crate) fn resent_for(&self, key: &ReplicaKey) -> Option<&Incarnation> {
        self.resent_for.get(key)
    }

    /// The start of the oldest observation that can be resent.
    pub(crate) fn earliest_kept(&self) -> Option<EventTime> {
        self.history.earliest()
    }

    /// Sets the current aggregators. A new one inherits the waiting observations of those that are gone, because a
    /// replaced aggregator has a new address. If none is gone, it starts with an empty spool.
    pub(crate) fn set_replicas(&mut self, keys: &BTreeSet<ReplicaKey>) {
        let gone = self.by_replica.extract_if(.., |key, _| !keys.contains(key));
        self.resent_for.retain(|key, _| keys.contains(key));
        let left = gone.map(|(_, spool)| spool).reduce(ObservationSpool::merge);
        for key in keys {
            if !self.by_replica.contains_key(key) {
                let spool = left
                    .clone()
                    .unwrap_or_else(|| ObservationSpool::new(self.capacity));
                self.by_replica.insert(key.clone(), spool);
            }
        }
    }

    pub(crate) fn get(&self, key: &ReplicaKey) -> Option<&ObservationSpool> {
        self.by_replica.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &ReplicaKey) -> Option<&mut ObservationSpool> {
        self.by_replica.get_mut(key)
    }

    /// Whether an urgent observation is waiting in any spool.
    pub(crate) fn urgent(&self) -> bool {
        self.by_replica.values().any(ObservationSpool::urgent)
    }

    /// The number of waiting observations per aggregator.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&ReplicaKey, usize)> {
        self.by_replica.iter().map(|(key, spool)| (key, spool.len()))
    }

    /// Number of observations dropped since the start, in the spool that dropped most.
    pub(crate) fn dropped(&self) -> u64 {
        let most = self
            .by_replica
            .values()
            .map(ObservationSpool::dropped)
            .max()
            .unwrap_or(0);
        most + self.serialize_failures
    }
}

#[cfg(test)]
mod tests {
    use parallax_model::{Assignment, EventTime, OwnFault};

    use super::*;

    fn result() -> ProbeResult {
        let assignment: Assignment = serde_json::from_value(serde_json::json!({
            "id": "a", "target": "tcp://10.0.0.1:80", "channel": "vip",
            "probe": {"kind": "tcp", "host": "10.0.0.1", "port": 80},
            "dial": "resolve", "interval_us": 1, "timeout_us": 1,
        }))
        .unwrap();
        ProbeResult::not_made(&assignment, EventTime(1), OwnFault::Late)
    }

    fn key(n: u8) -> ReplicaKey {
        ReplicaKey::at(0, ([127, 0, 0, n], 8443).into())
    }

    fn keys(all: &[u8]) -> BTreeSet<ReplicaKey> {
        all.iter().map(|n| key(*n)).collect()
    }

    fn numbers(spools: &mut ReplicaSpools, n: u8) -> Vec<u64> {
        let spool = spools.get_mut(&key(n)).unwrap();
        spool.next_batch().iter().map(|line| line.seq.0).collect()
    }

    #[test]
    fn each_gets_all_under_the_same_numbers_and_what_one_took_still_waits_for_the_other() {
        let mut spools = ReplicaSpools::new(10);
        spools.set_replicas(&keys(&[1, 2]));
        spools.push(result());
        assert_eq!(numbers(&mut spools, 1), [0]);
        spools.get_mut(&key(1)).unwrap().acknowledge();
        spools.push(result());
        assert_eq!(numbers(&mut spools, 1), [1]);
        assert_eq!(spools.get(&key(2)).unwrap().len(), 2);
    }

    #[test]
    fn one_that_is_down_loses_its_own_oldest_only() {
        let mut spools = ReplicaSpools::new(2);
        spools.set_replicas(&keys(&[1, 2]));
        for _ in 0..5 {
            spools.push(result());
            spools.get_mut(&key(1)).unwrap().next_batch();
            spools.get_mut(&key(1)).unwrap().acknowledge();
        }
        assert_eq!(
            (
                spools.get(&key(1)).unwrap().dropped(),
                spools.get(&key(1)).unwrap().len()
            ),
            (0, 0)
        );
        assert_eq!(
            (
                spools.get(&key(2)).unwrap().dropped(),
                spools.get(&key(2)).unwrap().len()
            ),
            (3, 2)
        );
        assert_eq!(spools.dropped(), 3);
    }

    #[test]
    fn one_in_the_place_of_another_gets_what_waited_for_it_and_an_additional_one_begins_now() {
        let mut spools = ReplicaSpools::new(10);
        spools.push(result());
        spools.set_replicas(&keys(&[1]));
        assert_eq!(
            numbers(&mut spools, 1),
            [0],
            "it waited while no aggregator was known"
        );
        spools.set_replicas(&keys(&[1, 2]));
        assert_eq!(numbers(&mut spools, 2), [] as [u64; 0]);
        spools.push(result());
        spools.set_replicas(&keys(&[2, 3]));
        assert_eq!(
            spools.get(&key(3)).unwrap().len(),
            2,
            "what the first had not accepted"
        );
        assert!(spools.get(&key(1)).is_none());
    }

    #[test]
    fn one_that_is_new_gets_once_what_was_delivered_before_and_nothing_twice() {
        let mut spools = ReplicaSpools::new(10);
        spools.set_replicas(&keys(&[1, 2]));
        for _ in 0..3 {
            spools.push(result());
        }
        for n in [1, 2] {
            assert_eq!(numbers(&mut spools, n), [0, 1, 2]);
            spools.get_mut(&key(n)).unwrap().acknowledge();
        }
        let wanted = Resend {
            incarnation: "second".parse().unwrap(),
            since: EventTime(0),
        };
        spools.push(result());
        for _ in 0..2 {
            spools.resend(&key(1), &wanted);
        }
        assert_eq!(spools.resent_for(&key(1)), Some(&wanted.incarnation));
        assert_eq!(numbers(&mut spools, 1), [0, 1, 2]);
        spools.get_mut(&key(1)).unwrap().acknowledge();
        spools.resend(&key(1), &wanted);
        assert_eq!(numbers(&mut spools, 1), [3], "then what is new");
        assert_eq!(
            numbers(&mut spools, 2),
            [3],
            "the other aggregator gets no resend"
        );
        assert_eq!(spools.dropped(), 0);
    }

    #[test]
    fn what_waited_for_two_that_are_gone_waits_once_for_each_that_is_new() {
        let mut spools = ReplicaSpools::new(10);
        spools.set_replicas(&keys(&[1, 2]));
        for _ in 0..3 {
            spools.push(result());
        }
        // The first aggregator acknowledges its report, the second does not.
        for n in [1, 2] {
            spools.get_mut(&key(n)).unwrap().next_batch();
        }
        spools.get_mut(&key(1)).unwrap().acknowledge();
        spools.push(result());
        spools.set_replicas(&keys(&[3, 4]));
        for n in [3, 4] {
            assert_eq!(numbers(&mut spools, n), [0, 1, 2, 3]);
        }
    }
}
