//! Conditions that a step waits for.

use serde::Deserialize;

/// A condition with a time limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BoundedCondition {
    /// The condition.
    pub r#for: Condition,
    /// Limit in seconds.
    #[serde(default = "two_minutes")]
    pub within: u64,
    /// Whether Parallax is responsible for it, so that the step fails otherwise; if not, the step proves nothing.
    #[serde(default)]
    pub by_parallax: bool,
}

const fn two_minutes() -> u64 {
    120
}

/// A condition that becomes true by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Condition {
    /// A rollout is complete.
    Rollout(Rollout),
    /// Exactly this number of Pods exist, all of them ready.
    Pods(PodSelector),
    /// A Job is complete.
    Complete(WorkloadName),
    /// A namespace is deleted.
    NamespaceGone(String),
    /// The API server responds.
    ApiServer,
    /// A node is Ready.
    NodeReady(String),
    /// A node is not Ready, or deleted.
    NodeNotReady(String),
    /// A vantage on every node reports.
    Reporting,
    /// Exactly this number of vantages report, and none is silent.
    Vantages(usize),
    /// One aggregator leads and another one is on standby.
    StandBy,
    /// The expected incident is open.
    Named,
    /// `ParallaxIncident` of the expected incident fires.
    Firing,
    /// Users' requests to a destination fail.
    UsersFail(String),
    /// Users' requests to all destinations succeed.
    UsersServed,
    /// The cluster has no object of the uninstalled release.
    NothingLeft,
}

/// A workload by kind and name, as `deployment/shop`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rollout {
    /// Its namespace.
    pub namespace: String,
    /// Kind and name.
    pub of: String,
}

/// An object by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkloadName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Pods by label.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PodSelector {
    /// Their namespace.
    pub namespace: String,
    /// Their labels, as `app=shop`.
    pub selector: String,
    /// Their number.
    pub count: usize,
}
