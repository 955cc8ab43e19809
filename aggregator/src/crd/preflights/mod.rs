//! `Preflight`: will the certificate be issued? Asked by an object, so that a pipeline can wait for the answer.
//!
//! The aggregator does not follow these objects: what a preflight creates takes rights that it has not got.

mod definition;
mod status;
mod summary;

#[cfg(test)]
mod tests;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use definition::definition;
pub use status::{CauseStatus, GroupStatus, HostStatus, PreflightStatus, VerdictStatus};
pub use summary::{ConditionSummary, MOST_HOSTS, host, ready, verdicts};

/// What a preflight is asked for.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "parallax.dev",
    version = "v1alpha1",
    kind = "Preflight",
    namespaced,
    status = "PreflightStatus",
    category = "parallax",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Self check","type":"string","jsonPath":".status.conditions[?(@.type==\"SelfCheckPassed\")].status"}"#,
    printcolumn = r#"{"name":"CA","type":"string","jsonPath":".status.conditions[?(@.type==\"CAPassed\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"What","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own")]
pub struct PreflightBody {
    /// The names; those of `certificateRef` or `ingressRef` where absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The issuer whose solver would answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerReference>,
    /// No issuer: an Ingress of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// No issuer: an `HTTPRoute` on this Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<GatewayReference>,
    /// A Certificate of the same namespace: its names, its issuer, its labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ref: Option<ObjectReference>,
    /// An Ingress of the same namespace: its hosts, and the issuer that its annotations name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_ref: Option<ObjectReference>,
    /// Whose rules the CA's verdict follows: `boulder` (Let's Encrypt's server, the default) or `pebble` (its test server).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The name the authority goes by in CAA records, where the issuer's directory does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caa_identity: Option<String>,
    /// Not ready also where it passes only because of the node that cert-manager's pod is on now.
    #[serde(default, skip_serializing_if = "is_no")]
    pub strict: bool,
    /// Create nothing: look at the way that is there already.
    #[serde(default, skip_serializing_if = "is_no")]
    pub no_create: bool,
    /// Five fetches two seconds apart, as cert-manager makes them, in place of one.
    #[serde(default, skip_serializing_if = "is_no")]
    pub faithful_timing: bool,
    /// Create also what costs money: an Ingress of a class that makes a balancer.
    #[serde(default, skip_serializing_if = "is_no")]
    pub allow_billable: bool,
    /// How long the responder and its route may take to answer, 1 to 3600 seconds; 60 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_seconds: Option<u32>,
    /// The object is removed so many seconds after its end; never where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<u32>,
    /// Any word; another one has the same preflight made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<String>,
}

/// An object of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Its name.
    pub name: String,
}

/// Who would issue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IssuerReference {
    /// Its name.
    pub name: String,
    /// `Issuer` (the default) or `ClusterIssuer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A Gateway.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GatewayReference {
    /// Its name.
    pub name: String,
    /// Its namespace; that of the Preflight where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_no(flag: &bool) -> bool {
    !*flag
}
