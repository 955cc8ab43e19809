//! Plans in, reports out.

use super::*;

fn numbers(observations: &[Observation]) -> Vec<u64> {
    observations.iter().map(|o| o.seq.0).collect()
}

#[tokio::test]
async fn a_plan_becomes_observations_once_and_in_order_also_when_the_first_report_is_cut() {
    let target = answering("").await;
    let plan = vec![tcp("a", target.addr, OFTEN), tcp("b", target.addr, OFTEN)];
    let mut aggregator = Aggregator::start(plan, &[InjectedFailure::Cut, InjectedFailure::Status(503)]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let observations = aggregator.observations(40).await;
    let expected: Vec<u64> = (0..observations.len() as u64).collect();
    assert_eq!(numbers(&observations), expected);
    let mishandled = aggregator.failed_reports();
    assert_eq!(mishandled.len(), 2);
    assert_eq!(mishandled[0], mishandled[1], "the same report again");
    for observation in &observations {
        assert_eq!(observation.outcome, Outcome::Ok { status: None });
        assert_eq!(observation.target.as_str(), format!("tcp://{}", target.addr));
        assert!(observation.times.delay.is_some() && observation.started.0 > 0);
    }
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn a_report_says_who_sends_it_when_and_how_far_it_is_complete() {
    let target = answering("").await;
    let mut aggregator = Aggregator::start(vec![tcp("a", target.addr, OFTEN)], &[]).await;
    let token = Some(ProberCredential::Fixed("sesame".into()));
    let agent = Running::start(AgentConfig {
        credential: token,
        ..config(aggregator.addr())
    })
    .await;
    let query = aggregator.plans.recv().await.unwrap();
    let wanted = format!(
        "GET /v1/plan?vantage=n1%2Fpod&incarnation={}&pod=prober-n1&echo_port={} ",
        agent.incarnation,
        agent.echo.port()
    );
    assert!(query.starts_with(&wanted), "{query}");
    assert!(
        query.to_lowercase().contains("authorization: bearer sesame"),
        "{query}"
    );
    let mut seen = 0;
    let mut last_complete = None;
    while seen < 5 {
        let report = aggregator.report().await;
        assert!(
            report
                .head
                .to_lowercase()
                .contains("authorization: bearer sesame")
        );
        let header = report.header;
        assert_eq!(header.incarnation.as_str(), agent.incarnation);
        assert_eq!(header.vantage.to_string(), "n1/pod");
        assert!(header.complete_until <= Some(header.sent_at));
        // No later observation may have started before the declared watermark.
        for observation in &report.observations {
            assert!(
                Some(observation.started) >= last_complete,
                "{observation:?} against {last_complete:?}"
            );
        }
        last_complete = header.complete_until;
        seen += report.observations.len();
    }
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}

#[tokio::test]
async fn an_agent_without_assignments_still_reports_that_there_is_nothing() {
    let mut aggregator = Aggregator::start(vec![], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let first = aggregator.report().await;
    let second = aggregator.report().await;
    assert!(first.observations.is_empty() && second.observations.is_empty());
    assert!(second.header.complete_until > first.header.complete_until);
    agent.stop().await;
    aggregator.join().await;
}

#[tokio::test]
async fn a_refused_front_is_reported_with_the_ttl_of_who_refuses() {
    let target = answering("").await;
    let addr = target.addr;
    target.join().await;
    let mut aggregator = Aggregator::start(vec![tcp("a", addr, OFTEN)], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let observation = aggregator.observations(1).await.remove(0);
    assert_eq!(
        observation.outcome,
        Outcome::Failed {
            phase: Phase::Connect,
            kind: FailureKind::Refused,
            status: None
        }
    );
    let ttl = observation
        .ttl
        .expect("this machine answers for its own loopback address");
    assert!(ttl.crossed_no_router(), "{ttl:?}");
    assert_eq!(ttl.address, addr.ip());
    agent.stop().await;
    aggregator.join().await;
}

#[tokio::test]
async fn probing_goes_on_from_the_last_plan_while_there_is_no_plan_stream() {
    let target = answering("").await;
    let mut aggregator = Aggregator::start(vec![tcp("a", target.addr, OFTEN)], &[]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    aggregator.plans.recv().await.unwrap();
    aggregator.observations(1).await;
    aggregator.plan_down(true);
    // The stream was cut, and a new request for it failed.
    aggregator.plans.recv().await.unwrap();
    let on = aggregator.observations(10).await;
    assert!(on.iter().all(|o| o.outcome == Outcome::Ok { status: None }));
    // Once the stream is available again, the agent follows it.
    let other = answering("").await;
    aggregator.plan_down(false);
    aggregator.plan(vec![tcp("b", other.addr, OFTEN)]);
    loop {
        let report = aggregator.report().await;
        if report
            .observations
            .iter()
            .any(|o| o.assignment.as_ref().is_some_and(|id| id.as_str() == "b"))
        {
            break;
        }
    }
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
    other.join().await;
}

#[tokio::test]
async fn a_report_refused_for_good_is_dropped_and_counted() {
    let target = answering("").await;
    let plan = vec![tcp("a", target.addr, OFTEN)];
    let mut aggregator = Aggregator::start(plan, &[InjectedFailure::Status(400)]).await;
    let agent = Running::start(config(aggregator.addr())).await;
    let report = loop {
        let report = aggregator.report().await;
        if !report.observations.is_empty() {
            break report;
        }
    };
    let lost = aggregator.failed_reports().remove(0);
    assert_eq!(report.header.dropped, lost.len() as u64);
    assert_eq!(
        report.observations[0].seq.0,
        lost.len() as u64,
        "the sequence numbers continue"
    );
    agent.stop().await;
    aggregator.join().await;
    target.join().await;
}
