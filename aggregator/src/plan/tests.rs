use parallax_diagnosis::topology::{Topology, TopologySpec};
use parallax_model::TargetSpec;
use tokio::time::Instant;

use super::*;

fn feed() -> (watch::Sender<TopologyState>, CancellationToken, Feed) {
    let spec = TopologySpec {
        targets: vec![TargetSpec::of("http://a.example.test/")],
        ..TopologySpec::default()
    };
    let vantage: Vantage = "vpc:bastion".parse().unwrap();
    let topology = Topology::try_from(spec).unwrap().with_vantage(vantage.clone());
    let (sender, receiver) = watch::channel(TopologyState::new(Arc::new(topology)));
    let planner = Planner {
        config: PlanConfig {
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
            echo_nonce: "n".to_owned(),
        },
        epoch: 7,
    };
    let stopping = CancellationToken::new();
    let feed = Feed::new(Arc::new(planner), vantage, receiver, stopping.clone());
    (sender, stopping, feed)
}

#[tokio::test(start_paused = true)]
async fn a_quiet_plan_beats_every_five_seconds_with_its_revision() {
    let (_sender, stopping, mut feed) = feed();
    let start = Instant::now();
    let lines = feed.next().await.unwrap();
    assert!(matches!(&lines[..], [PlanLine::Snapshot { assignments, .. }] if assignments.len() == 1));
    for beat in 1..=3 {
        let lines = feed.next().await.unwrap();
        assert_eq!(
            lines,
            [PlanLine::Heartbeat {
                revision: PlanRevision { epoch: 7, n: 0 }
            }]
        );
        assert_eq!(start.elapsed(), HEARTBEAT * beat);
    }
    stopping.cancel();
    assert!(feed.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_concern_the_reader_is_not_sent_but_moves_its_revision() {
    let (sender, _stopping, mut feed) = feed();
    feed.next().await.unwrap();
    sender.send_modify(|state| {
        state.number = 1;
    });
    let lines = feed.next().await.unwrap();
    assert_eq!(
        lines,
        [PlanLine::Heartbeat {
            revision: PlanRevision { epoch: 7, n: 1 }
        }]
    );
}
