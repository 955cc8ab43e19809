//! Queries the state of every aggregator.

use std::cell::RefCell;

use super::{AggregatorState, Clock, StateSample, Timeline, aggregators};
use crate::cluster::{Cluster, PodView};

/// Port of page and API.
const PORT: u16 = 8080;

/// Queries each of them once, for its own state and not its leader's.
pub(super) async fn sample_all(cluster: &Cluster, clock: Clock, timeline: &RefCell<Timeline>) {
    for pod in aggregators(cluster)
        .into_iter()
        .filter(|pod| pod.address.is_some())
    {
        let state = ask(cluster, &pod).await.map_err(|error| format!("{error:#}"));
        timeline.borrow_mut().samples.push(StateSample {
            at: clock.now(),
            pod: pod.name,
            state,
        });
    }
}

async fn ask(cluster: &Cluster, pod: &PodView) -> anyhow::Result<AggregatorState> {
    let headers = [("parallax-forwarded-by", "real-cluster")];
    let answer = cluster.pod_access.get(pod, PORT, "/v1/state", &headers).await?;
    anyhow::ensure!(answer.status.is_success(), "{}", answer.status);
    Ok(AggregatorState::read(&answer.body)?)
}
