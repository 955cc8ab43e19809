//! Actions of a step.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::BoundedCondition;
use crate::app::Behaviour;

/// One action of a step.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Action {
    /// Runs kubectl with these arguments; a non-zero exit code fails the step.
    Kubectl(Vec<String>),
    /// `kubectl apply -f -` with these objects.
    Apply(String),
    /// `kubectl delete -f - --ignore-not-found` with these objects.
    Delete(String),
    /// Calls the hook. What `break` breaks is restored at the end of the step, whatever happens.
    Hook(Vec<String>),
    /// Changes the behaviour of the test application's Pods.
    Behave(ApplicationBehaviour),
    /// Writes a Secret of type `kubernetes.io/tls`.
    Certificate(Certificate),
    /// Kills the first container of a Pod with SIGKILL, through the hook.
    Kill(ContainerKill),
    /// Applies the installation with other values.
    Install(InstallAction),
    /// Removes the installation; the next step installs it again.
    RemoveInstallation,
    /// Runs Helm with the installation as its release. A non-zero exit code fails the step.
    Helm(HelmAction),
    /// Measures how long actions take.
    Measure(MeasuredActions),
    /// Waits for a condition.
    Wait(BoundedCondition),
    /// Waits for a time that is part of the event.
    Hold(HoldTime),
    /// Repeats actions.
    Repeat(RepeatedActions),
}

/// New behaviour of Pods of the test application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApplicationBehaviour {
    /// All Pods, or the first one by node and name.
    pub pods: WhichPods,
    /// The behaviour.
    pub r#as: Behaviour,
}

/// A selection of Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhichPods {
    /// All of them.
    All,
    /// The first one by node and name.
    One,
}

/// A Secret with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Certificate {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// Host that clients ask for.
    pub host: String,
    /// Its defect.
    pub kind: CertificateKind,
}

/// Defect of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateKind {
    /// None; each one is new.
    Valid,
    /// It expired yesterday.
    Expired,
    /// It is for another host.
    OtherName,
    /// Its issuer is not trusted.
    PrivateAuthority,
}

/// The container to kill.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ContainerKill {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
}

/// An installation with other values.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct InstallAction {
    /// Values in addition to those of the step's installation, as for `helm template --values`.
    pub values: Map<String, Value>,
    /// The image.
    pub image: ImageSelection,
}

/// The image of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImageSelection {
    /// The version that is tested.
    #[default]
    Tested,
    /// The version that is tested, with another tag.
    Renamed,
    /// The previous version, with its own chart.
    Previous,
}

/// A command of Helm for the release of the installation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum HelmAction {
    /// `helm install`; the cluster must have no installation.
    Install(InstallAction),
    /// `helm upgrade --reset-then-reuse-values`.
    Upgrade(InstallAction),
    /// `helm test`, which runs `parallax verify-install` in a Pod.
    Test,
    /// `helm rollback` to the previous revision.
    Rollback,
    /// `helm uninstall`.
    Uninstall,
}

/// Actions whose duration is measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MeasuredActions {
    /// What is measured, such as `helm test`.
    pub name: String,
    /// Limit in seconds. If they take longer, the step fails, but continues.
    #[serde(default)]
    pub within: Option<u64>,
    /// The actions.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

/// A time that is part of the event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HoldTime {
    /// Its duration.
    pub seconds: u64,
    /// Its meaning.
    pub because: String,
}

/// Repeated actions.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RepeatedActions {
    /// Number of repetitions.
    pub times: u32,
    /// The actions.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

impl Action {
    pub(super) fn uses_hook(&self) -> bool {
        self.contains(|action| matches!(action, Self::Hook(_) | Self::Kill(_)))
    }

    pub(super) fn installs_previous_version(&self) -> bool {
        self.contains(|action| match action {
            Self::Install(install)
            | Self::Helm(HelmAction::Install(install) | HelmAction::Upgrade(install)) => {
                install.image == ImageSelection::Previous
            }
            _ => false,
        })
    }

    /// Reports whether the action, or one that it repeats or measures, is such an action.
    fn contains(&self, is_such: fn(&Self) -> bool) -> bool {
        let nested = match self {
            Self::Repeat(repeat) => repeat.actions.as_slice(),
            Self::Measure(measure) => measure.actions.as_slice(),
            _ => &[],
        };
        is_such(self) || nested.iter().any(|action| action.contains(is_such))
    }

    /// Describes it briefly, for terminal and report.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Kubectl(arguments) => format!("kubectl {}", arguments.join(" ")),
            Self::Apply(_) => "kubectl apply".to_owned(),
            Self::Delete(_) => "kubectl delete".to_owned(),
            Self::Hook(arguments) => format!("hook {}", arguments.join(" ")),
            Self::Behave(behave) => format!("the application: {:?} {:?}", behave.pods, behave.r#as),
            Self::Certificate(certificate) => {
                format!("certificate of {}: {:?}", certificate.host, certificate.kind)
            }
            Self::Kill(kill) => format!("kill the container of {}", kill.pod),
            Self::Install(install) => format!("install {}", install.describe()),
            Self::RemoveInstallation => "remove the installation".to_owned(),
            Self::Helm(helm) => helm.describe(),
            Self::Measure(measure) => measure.name.clone(),
            Self::Wait(wait) => format!("wait for {:?}", wait.r#for),
            Self::Hold(hold) => format!("{} s: {}", hold.seconds, hold.because),
            Self::Repeat(repeat) => format!("{} times", repeat.times),
        }
    }
}

impl InstallAction {
    /// Returns the additional values as one value.
    #[must_use]
    pub fn value(&self) -> Value {
        Value::Object(self.values.clone())
    }

    fn describe(&self) -> String {
        match self.image {
            ImageSelection::Tested if self.values.is_empty() => "with the default values".to_owned(),
            ImageSelection::Tested => format!("with {}", self.value()),
            ImageSelection::Renamed => "the image with another tag".to_owned(),
            ImageSelection::Previous => "the previous version".to_owned(),
        }
    }
}

impl HelmAction {
    fn describe(&self) -> String {
        match self {
            Self::Install(install) => format!("helm install {}", install.describe()),
            Self::Upgrade(install) => format!("helm upgrade {}", install.describe()),
            Self::Test => "helm test".to_owned(),
            Self::Rollback => "helm rollback".to_owned(),
            Self::Uninstall => "helm uninstall".to_owned(),
        }
    }
}
