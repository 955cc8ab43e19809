//! Checks of a host with a few probes, which are no runs.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_host_check_uses_one_node_and_the_internet_and_returns_partial_results_at_its_timeout() {
    let harness = Bench::new(RunOptions::default());
    let host = "a.example.test".parse().unwrap();
    let mut vantages = Vec::new();
    for turn in 0..3 {
        let at = HostCheck {
            host: &host,
            token: "t0ken",
            turn,
        };
        let mut orders = harness.manager.orders();
        orders.mark_unchanged();
        let only_outside = async {
            orders.changed().await.unwrap();
            for (seq, (vantage, assignment)) in harness.ordered_assignments().into_iter().enumerate() {
                if vantage.node().is_some() {
                    vantages.push(vantage.to_string());
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
                harness.manager.record(&recorded);
                harness.manager.record(&recorded);
                let other_vantage = "internet:stranger".parse().unwrap();
                harness.manager.record(&Recorded {
                    vantage: other_vantage,
                    ..recorded
                });
            }
        };
        let look = harness.manager.check_host(at, &harness.topology, &harness.view);
        let (looked, ()) = tokio::join!(look, only_outside);
        assert_eq!(
            looked.unwrap().observations.len(),
            2,
            "the name, and a fetch by the CA's rules"
        );
    }
    assert_eq!(
        vantages,
        [
            "n1/pod", "n1/pod", "n1/pod", "n3/pod", "n3/pod", "n3/pod", "n2/pod", "n2/pod", "n2/pod"
        ],
        "the nodes take turns"
    );
    assert_eq!(harness.manager.list(), [], "a check is not a run");
    harness.stop().await;
}

#[tokio::test]
async fn a_host_that_no_route_publishes_is_not_checked() {
    let harness = Bench::new(RunOptions::default());
    let host = "b.example.test".parse().unwrap();
    let at = HostCheck {
        host: &host,
        token: "t0ken",
        turn: 0,
    };
    let refused = harness
        .manager
        .check_host(at, &harness.topology, &harness.view)
        .await
        .unwrap_err();
    assert!(matches!(refused, HostCheckError::OutOfScope(_)), "{refused}");
    assert!(harness.manager.orders().borrow().is_empty());
    harness.stop().await;
}
