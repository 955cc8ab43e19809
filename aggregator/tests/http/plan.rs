//! The plan stream from a prober's point of view.

use crate::common::{Running, TOPOLOGY, json};
use parallax_model::{PlanLine, PlanRevision};

/// Reads a plan stream line by line.
pub(crate) struct Lines {
    response: reqwest::Response,
    buffer: Vec<u8>,
}

impl Lines {
    pub(crate) async fn open(aggregator: &Running, vantage: &str) -> Self {
        let path = format!("/v1/plan?vantage={vantage}&incarnation=life-1");
        let response = aggregator.get(&path).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        Self {
            response,
            buffer: Vec::new(),
        }
    }

    async fn next(&mut self) -> Option<PlanLine> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.buffer.extend(self.response.chunk().await.unwrap()?);
        }
    }

    /// Returns the next line other than a heartbeat.
    pub(crate) async fn change(&mut self) -> Option<PlanLine> {
        loop {
            match self.next().await? {
                PlanLine::Heartbeat { .. } => {}
                line => return Some(line),
            }
        }
    }
}

fn snapshot(line: Option<PlanLine>) -> (PlanRevision, Vec<String>) {
    let Some(PlanLine::Snapshot {
        revision,
        assignments,
        ..
    }) = line
    else {
        panic!("expected a snapshot, got {line:?}")
    };
    (revision, assignments.iter().map(|a| a.id.to_string()).collect())
}

#[tokio::test]
async fn a_reader_gets_a_snapshot_and_then_only_what_changes_for_it() {
    let aggregator = Running::start().await;
    let mut n1 = Lines::open(&aggregator, "n1/pod").await;
    let mut n2 = Lines::open(&aggregator, "n2/pod").await;
    let (revision, ids) = snapshot(n1.next().await);
    assert!(ids.contains(&"vip|http://a.example.test/".to_owned()), "{ids:?}");
    assert!(ids.contains(&"mesh|n2".to_owned()), "{ids:?}");
    snapshot(n2.next().await);

    // The prober of n1 moves: the mesh peer of n2 has a new address, the plan of n1 does not change.
    aggregator.replace_topology(&TOPOLOGY.replace("10.244.1.5:9095", "10.244.1.6:9095"));
    let Some(PlanLine::Upsert {
        assignment,
        revision: moved,
    }) = n2.change().await
    else {
        panic!("expected an upsert")
    };
    assert_eq!(assignment.id.as_str(), "mesh|n1");
    assert!(moved > revision);

    // A host is removed: both plans lose it, and it is the first change that n1 receives.
    let without = TOPOLOGY
        .replace("10.244.1.5:9095", "10.244.1.6:9095")
        .replace(", b.example.test", "");
    aggregator.replace_topology(&without);
    let first = n1.change().await;
    assert!(
        matches!(&first, Some(PlanLine::Remove { id, .. }) if id.as_str().contains("b.example.test")),
        "{first:?}"
    );

    // The node is removed: its stream ends, the other one continues.
    let gone = "nodes: [{name: n2, prober: {pod: p, address: '10.244.2.5:9095'}}]\n";
    aggregator.replace_topology(gone);
    while n1.next().await.is_some() {}
    assert!(matches!(n2.change().await, Some(PlanLine::Remove { .. })));
    aggregator.stop().await;
}

#[tokio::test]
async fn an_unknown_vantage_gets_the_list_of_known_ones() {
    let aggregator = Running::start().await;
    let response = aggregator.get("/v1/plan?vantage=n7/pod").send().await.unwrap();
    assert_eq!(response.status(), 404);
    let answer = json(response).await;
    assert_eq!(answer["expected"], serde_json::json!(["n1/pod", "n2/pod"]));
    let response = aggregator.get("/v1/plan?vantage=somewhere").send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(
        json(response).await["error"]
            .as_str()
            .unwrap()
            .contains("NODE/pod")
    );
    let response = aggregator.get("/v1/plan").send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(
        json(response).await["error"]
            .as_str()
            .unwrap()
            .contains("vantage")
    );
    aggregator.stop().await;
}

#[tokio::test]
async fn stopping_ends_the_streams_instead_of_waiting_for_their_readers() {
    let aggregator = Running::start().await;
    let mut lines = Lines::open(&aggregator, "n1/pod").await;
    lines.next().await;
    aggregator.stop().await;
    while lines.next().await.is_some() {}
}
