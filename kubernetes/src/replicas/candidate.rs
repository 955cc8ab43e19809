//! The election logic of one replica, as a value without clock or I/O.
//!
//! Replicas never compare wall clocks. A candidate waits for the whole Lease duration on its own monotonic
//! clock, counted from when it *first saw* the current record. A holder counts from *before it sent* its last
//! write, and stops leading well before the duration has elapsed. As long as the rates of two monotonic
//! clocks differ by less than the ratio of the two spans, there are never two leaders.

use std::time::Duration;

/// Durations of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTiming {
    /// How long other replicas wait after the last change of the Lease before they take it.
    pub(crate) duration: Duration,
    /// How long a holder leads after its last renewal.
    pub(crate) deadline: Duration,
    /// Interval between two reads of the Lease.
    pub(crate) retry: Duration,
}

impl LeaseTiming {
    /// Typical proportions: a holder renews five times per duration and stops leading after seven tenths of
    /// it. The rates of two clocks may therefore differ by a sixth.
    pub(crate) fn from_duration(duration: Duration) -> Self {
        Self {
            duration,
            deadline: duration * 7 / 10,
            retry: duration / 5,
        }
    }
}

/// The content of the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// The holder; `None` after an orderly shutdown.
    pub(crate) holder: Option<String>,
    /// How long the holder requests other replicas to wait.
    pub(crate) duration: Duration,
    /// When the Lease was last acquired, in seconds; increases with each holder.
    pub(crate) epoch: u64,
    /// Resource version; changes with every write.
    pub(crate) version: String,
}

/// The next action on the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseAction {
    /// The Lease does not exist: create it with this replica as the holder.
    Create {
        /// The new epoch.
        epoch: u64,
    },
    /// Take the Lease over from its last holder.
    Acquire {
        /// The new epoch.
        epoch: u64,
    },
    /// Renew the Lease that this replica holds.
    Renew {
        /// The current epoch.
        epoch: u64,
    },
    /// Another replica leads.
    Wait,
}

/// A replica that takes part in the election.
#[derive(Debug)]
pub(crate) struct LeaseCandidate {
    name: String,
    timing: LeaseTiming,
    leadership: Option<LeadershipTerm>,
    /// The version of the Lease as last seen (`None` if it did not exist), and since when on this replica's
    /// clock.
    last_seen: Option<(Option<String>, Duration)>,
    /// The highest epoch that was seen.
    epoch: u64,
}

/// This replica's leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeadershipTerm {
    pub(crate) epoch: u64,
    /// Its end on this replica's clock, unless renewed.
    pub(crate) until: Duration,
}

impl LeaseCandidate {
    pub(crate) const fn new(name: String, terms: LeaseTiming) -> Self {
        Self {
            name,
            timing: terms,
            leadership: None,
            last_seen: None,
            epoch: 0,
        }
    }

    /// This replica's leadership, if it leads.
    pub(crate) fn leadership(&self, now: Duration) -> Option<LeadershipTerm> {
        self.leadership.filter(|term| now < term.until)
    }

    /// Decides what to do with the Lease as just read. `wall` is the wall clock in seconds; it only names
    /// epochs.
    pub(crate) fn decide(&mut self, now: Duration, wall: u64, read: Option<&LeaseRecord>) -> LeaseAction {
        self.leadership = self.leadership(now);
        let version = read.map(|record| record.version.clone());
        let since = match &self.last_seen {
            Some((seen, since)) if *seen == version => *since,
            // A Lease that never existed is free at once; a deleted one may have a holder that does not know
            // that yet.
            None if version.is_none() => Duration::ZERO,
            _ => now,
        };
        self.last_seen = Some((version, since));
        self.epoch = self.epoch.max(read.map_or(0, |record| record.epoch));
        let epoch = wall.max(self.epoch + 1);
        let waited = now.saturating_sub(since);
        let Some(record) = read else {
            let free = self.leadership.is_some() || since == Duration::ZERO;
            return if free || waited >= self.timing.duration {
                LeaseAction::Create { epoch }
            } else {
                LeaseAction::Wait
            };
        };
        match record.holder.as_deref() {
            Some(holder) if holder == self.name => match self.leadership {
                Some(term) if term.epoch == record.epoch => LeaseAction::Renew { epoch: term.epoch },
                // Held by a former incarnation of this replica, or by a write of its own whose response was
                // lost.
                _ => LeaseAction::Acquire { epoch },
            },
            None | Some("") => LeaseAction::Acquire { epoch },
            Some(_) => {
                self.leadership = None;
                if waited >= self.timing.duration.max(record.duration) {
                    LeaseAction::Acquire { epoch }
                } else {
                    LeaseAction::Wait
                }
            }
        }
    }

    /// Records a successful write that was started at `begun` on this replica's clock.
    pub(crate) fn record_write(&mut self, begun: Duration, epoch: u64, version: String) {
        self.last_seen = Some((Some(version), begun));
        self.epoch = self.epoch.max(epoch);
        self.leadership = Some(LeadershipTerm {
            epoch,
            until: begun + self.timing.deadline,
        });
    }

    /// Gives up leadership, whatever the Lease says.
    pub(crate) const fn resign(&mut self) {
        self.leadership = None;
    }
}

#[cfg(test)]
#[path = "candidate_tests.rs"]
mod tests;
