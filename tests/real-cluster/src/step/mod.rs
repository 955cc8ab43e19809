//! Steps as data: events in the cluster, and what Parallax may report about them.
//!
//! The files are in `tests/real-cluster/steps/`, one per step; docs/contributing/testing.md explains their fields.
//! Unknown fields are rejected, because a misspelt expectation would otherwise always hold.

mod action;
mod condition;
mod expected;
mod load;
mod names;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use action::{
    Action, ApplicationBehaviour, Certificate, CertificateKind, ContainerKill, HelmAction, HoldTime,
    ImageSelection, InstallAction, MeasuredActions, RepeatedActions, WhichPods,
};
pub use condition::{BoundedCondition, Condition, PodSelector, Rollout, WorkloadName};
pub use expected::{ExpectedOutcome, IncidentPattern};
pub use load::{StepError, list, parse};
pub use names::{Names, resolve};

/// A step: one event in a cluster.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// Name on the command line: the file's name, followed by a slash and the variant's name if there are variants.
    #[serde(skip)]
    pub id: String,
    /// One line for lists.
    pub title: String,
    /// What happens and why it matters, for readers.
    #[serde(default)]
    pub description: String,
    /// Whether something is wrong with the cluster.
    pub kind: Kind,
    /// The installation before the step begins.
    #[serde(default)]
    pub installation: Installation,
    /// Requirements of the step.
    #[serde(default)]
    pub needs: Vec<StepRequirement>,
    /// Actions before the cluster must be quiet.
    #[serde(default)]
    pub prepare: Vec<Action>,
    /// The event or the fault.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
    /// Actions during the fault, once it is named and its alert fires.
    #[serde(default)]
    pub then: Vec<Action>,
    /// Seconds of observation after `do` and `then`.
    pub watch: u64,
    /// Actions that repair the fault.
    #[serde(default)]
    pub cure: Vec<Action>,
    /// Actions of an ordinary step after the observation, such as an uninstallation. Parallax's reports are not judged
    /// while they run; an action that fails, or takes too long, fails the step.
    #[serde(default)]
    pub after: Vec<Action>,
    /// Actions that restore the initial state, after the judgement.
    #[serde(default)]
    pub clean: Vec<Action>,
    /// What must be reported, and what may be.
    #[serde(default)]
    pub expect: ExpectedOutcome,
    /// Several steps in one file: `${KEY}` in the file is replaced by the variant's value.
    #[serde(default)]
    pub variants: BTreeMap<String, BTreeMap<String, String>>,
}

/// Whether something is wrong with the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No: Parallax must be silent.
    Ordinary,
    /// Yes: Parallax must name it.
    Fault,
}

/// How Parallax is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Installation {
    /// Like `deploy/install.yaml`: one aggregator without persistence.
    #[default]
    Plain,
    /// One aggregator with a store on a volume.
    Store,
    /// Two aggregators.
    Two,
}

/// Requirement of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRequirement {
    /// The product's image trusts the suite's root certificate, which one from a registry does not.
    TrustedRoot,
    /// A hook in addition to kubectl: `PARALLAX_REAL_CLUSTER_HOOK`.
    Hook,
}

impl Step {
    /// Reports whether the preparation installs the previous version of Parallax.
    #[must_use]
    pub fn prepares_previous_version(&self) -> bool {
        self.prepare.iter().any(Action::installs_previous_version)
    }

    /// Reports whether the step calls the hook.
    #[must_use]
    pub fn uses_hook(&self) -> bool {
        [
            &self.prepare,
            &self.actions,
            &self.then,
            &self.cure,
            &self.after,
            &self.clean,
        ]
        .into_iter()
        .flatten()
        .any(Action::uses_hook)
    }
}
