//! When each assignment of the plan is due. A value without clock or I/O: time is handed in.
//!
//! Each assignment has its own grid: origin + phase + k · interval, the phase drawn from its id and the vantage. So an
//! assignment that survives a new plan keeps its place, and the probes of a plan spread over the interval.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parallax_model::{Assignment, AssignmentId, Channel, Dial, Vantage};
use tokio::time::Instant;

use crate::jitter;

/// Shortest time between two starts that is honoured, whatever the plan says.
const SHORTEST: Duration = Duration::from_millis(100);

/// How long a pod's address is believed after the plan stream was last heard: soon after, it may be another pod's.
/// Names and virtual addresses are believed for ever.
const BELIEVED: Duration = Duration::from_mins(10);

/// What to do at a point of the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
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
pub(crate) struct Schedule {
    origin: Instant,
    vantage: String,
    entries: BTreeMap<AssignmentId, Entry>,
    due: BTreeSet<(Instant, AssignmentId)>,
    /// Kept apart from the entries: a probe outlives the removal of its assignment.
    running: BTreeSet<AssignmentId>,
    /// When the plan stream last said something.
    heard: Instant,
    /// Points of the grid passed over because the last probe still ran.
    overrun: u64,
}

#[derive(Debug)]
struct Entry {
    assignment: Arc<Assignment>,
    next: Instant,
}

impl Schedule {
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
            self.upsert(assignment, now);
        }
    }

    /// A new or changed assignment. An unchanged interval keeps its place on the grid.
    pub(crate) fn upsert(&mut self, assignment: Assignment, now: Instant) {
        let id = assignment.id.clone();
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.assignment.interval == assignment.interval
        {
            entry.assignment = Arc::new(assignment);
            return;
        }
        self.remove(&id);
        let next = self.next(&assignment, now);
        self.due.insert((next, id.clone()));
        let assignment = Arc::new(assignment);
        self.entries.insert(id, Entry { assignment, next });
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
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Start> {
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
            let next = self.next(&assignment, now);
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
                starts.push(Start::TooLate { assignment, late });
            } else {
                self.running.insert(id);
                starts.push(Start::Run { assignment, late });
            }
        }
        starts
    }

    /// A probe handed out by [`Schedule::take_due`] has ended.
    pub(crate) fn finished(&mut self, id: &AssignmentId) {
        self.running.remove(id);
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
        && matches!(assignment.dial, Dial::Address(_))
}

fn interval(assignment: &Assignment) -> Duration {
    Duration::from(assignment.interval).max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    fn assignment(id: &str, interval_s: u64) -> Assignment {
        serde_json::from_value(serde_json::json!({
            "id": id, "target": "tcp://10.0.0.1:80", "channel": "vip",
            "probe": {"kind": "tcp", "host": "10.0.0.1", "port": 80},
            "dial": "resolve", "interval_us": interval_s * 1_000_000, "timeout_us": 2_000_000,
        }))
        .unwrap()
    }

    fn schedule() -> Schedule {
        Schedule::new(Instant::now(), &"n1/pod".parse().unwrap())
    }

    fn ids(starts: &[Start]) -> Vec<(&str, Duration)> {
        starts
            .iter()
            .map(|start| match start {
                Start::Run { assignment, late } => (assignment.id.as_str(), *late),
                Start::TooLate { .. } => panic!("too late: {start:?}"),
            })
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_starts_once_an_interval_at_its_own_phase() {
        let mut schedule = schedule();
        schedule.upsert(assignment("a", 5), Instant::now());
        let first = schedule.next_due().unwrap();
        assert!(first < Instant::now() + INTERVAL);
        for round in 0..3 {
            let due = schedule.next_due().unwrap();
            assert_eq!(due, first + INTERVAL * round);
            assert!(schedule.take_due(due - Duration::from_nanos(1)).is_empty());
            assert_eq!(ids(&schedule.take_due(due)), [("a", Duration::ZERO)]);
            schedule.finished(&"a".parse().unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_starts_of_many_assignments_spread_over_the_interval() {
        let mut schedule = schedule();
        let now = Instant::now();
        schedule.replace((0..200).map(|i| assignment(&format!("p{i}"), 5)).collect(), now);
        let mut most = 0;
        for tenth in 1..=10 {
            most = most.max(schedule.take_due(now + INTERVAL / 10 * tenth).len());
        }
        assert!(most < 50, "{most} of 200 in one tenth");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_target_delays_only_itself_and_is_not_made_up_for() {
        let mut schedule = schedule();
        let now = Instant::now();
        schedule.replace(vec![assignment("slow", 5), assignment("fast", 5)], now);
        let mut starts = BTreeMap::new();
        for second in 1..=20 {
            let now = now + Duration::from_secs(second);
            for (id, _) in ids(&schedule.take_due(now)) {
                *starts.entry(id.to_owned()).or_insert(0) += 1;
            }
            schedule.finished(&"fast".parse().unwrap());
            if second == 18 {
                schedule.finished(&"slow".parse().unwrap());
            }
        }
        assert_eq!(starts["fast"], 4);
        assert!(starts["slow"] <= 2, "{starts:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_late_up_to_half_the_interval_and_not_made_beyond() {
        let mut schedule = schedule();
        schedule.upsert(assignment("a", 5), Instant::now());
        let due = schedule.next_due().unwrap();
        let late = INTERVAL / 2;
        assert_eq!(ids(&schedule.take_due(due + late)), [("a", late)]);
        schedule.finished(&"a".parse().unwrap());
        let due = schedule.next_due().unwrap();
        let late = INTERVAL * 7;
        let starts = schedule.take_due(due + late);
        assert!(
            matches!(starts.as_slice(), [Start::TooLate { late: l, .. }] if *l == late),
            "one and no burst: {starts:?}"
        );
        assert!(schedule.next_due().unwrap() > due + late);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_plan_keeps_the_place_of_what_it_keeps() {
        let mut schedule = schedule();
        let now = Instant::now();
        schedule.replace(vec![assignment("a", 5), assignment("b", 5)], now);
        let places = schedule.due.clone();
        let mut changed = assignment("a", 5);
        changed.timeout = parallax_model::Micros::from_secs(1);
        schedule.replace(
            vec![changed.clone(), assignment("b", 5)],
            now + Duration::from_millis(1),
        );
        assert_eq!(schedule.due, places);
        assert_eq!(*schedule.entries[&changed.id].assignment, changed);
        schedule.replace(vec![assignment("b", 5)], now);
        assert_eq!(schedule.len(), 1);
        assert_eq!(schedule.due.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_assignment_removed_and_added_again_while_its_probe_runs_still_has_one_probe() {
        let mut schedule = schedule();
        schedule.upsert(assignment("a", 5), Instant::now());
        let due = schedule.next_due().unwrap();
        assert_eq!(schedule.take_due(due).len(), 1);
        schedule.remove(&"a".parse().unwrap());
        assert_eq!(schedule.next_due(), None);
        schedule.upsert(assignment("a", 5), due);
        let due = schedule.next_due().unwrap();
        assert_eq!(schedule.take_due(due), []);
        schedule.finished(&"a".parse().unwrap());
        assert_eq!(schedule.take_due(due + INTERVAL).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pods_address_is_believed_ten_minutes_after_the_last_word_and_a_name_for_ever() {
        let mut schedule = schedule();
        let start = Instant::now();
        let bound = |id: &str, channel, dial| Assignment {
            channel,
            dial,
            ..assignment(id, 60)
        };
        let address = Dial::Address("10.244.1.5:8080".parse().unwrap());
        let plan = || {
            vec![
                bound("direct", Channel::Direct, address),
                bound("mesh", Channel::Mesh, address),
                bound("vip", Channel::Vip, address),
                bound("name", Channel::Vip, Dial::Resolve),
                bound("echo", Channel::Mesh, Dial::Resolve),
            ]
        };
        schedule.replace(plan(), start);
        schedule.heard(start + Duration::from_mins(1));
        let due = |schedule: &mut Schedule, minute| {
            let now = start + Duration::from_mins(minute);
            let mut ids: Vec<_> = schedule
                .take_due(now)
                .into_iter()
                .map(|start| match start {
                    Start::Run { assignment, .. } | Start::TooLate { assignment, .. } => {
                        assignment.id.to_string()
                    }
                })
                .collect();
            for id in &ids {
                schedule.finished(&id.parse().unwrap());
            }
            ids.sort();
            ids
        };
        assert_eq!(due(&mut schedule, 11), ["direct", "echo", "mesh", "name", "vip"]);
        assert_eq!(due(&mut schedule, 13), ["echo", "name", "vip"]);
        assert_eq!(schedule.len(), 3);
        assert_eq!(
            due(&mut schedule, 60 * 24 * 365),
            ["echo", "name", "vip"],
            "a year later"
        );
        schedule.replace(plan(), start + Duration::from_hours(24 * 365));
        assert_eq!(schedule.len(), 5, "a new stream brings them back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_overruns_its_interval_is_counted() {
        let mut schedule = schedule();
        schedule.upsert(assignment("a", 5), Instant::now());
        let due = schedule.next_due().unwrap();
        assert_eq!(schedule.take_due(due).len(), 1);
        for round in 1..=3 {
            assert_eq!(schedule.take_due(due + INTERVAL * round), []);
        }
        assert_eq!((schedule.take_overrun(), schedule.take_overrun()), (3, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_year_of_starts_neither_drifts_nor_bursts() {
        let mut schedule = schedule();
        schedule.upsert(assignment("a", 3600), Instant::now());
        let first = schedule.next_due().unwrap();
        for hour in 0..24 * 365 {
            let due = schedule.next_due().unwrap();
            assert_eq!(due, first + Duration::from_hours(1) * hour);
            assert_eq!(ids(&schedule.take_due(due)), [("a", Duration::ZERO)]);
            schedule.finished(&"a".parse().unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_interval_of_zero_does_not_spin() {
        let mut schedule = schedule();
        schedule.upsert(assignment("a", 0), Instant::now());
        let due = schedule.next_due().unwrap();
        schedule.take_due(due);
        assert_eq!(schedule.next_due().unwrap(), due + SHORTEST);
    }
}
