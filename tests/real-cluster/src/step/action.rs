//! What a step does.

use serde::Deserialize;
use serde_json::Value;

use super::BoundedCondition;
use crate::app::Behaviour;

/// One thing that a step does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Action {
    /// Runs kubectl with these arguments; another exit code than 0 fails the step.
    Kubectl(Vec<String>),
    /// `kubectl apply -f -` with these objects.
    Apply(String),
    /// `kubectl delete -f - --ignore-not-found` with these objects.
    Delete(String),
    /// Calls the hook. What a `break` breaks is restored at the step's end, whatever happens.
    Hook(Vec<String>),
    /// Changes what pods of the test application do to their clients.
    Behave(ApplicationBehaviour),
    /// Writes a Secret of type `kubernetes.io/tls`.
    Certificate(Certificate),
    /// Ends the first container of a pod with SIGKILL, by the hook.
    Kill(ContainerKill),
    /// Applies the installation with other values.
    Install(InstallAction),
    /// Waits until something is so.
    Wait(BoundedCondition),
    /// Lasts for a time that is part of the event.
    Hold(HoldTime),
    /// Does the same several times.
    Repeat(RepeatedActions),
}

/// Which pods of the test application behave how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ApplicationBehaviour {
    /// All of them, or the first one by node and name.
    pub pods: WhichPods,
    /// What they do.
    pub r#as: Behaviour,
}

/// Which pods.
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
    /// What is wrong with it.
    pub kind: CertificateKind,
}

/// What is wrong with a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateKind {
    /// Nothing; each one is new.
    Valid,
    /// It ended yesterday.
    Expired,
    /// It is for another host.
    OtherName,
    /// Nobody knows its issuer.
    PrivateAuthority,
}

/// Which container ends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ContainerKill {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
}

/// The installation with other values.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct InstallAction {
    /// Values beside those of the step's installation, as `parallax manifests --values` takes them.
    pub values: Value,
    /// The image under its other tag.
    pub upgrade: bool,
}

/// A time that is part of the event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HoldTime {
    /// How long.
    pub seconds: u64,
    /// What it is.
    pub because: String,
}

/// Actions that are done several times.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RepeatedActions {
    /// How often.
    pub times: u32,
    /// What is done.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
}

impl Action {
    pub(super) fn uses_hook(&self) -> bool {
        match self {
            Self::Hook(_) | Self::Kill(_) => true,
            Self::Repeat(repeat) => repeat.actions.iter().any(Self::uses_hook),
            _ => false,
        }
    }

    /// In a few words, for the terminal and the report.
    #[must_use]
    pub fn words(&self) -> String {
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
            Self::Install(install) if install.upgrade => "upgrade Parallax".to_owned(),
            Self::Install(install) => format!("install with {}", install.values),
            Self::Wait(wait) => format!("wait for {:?}", wait.r#for),
            Self::Hold(hold) => format!("{} s: {}", hold.seconds, hold.because),
            Self::Repeat(repeat) => format!("{} times", repeat.times),
        }
    }
}
