//! The agent with several aggregators.

use parallax_model::Outcome;
use parallax_test_support::closed_port::ClosedTcpPort;

use crate::{
    agent::{OFTEN, Running, config, metric_is, tcp},
    servers::{aggregator::Aggregator, answering},
};

#[tokio::test]
async fn every_aggregator_gets_every_observation_under_the_same_number_and_the_plan_comes_from_whichever_makes_one()
 {
    let target = answering("").await;
    let plan = vec![tcp("a", target.addr, OFTEN)];
    // The first aggregator is the standby.
    let mut first = Aggregator::start(Vec::new(), &[]).await;
    first.plan_down(true);
    let mut second = Aggregator::start(plan.clone(), &[]).await;
    let agent = Running::among(config(first.addr()), &[second.addr()]).await;
    let (one, other) = (first.observations(10).await, second.observations(10).await);
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(
            (one.seq, one.started, &one.outcome),
            (other.seq, other.started, &other.outcome)
        );
        assert_eq!(one.outcome, Outcome::Ok { status: None });
    }
    // Failover: they swap roles.
    first.plan_down(false);
    first.plan(vec![tcp("b", target.addr, OFTEN)]);
    second.plan_down(true);
    while second
        .report()
        .await
        .observations
        .iter()
        .all(|seen| seen.assignment.as_ref().is_none_or(|id| id.as_str() != "b"))
    {}
    agent.stop().await;
    first.join().await;
    second.join().await;
    target.join().await;
}

#[tokio::test]
async fn an_aggregator_that_is_down_costs_the_other_nothing_and_its_queue_is_its_own() {
    let target = answering("").await;
    let mut reachable = Aggregator::start(vec![tcp("a", target.addr, OFTEN)], &[]).await;
    let closed = ClosedTcpPort::open().unwrap();
    let agent = Running::among(config(closed.address().unwrap()), &[reachable.addr()]).await;
    let seen = reachable.observations(20).await;
    let expected: Vec<u64> = (0..seen.len() as u64).collect();
    assert_eq!(seen.iter().map(|seen| seen.seq.0).collect::<Vec<_>>(), expected);
    let waiting = |n| format!("parallax_prober_replica_spool_reports{{replica=\"aggregator 0\"}} {n}");
    assert!(
        !metric_is(agent.echo, &waiting(0)).await,
        "the observations wait for it"
    );
    agent.stop().await;
    reachable.join().await;
    target.join().await;
}
