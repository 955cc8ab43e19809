//! What a step waits for.

use serde::Deserialize;

/// A condition with a limit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BoundedCondition {
    /// What must become so.
    pub r#for: Condition,
    /// Within how many seconds.
    #[serde(default = "two_minutes")]
    pub within: u64,
    /// That it becomes so is up to Parallax, so the step fails otherwise; else nothing is proved.
    #[serde(default)]
    pub by_parallax: bool,
}

const fn two_minutes() -> u64 {
    120
}

/// Something that becomes so by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Condition {
    /// A roll-out is complete.
    Rollout(Rollout),
    /// Exactly so many pods are there, all of them ready.
    Pods(PodSelector),
    /// A Job is complete.
    Complete(WorkloadName),
    /// A namespace is gone.
    NamespaceGone(String),
    /// The API server answers.
    ApiServer,
    /// A node is Ready.
    NodeReady(String),
    /// A node is not Ready, or gone.
    NodeNotReady(String),
    /// A vantage on every node reports.
    Reporting,
    /// Exactly so many vantages report, and none is silent.
    Vantages(usize),
    /// An aggregator leads and another one stands by.
    StandBy,
    /// The expected incident is open.
    Named,
    /// `ParallaxIncident` of the expected incident fires.
    Firing,
    /// Requests of users to a destination fail.
    UsersFail(String),
    /// Requests of users to all destinations succeed.
    UsersServed,
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
    /// How many.
    pub count: usize,
}
