//! An API server that goes away and comes back, and what the aggregator must make of it: it says so, asks on, and then takes
//! up what has changed.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context;
use tokio::time::{Instant, sleep};

use super::{IncidentRun, PAUSE};
use crate::{api_client::AggregatorState, cluster::Cluster};

/// Longest time until the aggregator notices: tries to reach an API server are up to half a minute apart.
const NOTICED: Duration = Duration::from_mins(1);

impl IncidentRun {
    /// Makes the API server unreachable, or reachable again.
    pub(super) async fn set_reachable(&mut self, reachable: bool) -> anyhow::Result<()> {
        let publisher = self.publisher.as_mut().context("nobody publishes")?;
        publisher.reachable(reachable).await
    }

    /// The aggregator says that it cannot read the cluster, and goes on asking. Answers what is wrong.
    pub(super) async fn notices_absence(&mut self) -> anyhow::Result<Option<String>> {
        let said = |state: &AggregatorState| state.topology_error.is_some();
        if !self.becomes(said).await? {
            return Ok(Some("that the API server is away is not said".to_owned()));
        }
        let state = self.state().await?;
        self.known_revision = state.topology_revision;
        let counted = state.counters.counted;
        let more =
            move |state: &AggregatorState| state.topology_error.is_some() && state.counters.counted > counted;
        Ok((!self.becomes(more).await?).then(|| "nothing is asked while the API server is away".to_owned()))
    }

    /// The aggregator reads the cluster again, and as it now is. Answers what is wrong.
    pub(super) async fn notices_return(&mut self) -> anyhow::Result<Option<String>> {
        let lab = self.lab.as_ref().context("there is no lab")?;
        let (wanted, before) = (vantages(lab.cluster()), self.known_revision);
        let current = move |state: &AggregatorState| {
            let there = state.vantages.iter().map(|vantage| vantage.vantage.clone());
            state.topology_error.is_none()
                && state.topology_revision > before
                && there.collect::<BTreeSet<_>>() == wanted
        };
        Ok((!self.becomes(current).await?)
            .then(|| "what has changed while the API server was away is not taken up".to_owned()))
    }

    async fn becomes(&mut self, wanted: impl Fn(&AggregatorState) -> bool) -> anyhow::Result<bool> {
        let start = Instant::now();
        loop {
            if wanted(&self.state().await?) {
                return Ok(true);
            }
            if start.elapsed() > NOTICED {
                return Ok(false);
            }
            sleep(PAUSE).await;
        }
    }
}

/// Everywhere where the cluster as it now is has a prober.
pub(super) fn vantages(cluster: &Cluster) -> BTreeSet<String> {
    let pods = cluster.present().filter(|node| node.probes);
    let hosts = cluster.present().filter(|node| node.host_prober);
    pods.map(|node| format!("{}/pod", node.name))
        .chain(hosts.map(|node| format!("{}/host", node.name)))
        .chain(cluster.outside.iter().map(|outside| outside.vantage.to_string()))
        .collect()
}
