use parallax_diagnosis::topology::{Topology, TopologySpec};
use parallax_model::TargetSpec;
use tokio::time::Instant;

use super::*;
use parallax_kubernetes::replicas::ReplicaState;

fn feed() -> (
    watch::Sender<TopologyState>,
    watch::Sender<PlanRequests>,
    CancellationToken,
    PlanStream,
) {
    let spec = TopologySpec {
        targets: vec![TargetSpec::new("http://a.example.test/")],
        ..TopologySpec::default()
    };
    let vantage: Vantage = "vpc:bastion".parse().unwrap();
    let topology = Topology::try_from(spec).unwrap().with_vantage(vantage.clone());
    let (sender, receiver) = watch::channel(TopologyState::new(Arc::new(topology)));
    let planner = Planner {
        config: PlanConfig {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
            echo_nonce: String::new(),
        },
    };
    let epoch = PlanEpoch::current(&ReplicaState::standalone(7, "n")).unwrap();
    let stopping = CancellationToken::new();
    let (asks, requests) = watch::channel(PlanRequests::default());
    let (orders, runs) = watch::channel(Arc::from([]));
    let end = stopping.clone();
    tokio::spawn(async move {
        end.cancelled().await;
        drop(orders);
    });
    let feed = PlanStream::new(
        (Arc::new(planner), epoch),
        {
            let place = OpenPlanStreams::default().open(&vantage);
            (vantage, false, place)
        },
        receiver,
        requests,
        (runs, Clock::system()),
        stopping.clone(),
    );
    (sender, asks, stopping, feed)
}

/// A request of the engine: the host with a PROXY header.
fn proxied() -> ProbeRequest {
    serde_json::from_value(serde_json::json!({
        "id": "ask|proxied|a", "subject": {"type": "front", "name": "203.0.113.10:80"}, "vantage": "vpc:bastion",
        "channel": "proxied", "target": "http://a.example.test/", "to": {"front": "203.0.113.10:80"},
        "separates": [], "reason": "a test", "bits": 0.5, "since": 0,
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_plan_stream_ends_when_the_token_expires() {
    let (_sender, _asks, _stopping, feed) = feed();
    let begin = Instant::now();
    let lifetime = HEARTBEAT_INTERVAL * 2 + HEARTBEAT_INTERVAL / 2;
    let mut feed = feed.with_expiry(Some(begin + lifetime));
    let mut lines = 0;
    while feed.next_lines().await.is_some() {
        lines += 1;
    }
    assert_eq!(
        (lines, begin.elapsed()),
        (3, lifetime),
        "a snapshot, two heartbeats, the end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_requested_probe_is_added_and_removed_by_one_line_each() {
    let (_sender, asks, _stopping, mut feed) = feed();
    feed.next_lines().await.unwrap();
    assert!(asks.send_if_modified(|requests| requests.update(&[proxied()])));
    let lines = feed.next_lines().await.unwrap();
    let [PlanLine::Upsert { revision, assignment }] = &lines[..] else {
        panic!("one upsert, got {lines:?}")
    };
    assert_eq!((revision.number, assignment.id.as_str()), (1, "ask|proxied|a"));
    let again = ProbeRequest {
        requested_at: parallax_model::EventTime(5_000_000),
        ..proxied()
    };
    assert!(
        !asks.send_if_modified(|requests| requests.update(&[again])),
        "a repeated request is the same probe"
    );
    asks.send_modify(|requests| {
        requests.update(&[]);
    });
    let lines = feed.next_lines().await.unwrap();
    assert!(matches!(&lines[..], [PlanLine::Remove { id, .. }] if id.as_str() == "ask|proxied|a"));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_plan_beats_every_five_seconds_with_its_revision() {
    let (_sender, _asks, stopping, mut feed) = feed();
    let start = Instant::now();
    let lines = feed.next_lines().await.unwrap();
    assert!(matches!(&lines[..], [PlanLine::Snapshot { assignments, .. }] if assignments.len() == 1));
    for beat in 1..=3 {
        let lines = feed.next_lines().await.unwrap();
        assert_eq!(
            lines,
            [PlanLine::Heartbeat {
                revision: PlanRevision { epoch: 7, number: 0 }
            }]
        );
        assert_eq!(start.elapsed(), HEARTBEAT_INTERVAL * beat);
    }
    stopping.cancel();
    assert!(feed.next_lines().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_concern_the_reader_is_not_sent_but_moves_its_revision() {
    let (sender, _asks, _stopping, mut feed) = feed();
    feed.next_lines().await.unwrap();
    sender.send_modify(|state| {
        state.revision = 1;
    });
    let lines = feed.next_lines().await.unwrap();
    assert_eq!(
        lines,
        [PlanLine::Heartbeat {
            revision: PlanRevision { epoch: 7, number: 1 }
        }]
    );
}

#[tokio::test(start_paused = true)]
async fn another_interval_or_timeout_reaches_the_probers_as_changed_assignments() {
    let (sender, _asks, _stopping, mut feed) = feed();
    feed.next_lines().await.unwrap();
    let timing = ProbeTiming {
        interval: Micros::from_secs(2),
        timeout: Micros::from_secs(1),
    };
    sender.send_modify(|state| {
        state.timing = Some(timing);
        state.revision = 1;
    });
    let lines = feed.next_lines().await.unwrap();
    let [PlanLine::Upsert { revision, assignment }] = &lines[..] else {
        panic!("one upsert, got {lines:?}")
    };
    assert_eq!(revision.number, 1);
    assert_eq!(
        (assignment.interval, assignment.timeout),
        (timing.interval, timing.timeout)
    );
}
