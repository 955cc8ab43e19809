//! Checks of a host with a few probes, which are no runs.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_look_asks_one_node_and_the_internet_and_gives_what_came_when_its_time_is_over() {
    let bench = Bench::new(RunOptions::default());
    let host = "a.example.test".parse().unwrap();
    let mut asked = Vec::new();
    for turn in 0..3 {
        let at = HostCheck {
            host: &host,
            token: "t0ken",
            turn,
        };
        let mut orders = bench.desk.orders();
        orders.mark_unchanged();
        let only_outside = async {
            orders.changed().await.unwrap();
            for (seq, (vantage, assignment)) in bench.told().into_iter().enumerate() {
                if vantage.node().is_some() {
                    asked.push(vantage.to_string());
                    continue;
                }
                let line = json!({"seq": turn * 10 + seq, "t_us": 1, "target": assignment.target, "channel": assignment.channel,
                    "assignment": assignment.id, "result": "ok"});
                let recorded = Recorded {
                    vantage,
                    incarnation: "life-1".parse().unwrap(),
                    observation: serde_json::from_value(line).unwrap(),
                };
                // A duplicate counts once, and a vantage that was not asked does not count.
                bench.desk.record(&recorded);
                bench.desk.record(&recorded);
                let stranger = "internet:stranger".parse().unwrap();
                bench.desk.record(&Recorded {
                    vantage: stranger,
                    ..recorded
                });
            }
        };
        let look = bench.desk.check_host(at, &bench.topology, &bench.view);
        let (looked, ()) = tokio::join!(look, only_outside);
        assert_eq!(
            looked.unwrap().observations.len(),
            2,
            "the name, and a fetch by the CA's rules"
        );
    }
    assert_eq!(
        asked,
        [
            "n1/pod", "n1/pod", "n1/pod", "n3/pod", "n3/pod", "n3/pod", "n2/pod", "n2/pod", "n2/pod"
        ],
        "the nodes take turns"
    );
    assert_eq!(bench.desk.list(), [], "a check is not a run");
    bench.stop().await;
}

#[tokio::test]
async fn nobody_looks_at_a_host_that_nobody_publishes() {
    let bench = Bench::new(RunOptions::default());
    let host = "b.example.test".parse().unwrap();
    let at = HostCheck {
        host: &host,
        token: "t0ken",
        turn: 0,
    };
    let refused = bench
        .desk
        .check_host(at, &bench.topology, &bench.view)
        .await
        .unwrap_err();
    assert!(matches!(refused, HostCheckError::OutOfScope(_)), "{refused}");
    assert!(bench.desk.orders().borrow().is_empty());
    bench.stop().await;
}
