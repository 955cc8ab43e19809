//! When each assignment of the plan is due. A value without clock or I/O: time is handed in.
//!
//! Each assignment has its own grid: origin + phase + k · interval, the phase drawn from its id and the vantage. So an
//! assignment that survives a new plan keeps its place, and the probes of a plan spread over the interval. What is news on
//! a plan that is followed starts soon and takes its place afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parallax_model::{Assignment, AssignmentId, Channel, DialAddress, Vantage};
use tokio::time::Instant;

use crate::jitter;

/// Shortest time between two starts that is honoured, whatever the plan says.
const SHORTEST: Duration = Duration::from_millis(100);

/// Part of an interval within which everything asked for has started.
const SOON: u32 = 20;
/// Part of an interval within which everything new has started: soon enough for who has just published a host, and no
/// burst where a whole namespace is.
const NEWS: u32 = 4;

/// How long a pod's address is believed after the plan stream was last heard: soon after, it may be another pod's.
/// Names and virtual addresses are believed for ever.
const BELIEVED: Duration = Duration::from_mins(10);

/// What to do at a point of the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeStart {
    /// Make the probe.
    Run {
        /// The probe.
        assignment: Arc<Assignment>,
        /// How long after its time it starts.
        late: Duration,
    },
    /// More than half an interval late: the answer would belong to another round than the question.
    TooLate {
        /// The probe that is not made.
        assignment: Arc<Assignment>,
        /// How late it would have been.
        late: Duration,
    },
}

/// The plan as a timetable.
#[derive(Debug)]
pub(crate) struct ProbeSchedule {
    origin: Instant,
    vantage: String,
    entries: BTreeMap<AssignmentId, ScheduleEntry>,
    due: BTreeSet<(Instant, AssignmentId)>,
    /// Kept apart from the entries: a probe outlives the removal of its assignment.
    running: BTreeSet<AssignmentId>,
    /// When the plan stream last said something.
    heard: Instant,
    /// Points of the grid passed over because the last probe still ran.
    overrun: u64,
}

#[derive(Debug)]
struct ScheduleEntry {
    assignment: Arc<Assignment>,
    next: Instant,
}

impl ProbeSchedule {
    pub(crate) fn new(origin: Instant, vantage: &Vantage) -> Self {
        Self {
            origin,
            vantage: vantage.to_string(),
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            running: BTreeSet::new(),
            heard: origin,
            overrun: 0,
        }
    }

    /// The plan stream said something: the addresses it gave hold.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Points of the grid passed over since the last call because the last probe still ran.
    pub(crate) fn take_overrun(&mut self) -> u64 {
        std::mem::take(&mut self.overrun)
    }

    /// Number of assignments.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A whole new plan: what is not in it is over.
    pub(crate) fn replace(&mut self, assignments: Vec<Assignment>, now: Instant) {
        let kept: BTreeSet<_> = assignments.iter().map(|a| a.id.clone()).collect();
        let gone: Vec<_> = self
            .entries
            .keys()
            .filter(|id| !kept.contains(id))
            .cloned()
            .collect();
        for id in gone {
            self.remove(&id);
        }
        for assignment in assignments {
            let next = self.first(&assignment, now);
            self.put(assignment, next);
        }
    }

    /// A new or changed assignment of the plan that is followed. An unchanged interval keeps its place on the grid; what is
    /// new starts soon.
    pub(crate) fn upsert(&mut self, assignment: Assignment, now: Instant) {
        let first = self.first(&assignment, now);
        let news = if self.entries.contains_key(&assignment.id) {
            first
        } else {
            let spread = jitter::within(
                interval(&assignment) / NEWS,
                &[assignment.id.as_str(), &self.vantage],
            );
            first.min(now + spread)
        };
        self.put(assignment, news);
    }

    /// Takes an assignment, which starts then unless it is on the grid already.
    fn put(&mut self, assignment: Assignment, next: Instant) {
        let id = assignment.id.clone();
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.assignment.interval == assignment.interval
        {
            entry.assignment = Arc::new(assignment);
            return;
        }
        self.remove(&id);
        self.due.insert((next, id.clone()));
        let assignment = Arc::new(assignment);
        self.entries.insert(id, ScheduleEntry { assignment, next });
    }

    /// The assignment is over. Its running probe ends by itself.
    pub(crate) fn remove(&mut self, id: &AssignmentId) {
        if let Some(entry) = self.entries.remove(id) {
            self.due.remove(&(entry.next, id.clone()));
        }
    }

    /// When something is due next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Everything due by now, each with its next time set to the first point of its grid after now: what was missed
    /// is skipped, never made up for. An assignment whose last probe still runs is skipped too.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<ProbeStart> {
        let mut starts = Vec::new();
        while let Some((at, id)) = self.due.first().filter(|(at, _)| *at <= now).cloned() {
            self.due.remove(&(at, id.clone()));
            let Some(entry) = self.entries.get(&id) else {
                continue;
            };
            let assignment = Arc::clone(&entry.assignment);
            if of_a_pod(&assignment) && now - self.heard > BELIEVED {
                // A stream that comes back begins with a snapshot and brings it again if it still holds.
                self.entries.remove(&id);
                continue;
            }
            let next = self.following(&assignment, at, now);
            self.due.insert((next, id.clone()));
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.next = next;
            }
            if self.running.contains(&id) {
                self.overrun += 1;
                continue;
            }
            let late = now - at;
            if late > interval(&assignment) / 2 {
                starts.push(ProbeStart::TooLate { assignment, late });
            } else {
                self.running.insert(id);
                starts.push(ProbeStart::Run { assignment, late });
            }
        }
        starts
    }

    /// A probe handed out by [`ProbeSchedule::take_due`] has ended.
    pub(crate) fn finished(&mut self, id: &AssignmentId) {
        self.running.remove(id);
    }

    /// When a new assignment starts. What is asked for starts at once, a little spread: a question that waits for its
    /// place on the grid is answered a round later.
    fn first(&self, assignment: &Assignment, now: Instant) -> Instant {
        if assignment.id.is_asked() {
            let soon = interval(assignment) / SOON;
            return now + jitter::within(soon, &[assignment.id.as_str(), &self.vantage]);
        }
        self.next(assignment, now)
    }

    /// The start after the one that was due at `at`.
    fn following(&self, assignment: &Assignment, at: Instant, now: Instant) -> Instant {
        if assignment.id.is_asked() {
            let interval = interval(assignment);
            let gone = (now - at).as_nanos() / interval.as_nanos();
            return at + interval.saturating_mul(u32::try_from(gone + 1).unwrap_or(u32::MAX));
        }
        let next = self.next(assignment, now);
        // Only one that started before its place on the grid is so near to it: two probes in one round tell no more.
        let interval = interval(assignment);
        if next - at < interval / 2 {
            next + interval
        } else {
            next
        }
    }

    /// The first point of the grid after now.
    fn next(&self, assignment: &Assignment, now: Instant) -> Instant {
        let interval = interval(assignment);
        let phase = jitter::within(interval, &[assignment.id.as_str(), &self.vantage]);
        let first = self.origin + phase;
        if now < first {
            return first;
        }
        let gone = (now - first).as_nanos() / interval.as_nanos();
        // A process that lives for 2³² intervals of 100 ms is thirteen years old.
        first + interval.saturating_mul(u32::try_from(gone + 1).unwrap_or(u32::MAX))
    }
}

/// Whether it is bound to one pod's address.
fn of_a_pod(assignment: &Assignment) -> bool {
    matches!(assignment.channel, Channel::Direct | Channel::Mesh)
        && matches!(assignment.dial, DialAddress::Address(_))
}

fn interval(assignment: &Assignment) -> Duration {
    Duration::from(assignment.interval).max(SHORTEST)
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
