//! Unavailability of the API server: the aggregator must report it, keep retrying, and then process what has changed.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context;
use tokio::time::{Instant, sleep};

use super::{IncidentRun, POLL_INTERVAL};
use crate::{api_client::AggregatorState, cluster::Cluster};

/// Timeout until the aggregator notices: its retries are up to half a minute apart.
const NOTICE_TIMEOUT: Duration = Duration::from_mins(1);

impl IncidentRun {
    /// Makes the API server unreachable, or reachable again.
    pub(super) async fn set_reachable(&mut self, reachable: bool) -> anyhow::Result<()> {
        let publisher = self.publisher.as_mut().context("the topology is not published")?;
        publisher.set_reachable(reachable).await
    }

    /// Checks that the aggregator reports the failure and keeps retrying. Returns what is wrong.
    pub(super) async fn check_unavailability_reported(&mut self) -> anyhow::Result<Option<String>> {
        let reported = |state: &AggregatorState| state.topology_error.is_some();
        if !self.wait_until(reported).await? {
            return Ok(Some(
                "the aggregator does not report that the API server is unavailable".to_owned(),
            ));
        }
        let state = self.state().await?;
        self.known_revision = state.topology_revision;
        let counted = state.counters.counted;
        let more =
            move |state: &AggregatorState| state.topology_error.is_some() && state.counters.counted > counted;
        Ok((!self.wait_until(more).await?)
            .then(|| "the aggregator does not retry while the API server is unavailable".to_owned()))
    }

    /// Checks that the aggregator reads the current cluster again. Returns what is wrong.
    pub(super) async fn check_recovery(&mut self) -> anyhow::Result<Option<String>> {
        let lab = self.lab.as_ref().context("the lab is not running")?;
        let (wanted, before) = (vantages(lab.cluster()), self.known_revision);
        let current = move |state: &AggregatorState| {
            let reporting = state.vantages.iter().map(|vantage| vantage.vantage.clone());
            state.topology_error.is_none()
                && state.topology_revision > before
                && reporting.collect::<BTreeSet<_>>() == wanted
        };
        Ok((!self.wait_until(current).await?)
            .then(|| "the aggregator misses changes made while the API server was unavailable".to_owned()))
    }

    async fn wait_until(&mut self, wanted: impl Fn(&AggregatorState) -> bool) -> anyhow::Result<bool> {
        let start = Instant::now();
        loop {
            if wanted(&self.state().await?) {
                return Ok(true);
            }
            if start.elapsed() > NOTICE_TIMEOUT {
                return Ok(false);
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns the vantages of all probers in the current cluster.
pub(super) fn vantages(cluster: &Cluster) -> BTreeSet<String> {
    let pods = cluster.present_nodes().filter(|node| node.probes);
    let hosts = cluster.present_nodes().filter(|node| node.host_prober);
    pods.map(|node| format!("{}/pod", node.name))
        .chain(hosts.map(|node| format!("{}/host", node.name)))
        .chain(cluster.outside.iter().map(|outside| outside.vantage.to_string()))
        .collect()
}
