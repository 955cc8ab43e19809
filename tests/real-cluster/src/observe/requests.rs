//! Fetches the logs of the control clients.

use std::{cell::RefCell, collections::BTreeMap};

use super::{Clock, Request, Timeline};
use crate::{
    client,
    cluster::{Cluster, PodView},
    install::CLIENTS,
};

/// Port of the log.
const PORT: u16 = 8082;

/// Positions up to which each log was read, by Pod.
#[derive(Debug, Default)]
pub(super) struct LogPositions {
    read: BTreeMap<String, (u64, u64)>,
}

impl LogPositions {
    /// Reads new entries. An unreachable client is tried again later: its log covers more than an hour.
    pub(super) async fn fetch(&mut self, cluster: &Cluster, clock: Clock, timeline: &RefCell<Timeline>) {
        for pod in cluster.pods.in_namespace(CLIENTS, "app=shopper") {
            let Ok(page) = self.page(cluster, &pod).await else {
                continue;
            };
            let requests = page.entries.iter().map(|entry| Request {
                at: clock.of_theirs(entry.at, page.now),
                ms: entry.ms,
                node: pod.node.clone(),
                to: entry.to.clone(),
                error: entry.error.clone(),
            });
            timeline.borrow_mut().requests.extend(requests);
        }
    }

    async fn page(&mut self, cluster: &Cluster, pod: &PodView) -> anyhow::Result<client::Page> {
        let (process, after) = self.read.get(&pod.name).copied().unwrap_or_default();
        let mut page = fetch(cluster, pod, after).await?;
        if page.process != process && after > 0 {
            // A new process has restarted its sequence numbers.
            page = fetch(cluster, pod, 0).await?;
        }
        let last = page.entries.iter().map(|entry| entry.seq).max();
        let same = if page.process == process { after } else { 0 };
        self.read
            .insert(pod.name.clone(), (page.process, last.unwrap_or(same)));
        Ok(page)
    }
}

async fn fetch(cluster: &Cluster, pod: &PodView, after: u64) -> anyhow::Result<client::Page> {
    let path = format!("/log?after={after}");
    let answer = cluster.pod_access.get(pod, PORT, &path, &[]).await?;
    anyhow::ensure!(answer.status.is_success(), "{}", answer.status);
    Ok(serde_json::from_slice(&answer.body)?)
}
