//! Steps as data: what happens to the cluster, and what Parallax may say about it.
//!
//! The files live in `tests/real-cluster/steps/`, one a step; docs/contributing/testing.md explains their fields. Unknown fields are
//! refused, since a misspelt expectation would hold for ever.

mod action;
mod condition;
mod expected;
mod load;
mod names;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use action::{
    Action, ApplicationBehaviour, Certificate, CertificateKind, ContainerKill, HoldTime, InstallAction,
    RepeatedActions, WhichPods,
};
pub use condition::{BoundedCondition, Condition, PodSelector, Rollout, WorkloadName};
pub use expected::{ExpectedOutcome, IncidentPattern};
pub use load::{StepError, list, parse};
pub use names::{Names, resolve};

/// A step: one event in the life of a cluster.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// Name on the command line: the file's name, with that of the variant behind a slash.
    #[serde(skip)]
    pub id: String,
    /// One line for lists.
    pub title: String,
    /// What happens and why it matters, for people.
    #[serde(default)]
    pub description: String,
    /// Whether something is wrong with the cluster.
    pub kind: Kind,
    /// What is installed before the step begins.
    #[serde(default)]
    pub installation: Installation,
    /// What the step cannot do without.
    #[serde(default)]
    pub needs: Vec<StepRequirement>,
    /// Before the cluster must be quiet.
    #[serde(default)]
    pub prepare: Vec<Action>,
    /// The event or the fault.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
    /// What happens while the fault lasts, once it is named and its alert fires.
    #[serde(default)]
    pub then: Vec<Action>,
    /// Seconds after `do` and `then` in which Parallax is watched.
    pub watch: u64,
    /// Ends the fault.
    #[serde(default)]
    pub cure: Vec<Action>,
    /// Puts things back where they were, after the judgement.
    #[serde(default)]
    pub clean: Vec<Action>,
    /// What must be said, and what may be.
    #[serde(default)]
    pub expect: ExpectedOutcome,
    /// Several steps in one file: `${KEY}` in the file stands for the variant's value.
    #[serde(default)]
    pub variants: BTreeMap<String, BTreeMap<String, String>>,
}

/// Whether something is wrong with the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing: Parallax must be silent.
    Ordinary,
    /// Something: Parallax must name it.
    Fault,
}

/// How Parallax is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Installation {
    /// As `deploy/install.yaml` has it: one aggregator, nothing kept.
    #[default]
    Plain,
    /// One aggregator with a store on a volume.
    Store,
    /// Two aggregators.
    Two,
}

/// What a step cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRequirement {
    /// The product's image trusts the suite's root certificate, which one from a registry does not.
    TrustedRoot,
    /// Something beside kubectl: `PARALLAX_REAL_CLUSTER_HOOK`.
    Hook,
}

impl Step {
    /// Whether the step calls the hook.
    #[must_use]
    pub fn uses_hook(&self) -> bool {
        [&self.prepare, &self.actions, &self.then, &self.cure, &self.clean]
            .into_iter()
            .flatten()
            .any(Action::uses_hook)
    }
}
