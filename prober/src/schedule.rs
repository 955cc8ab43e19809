//! The schedule of the plan's assignments. Pure; the caller passes the time.
//!
//! Each assignment has its own grid: origin + phase + k · interval, with a phase derived from its id and the vantage.
//! An assignment therefore keeps its starts across plans, and the probes of a plan spread over the interval. An
//! assignment that is added to a current plan starts soon and continues on its grid.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parallax_model::{Assignment, AssignmentId, Channel, DialAddress, Vantage};
use tokio::time::Instant;

use crate::jitter;

/// Minimum time between two starts, whatever the plan says.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Requested follow-up probes start within this fraction of their interval.
const FOLLOW_UP_FRACTION: u32 = 20;
/// Assignments added to a current plan start within this fraction of their interval: soon enough for a user who has
/// just published a host, but without a burst for a whole new namespace.
const NEW_ASSIGNMENT_FRACTION: u32 = 4;

/// How long the address of a Pod is probed after the last line of the plan stream; later it may belong to another Pod.
/// Names and virtual addresses are probed indefinitely.
const POD_ADDRESS_TTL: Duration = Duration::from_mins(10);

/// The action at a point of the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeStart {
    /// Make the probe.
    Run {
        /// The probe.
        assignment: Arc<Assignment>,
        /// Delay against the schedule.
        late: Duration,
    },
    /// Skip the probe: it is more than half an interval late, and its result would belong to another round.
    TooLate {
        /// The probe that is not made.
        assignment: Arc<Assignment>,
        /// Delay against the schedule.
        late: Duration,
    },
}

/// The schedule of a plan.
#[derive(Debug)]
pub(crate) struct ProbeSchedule {
    origin: Instant,
    vantage: String,
    entries: BTreeMap<AssignmentId, ScheduleEntry>,
    due: BTreeSet<(Instant, AssignmentId)>,
    /// Separate from the entries, because a probe outlives the removal of its assignment.
    running: BTreeSet<AssignmentId>,
    /// Time of the last line of the plan stream.
    last_line: Instant,
    /// Starts skipped because the previous probe was still running.
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
            last_line: origin,
            overrun: 0,
        }
    }

    /// Records a line of the plan stream, which confirms the addresses of the plan.
    pub(crate) fn record_line(&mut self, now: Instant) {
        self.last_line = now;
    }

    /// Returns the number of starts skipped since the last call because the previous probe was still running.
    pub(crate) fn take_overrun(&mut self) -> u64 {
        std::mem::take(&mut self.overrun)
    }

    /// Number of assignments.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Applies a complete plan. Assignments that are not in it are removed.
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
            let next = self.first_start(&assignment, now);
            self.insert(assignment, next);
        }
    }

    /// Adds or changes an assignment of the current plan. With an unchanged interval its grid stays; a new assignment
    /// starts soon.
    pub(crate) fn upsert(&mut self, assignment: Assignment, now: Instant) {
        let first = self.first_start(&assignment, now);
        let news = if self.entries.contains_key(&assignment.id) {
            first
        } else {
            let spread = jitter::offset_within(
                interval(&assignment) / NEW_ASSIGNMENT_FRACTION,
                &[assignment.id.as_str(), &self.vantage],
            );
            first.min(now + spread)
        };
        self.insert(assignment, news);
    }

    /// Stores an assignment. It starts at `next`, unless it is already scheduled with the same interval.
    fn insert(&mut self, assignment: Assignment, next: Instant) {
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

    /// Removes an assignment. A running probe is not aborted.
    pub(crate) fn remove(&mut self, id: &AssignmentId) {
        if let Some(entry) = self.entries.remove(id) {
            self.due.remove(&(entry.next, id.clone()));
        }
    }

    /// The time of the next start.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the starts due by now and moves each assignment to the first point of its grid after now: missed starts
    /// are skipped, never made up for. An assignment whose previous probe is still running is skipped too.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<ProbeStart> {
        let mut starts = Vec::new();
        while let Some((at, id)) = self.due.first().filter(|(at, _)| *at <= now).cloned() {
            self.due.remove(&(at, id.clone()));
            let Some(entry) = self.entries.get(&id) else {
                continue;
            };
            let assignment = Arc::clone(&entry.assignment);
            if is_pod_bound(&assignment) && now - self.last_line > POD_ADDRESS_TTL {
                // A new stream starts with a snapshot, which contains the assignment again if it is still valid.
                self.entries.remove(&id);
                continue;
            }
            let next = self.next_start(&assignment, at, now);
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

    /// Records the end of a probe that [`ProbeSchedule::take_due`] returned.
    pub(crate) fn finished(&mut self, id: &AssignmentId) {
        self.running.remove(id);
    }

    /// The first start of a new assignment. Requested follow-up probes start immediately with a little jitter: if they
    /// waited for the grid, their result would be a round later.
    fn first_start(&self, assignment: &Assignment, now: Instant) -> Instant {
        if assignment.id.is_requested() {
            let soon = interval(assignment) / FOLLOW_UP_FRACTION;
            return now + jitter::offset_within(soon, &[assignment.id.as_str(), &self.vantage]);
        }
        self.next_grid_point(assignment, now)
    }

    /// The start that follows the one due at `at`.
    fn next_start(&self, assignment: &Assignment, at: Instant, now: Instant) -> Instant {
        if assignment.id.is_requested() {
            let interval = interval(assignment);
            let gone = (now - at).as_nanos() / interval.as_nanos();
            return at + interval.saturating_mul(u32::try_from(gone + 1).unwrap_or(u32::MAX));
        }
        let next = self.next_grid_point(assignment, now);
        // Only an assignment that started off its grid is this close to the next point. A second probe in the same
        // round would add no evidence.
        let interval = interval(assignment);
        if next - at < interval / 2 {
            next + interval
        } else {
            next
        }
    }

    /// The first point of the grid after now.
    fn next_grid_point(&self, assignment: &Assignment, now: Instant) -> Instant {
        let interval = interval(assignment);
        let phase = jitter::offset_within(interval, &[assignment.id.as_str(), &self.vantage]);
        let first = self.origin + phase;
        if now < first {
            return first;
        }
        let gone = (now - first).as_nanos() / interval.as_nanos();
        // 2³² intervals of 100 ms are thirteen years.
        first + interval.saturating_mul(u32::try_from(gone + 1).unwrap_or(u32::MAX))
    }
}

/// Whether the assignment is bound to the address of one Pod.
fn is_pod_bound(assignment: &Assignment) -> bool {
    matches!(assignment.channel, Channel::Direct | Channel::Mesh)
        && matches!(assignment.dial, DialAddress::Address(_))
}

fn interval(assignment: &Assignment) -> Duration {
    Duration::from(assignment.interval).max(MIN_INTERVAL)
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
