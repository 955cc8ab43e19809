//! Waits for conditions.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Namespace, Node},
};
use kube::Api;
use tokio::time::{Instant, sleep, timeout};

use super::{SuiteRun, live_names::LiveNames};
use crate::{
    cluster::ready,
    install::{MissingComponent, NAMESPACE, leftovers},
    judge::UserRequests,
    observe::aggregators,
    step::{BoundedCondition, Condition, Step, resolve},
};

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// Parallax did not do what is expected.
#[derive(Debug)]
pub(super) struct UnmetCondition(String);

impl UnmetCondition {
    /// States what Parallax did not do.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for UnmetCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnmetCondition {}

impl SuiteRun {
    pub(super) async fn wait(
        &self,
        step: &Step,
        wait: &BoundedCondition,
        names: &LiveNames<'_>,
    ) -> anyhow::Result<()> {
        if let Condition::Rollout(rollout) = &wait.r#for {
            let patience = format!("--timeout={}s", wait.within);
            let (namespace, of) = (resolve(&rollout.namespace, names)?, resolve(&rollout.of, names)?);
            let arguments = ["-n", &namespace, "rollout", "status", &of, &patience];
            return match self.cluster.kubectl.run(&arguments).await {
                Err(error) if wait.by_parallax => Err(UnmetCondition(format!("{error:#}")).into()),
                other => other.map(|_| ()),
            };
        }
        if matches!(wait.r#for, Condition::NothingLeft) {
            return self.nothing_left(Duration::from_secs(wait.within)).await;
        }
        if matches!(wait.r#for, Condition::Firing) && self.prometheus.is_none() {
            return Err(MissingComponent("a Prometheus".to_owned()).into());
        }
        let begin = Instant::now();
        loop {
            // An API server that does not respond proves nothing about the condition.
            let holds = timeout(REQUEST_TIMEOUT, self.holds(step, &wait.r#for, names)).await;
            if matches!(holds, Ok(Ok(true))) {
                return Ok(());
            }
            if begin.elapsed() > Duration::from_secs(wait.within) {
                let words = format!("does not hold after {} s", wait.within);
                return Err(match holds {
                    _ if wait.by_parallax => UnmetCondition(words).into(),
                    Ok(Err(error)) => error.context(words),
                    _ => anyhow::anyhow!(words),
                });
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the cluster has no object of the uninstalled release. Each look takes kubectl several seconds.
    async fn nothing_left(&self, patience: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        loop {
            let left = leftovers(&self.cluster).await?;
            if left.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > patience {
                let left = left.into_iter().collect::<Vec<_>>().join(", ");
                return Err(
                    UnmetCondition(format!("still there after {} s: {left}", patience.as_secs())).into(),
                );
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn holds(&self, step: &Step, condition: &Condition, names: &LiveNames<'_>) -> anyhow::Result<bool> {
        let client = &self.cluster.client;
        Ok(match condition {
            Condition::Rollout(_) | Condition::NothingLeft => false,
            Condition::Pods(pods) => {
                self.cluster
                    .pods
                    .include_namespace(&resolve(&pods.namespace, names)?);
                self.cluster.pods.refresh().await;
                let found = self
                    .cluster
                    .pods
                    .in_namespace(&resolve(&pods.namespace, names)?, &pods.selector);
                found.len() == pods.count && found.iter().all(|pod| pod.ready && !pod.terminating)
            }
            Condition::Complete(job) => {
                let api = Api::<Job>::namespaced(client.clone(), &job.namespace);
                let status = api.get(&job.name).await?.status;
                status.and_then(|status| status.succeeded).unwrap_or_default() > 0
            }
            Condition::NamespaceGone(name) => {
                let api = Api::<Namespace>::all(client.clone());
                api.get_opt(&resolve(name, names)?).await?.is_none()
            }
            Condition::ApiServer => self.cluster.pods.refresh().await,
            Condition::NodeReady(name) => {
                let api = Api::<Node>::all(client.clone());
                let node = api.get_opt(&resolve(name, names)?).await?;
                node.is_some_and(|node| ready(&node))
            }
            Condition::NodeNotReady(name) => {
                let api = Api::<Node>::all(client.clone());
                let node = api.get_opt(&resolve(name, names)?).await?;
                !node.is_some_and(|node| ready(&node))
            }
            Condition::Reporting => self.all_report(),
            Condition::Vantages(count) => {
                let timeline = self.observer.timeline.borrow();
                let newest = timeline.newest(self.observer.clock.now(), 3.0);
                let fine = newest
                    .values()
                    .all(|state| state.reporting.len() == *count && state.silent.is_empty());
                fine && !newest.is_empty()
            }
            Condition::StandBy => {
                let timeline = self.observer.timeline.borrow();
                let newest = timeline.newest(self.observer.clock.now(), 3.0);
                let roles: Vec<&str> = newest.values().map(|state| state.role.as_str()).collect();
                roles.contains(&"leads") && roles.contains(&"stands_by")
            }
            Condition::Named => !self.named(step).is_empty(),
            Condition::Firing => {
                let ids = self.named(step);
                let timeline = self.observer.timeline.borrow();
                timeline.alerts_now().iter().any(|alert| {
                    let id = alert.labels.get("incident");
                    alert.firing && alert.name == "ParallaxIncident" && id.is_some_and(|id| ids.contains(id))
                })
            }
            Condition::UsersFail(to) => {
                let timeline = self.observer.timeline.borrow();
                UserRequests::new(&timeline.requests).fail_at(to, self.observer.clock.now() - 2.0)
            }
            Condition::UsersServed => self.user_failure().is_none(),
        })
    }

    /// Returns ids of open incidents that the step expects.
    pub(super) fn named(&self, step: &Step) -> Vec<String> {
        let timeline = self.observer.timeline.borrow();
        let newest = timeline.newest(self.observer.clock.now(), 3.0);
        let open = newest.values().flat_map(|state| state.open());
        open.filter(|incident| step.expect.named.iter().any(|saying| saying.matches(incident)))
            .map(|incident| incident.id.clone())
            .collect()
    }

    /// Reports whether a vantage on every node reports to every aggregator.
    pub(super) fn all_report(&self) -> bool {
        let running = aggregators(&self.cluster);
        let timeline = self.observer.timeline.borrow();
        let newest = timeline.newest(self.observer.clock.now(), 3.0);
        let all_report = |pods: usize| pods > 0 && newest.len() >= pods;
        all_report(running.iter().filter(|pod| !pod.terminating).count())
            && newest.values().all(|state| {
                let from = |node: &String| format!("{node}/pod");
                let nodes = self.cluster.nodes.iter();
                nodes.map(from).all(|vantage| state.reporting.contains(&vantage)) && state.silent.is_empty()
            })
            && running.iter().all(|pod| pod.namespace == NAMESPACE)
    }

    /// Returns the first reason why not all requests of every client in the last ten seconds succeeded, if so.
    pub(super) fn user_failure(&self) -> Option<String> {
        let now = self.observer.clock.now();
        let timeline = self.observer.timeline.borrow();
        let recent = timeline
            .requests
            .iter()
            .rev()
            .filter(|request| request.at > now - 10.0);
        let mut nodes = BTreeSet::new();
        for request in recent {
            nodes.insert(request.node.as_str());
            if let Some(error) = &request.error {
                return Some(format!(
                    "users on {} are not served at {}: {error}",
                    request.node, request.to
                ));
            }
        }
        let silent = self
            .cluster
            .nodes
            .iter()
            .find(|node| !nodes.contains(node.as_str()));
        silent.map(|node| format!("no data from the control client on {node}"))
    }
}
