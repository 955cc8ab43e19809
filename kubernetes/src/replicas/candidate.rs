//! Who leads, as one replica sees it. A value without clock or I/O.
//!
//! Nobody compares wall clocks. A candidate waits for the Lease's whole duration on its own monotonic clock, counted from
//! when it *first saw* the record as it is; a holder counts from *before it sent* its last write, and stops leading well
//! before a duration is over. As long as two monotonic clocks differ in speed by less than the ratio of the two spans,
//! there are never two leaders.

use std::time::Duration;

/// The spans of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseTiming {
    /// What others wait after the last change of the Lease before they take it.
    pub(crate) duration: Duration,
    /// How long after its last renewal a holder leads.
    pub(crate) deadline: Duration,
    /// Time between two looks.
    pub(crate) retry: Duration,
}

impl LeaseTiming {
    /// The usual proportions: a holder renews five times in a duration, and gives up when seven tenths are over, so that
    /// clocks may differ in speed by a sixth.
    pub(crate) fn of(duration: Duration) -> Self {
        Self {
            duration,
            deadline: duration * 7 / 10,
            retry: duration / 5,
        }
    }
}

/// What the Lease says, as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseRecord {
    /// Who holds it; nobody after an orderly stop.
    pub(crate) holder: Option<String>,
    /// How long its holder asks the others to wait.
    pub(crate) duration: Duration,
    /// When it was acquired last, in seconds: grows with each holder.
    pub(crate) epoch: u64,
    /// Changes with every write.
    pub(crate) version: String,
}

/// What to do about the Lease now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseAction {
    /// It is not there: make it, held by us.
    Create {
        /// The epoch that begins.
        epoch: u64,
    },
    /// Take it over from whoever held it last.
    Take {
        /// The epoch that begins.
        epoch: u64,
    },
    /// Renew our own.
    Renew {
        /// The epoch that goes on.
        epoch: u64,
    },
    /// Somebody else leads.
    Wait,
}

/// One replica that would lead.
#[derive(Debug)]
pub(crate) struct LeaseCandidate {
    name: String,
    terms: LeaseTiming,
    term: Option<LeadershipTerm>,
    /// The Lease as last seen, or that it is not there, and since when on our clock.
    seen: Option<(Option<String>, Duration)>,
    /// The latest epoch that was seen.
    epoch: u64,
}

/// Our leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeadershipTerm {
    pub(crate) epoch: u64,
    /// Until then on our clock, unless renewed.
    pub(crate) until: Duration,
}

impl LeaseCandidate {
    pub(crate) const fn new(name: String, terms: LeaseTiming) -> Self {
        Self {
            name,
            terms,
            term: None,
            seen: None,
            epoch: 0,
        }
    }

    /// Our leadership, if we lead.
    pub(crate) fn leads(&self, now: Duration) -> Option<LeadershipTerm> {
        self.term.filter(|term| now < term.until)
    }

    /// What to do with the Lease as just read. `wall` is the time of day in seconds; it only names epochs.
    pub(crate) fn decide(&mut self, now: Duration, wall: u64, read: Option<&LeaseRecord>) -> LeaseAction {
        self.term = self.leads(now);
        let version = read.map(|record| record.version.clone());
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            // What was never there is nobody's; what is there no more may have a holder who does not know yet.
            None if version.is_none() => Duration::ZERO,
            _ => now,
        };
        self.seen = Some((version, since));
        self.epoch = self.epoch.max(read.map_or(0, |record| record.epoch));
        let epoch = wall.max(self.epoch + 1);
        let waited = now.saturating_sub(since);
        let Some(record) = read else {
            let free = self.term.is_some() || since == Duration::ZERO;
            return if free || waited >= self.terms.duration {
                LeaseAction::Create { epoch }
            } else {
                LeaseAction::Wait
            };
        };
        match record.holder.as_deref() {
            Some(holder) if holder == self.name => match self.term {
                Some(term) if term.epoch == record.epoch => LeaseAction::Renew { epoch: term.epoch },
                // A former life of ours, or one of which we did not hear that it began.
                _ => LeaseAction::Take { epoch },
            },
            None | Some("") => LeaseAction::Take { epoch },
            Some(_) => {
                self.term = None;
                if waited >= self.terms.duration.max(record.duration) {
                    LeaseAction::Take { epoch }
                } else {
                    LeaseAction::Wait
                }
            }
        }
    }

    /// A write of ours was taken that was begun at a time on our clock.
    pub(crate) fn wrote(&mut self, begun: Duration, epoch: u64, version: String) {
        self.seen = Some((Some(version), begun));
        self.epoch = self.epoch.max(epoch);
        self.term = Some(LeadershipTerm {
            epoch,
            until: begun + self.terms.deadline,
        });
    }

    /// We lead no more, whatever the Lease says.
    pub(crate) const fn resign(&mut self) {
        self.term = None;
    }
}

#[cfg(test)]
#[path = "candidate_tests.rs"]
mod tests;
