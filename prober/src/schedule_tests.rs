//! The schedule over minutes and over a year, in paused time.

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

fn schedule() -> ProbeSchedule {
    ProbeSchedule::new(Instant::now(), &"n1/pod".parse().unwrap())
}

fn ids(starts: &[ProbeStart]) -> Vec<(&str, Duration)> {
    starts
        .iter()
        .map(|start| match start {
            ProbeStart::Run { assignment, late } => (assignment.id.as_str(), *late),
            ProbeStart::TooLate { .. } => panic!("too late: {start:?}"),
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_probe_starts_once_an_interval_at_its_own_phase() {
    let mut schedule = schedule();
    schedule.replace(vec![assignment("a", 5)], Instant::now());
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
async fn what_is_news_on_a_plan_starts_within_a_quarter_of_its_interval_and_then_takes_its_place_on_the_grid()
{
    let grid = |id: &str| {
        let mut schedule = schedule();
        schedule.replace(vec![assignment(id, 5)], Instant::now());
        schedule.next_due().unwrap()
    };
    for (n, id) in ["a", "b", "c", "d", "e", "f", "g", "h"].into_iter().enumerate() {
        let mut schedule = schedule();
        let now = Instant::now() + Duration::from_millis(617) * u32::try_from(n).unwrap();
        schedule.upsert(assignment(id, 5), now);
        let first = schedule.next_due().unwrap();
        assert!(first - now <= INTERVAL / 4, "{id}: {:?}", first - now);
        assert_eq!(ids(&schedule.take_due(first)), [(id, Duration::ZERO)]);
        schedule.finished(&id.parse().unwrap());
        let second = schedule.next_due().unwrap();
        let between = second - first;
        assert!(
            between >= INTERVAL / 2 && between <= INTERVAL * 3 / 2,
            "{id}: {between:?}"
        );
        let place = (second - grid(id)).as_nanos() % INTERVAL.as_nanos();
        assert_eq!(place, 0, "{id} is on its grid");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_starts_at_once_and_then_once_an_interval_until_it_is_over() {
    let mut schedule = schedule();
    let now = Instant::now() + Duration::from_secs(17);
    schedule.upsert(assignment("ask|direct|a", 5), now);
    let first = schedule.next_due().unwrap();
    assert!(first - now < INTERVAL / 20, "{:?}", first - now);
    for round in 0..3 {
        let due = schedule.next_due().unwrap();
        assert_eq!(due, first + INTERVAL * round);
        assert_eq!(ids(&schedule.take_due(due)), [("ask|direct|a", Duration::ZERO)]);
        schedule.finished(&"ask|direct|a".parse().unwrap());
    }
    schedule.remove(&"ask|direct|a".parse().unwrap());
    assert_eq!(schedule.next_due(), None);
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
    schedule.replace(vec![assignment("a", 5)], Instant::now());
    let due = schedule.next_due().unwrap();
    let late = INTERVAL / 2;
    assert_eq!(ids(&schedule.take_due(due + late)), [("a", late)]);
    schedule.finished(&"a".parse().unwrap());
    let due = schedule.next_due().unwrap();
    let late = INTERVAL * 7;
    let starts = schedule.take_due(due + late);
    assert!(
        matches!(starts.as_slice(), [ProbeStart::TooLate { late: l, .. }] if *l == late),
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
    schedule.replace(vec![assignment("a", 5)], Instant::now());
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
    let address = DialAddress::Address("10.244.1.5:8080".parse().unwrap());
    let plan = || {
        vec![
            bound("direct", Channel::Direct, address),
            bound("mesh", Channel::Mesh, address),
            bound("vip", Channel::Vip, address),
            bound("name", Channel::Vip, DialAddress::Resolve),
            bound("echo", Channel::Mesh, DialAddress::Resolve),
        ]
    };
    schedule.replace(plan(), start);
    schedule.record_line(start + Duration::from_mins(1));
    let due = |schedule: &mut ProbeSchedule, minute| {
        let now = start + Duration::from_mins(minute);
        let mut ids: Vec<_> = schedule
            .take_due(now)
            .into_iter()
            .map(|start| match start {
                ProbeStart::Run { assignment, .. } | ProbeStart::TooLate { assignment, .. } => {
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
    schedule.replace(vec![assignment("a", 5)], Instant::now());
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
    schedule.replace(vec![assignment("a", 3600)], Instant::now());
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
    schedule.replace(vec![assignment("a", 0)], Instant::now());
    let due = schedule.next_due().unwrap();
    schedule.take_due(due);
    assert_eq!(schedule.next_due().unwrap(), due + MIN_INTERVAL);
}
