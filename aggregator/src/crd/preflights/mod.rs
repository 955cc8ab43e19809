//! `Preflight`: predicts whether a certificate will be issued, as an object that a pipeline can wait for.
//!
//! The aggregator does not watch these objects: a preflight creates objects for which the aggregator has no permission.

#[cfg(test)]
mod definition;
mod status;
mod summary;

#[cfg(test)]
mod tests;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(super) use definition::crd;
pub use status::{CauseStatus, GroupStatus, HostStatus, PreflightStatus, VerdictStatus};
pub use summary::{ConditionSummary, MAX_HOSTS, check_conditions, host_status, ready_condition};

/// The specification of a preflight.
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
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own")]
pub struct PreflightBody {
    /// Host names. Default: the names of `certificateRef` or `ingressRef`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The issuer whose solver would be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer_ref: Option<IssuerReference>,
    /// Instead of an issuer: an Ingress of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Instead of an issuer: an `HTTPRoute` on this Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_ref: Option<GatewayReference>,
    /// A Certificate in the same namespace, the source of names, issuer, labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_ref: Option<ObjectReference>,
    /// An Ingress in the same namespace, the source of host names and of the issuer (from its annotations).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_ref: Option<ObjectReference>,
    /// Rules of the CA verdict: `boulder` (Let's Encrypt's server, the default) or `pebble` (its test server).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The CA's name in CAA records, if the issuer's directory does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caa_identity: Option<String>,
    /// Report not ready if the self check passes only because of the node that cert-manager's Pod currently runs on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub strict: bool,
    /// Create no objects: test the existing path.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_create: bool,
    /// Fetch five times, two seconds apart, as cert-manager does, instead of once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub faithful_timing: bool,
    /// Also create objects that cost money: an Ingress of a class that provisions a load balancer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_billable: bool,
    /// Seconds that the responder and its route may take until they respond, 1 to 3600; default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_seconds: Option<u32>,
    /// Seconds after completion until the object is deleted. Default: it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<u32>,
    /// Any string; a different one starts the preflight again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<String>,
}

/// A reference to an object in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Name of the object.
    pub name: String,
}

/// A reference to an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct IssuerReference {
    /// Name of the issuer.
    pub name: String,
    /// `Issuer` (the default) or `ClusterIssuer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// A reference to a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GatewayReference {
    /// Name of the Gateway.
    pub name: String,
    /// Namespace of the Gateway. Default: the namespace of the Preflight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
