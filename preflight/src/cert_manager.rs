//! cert-manager's objects, reduced to the fields that a preflight needs. Every field may be missing or null;
//! unknown fields are ignored.

use std::{collections::BTreeMap, fmt};

use parallax_kubernetes::null_fields::remove_nulls;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Deserializes an object of the API; a null field is treated as absent.
///
/// # Errors
/// serde's message with the field's name, if the object is of another kind or version.
pub fn from_object<T: DeserializeOwned>(mut object: Value) -> Result<T, String> {
    remove_nulls(&mut object);
    serde_json::from_value(object).map_err(|error| error.to_string())
}

/// The response of a solver: `token.thumbprint`. It is not a secret, because it is published over HTTP, but it is
/// kept out of logs: `Debug` does not print it.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct KeyAuthorization(String);

impl KeyAuthorization {
    /// The text, to compare with a response.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyAuthorization(…)")
    }
}

macro_rules! tolerant {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $type,)+
        }
    };
}

tolerant!(
    /// The fields of `metadata` that are used.
    Meta {
        /// The object's name.
        name: String,
        /// The namespace; empty for cluster-scoped objects.
        namespace: String,
        /// The UID; a later object of the same name has another one.
        uid: String,
        /// The generation of the spec.
        generation: i64,
        /// The creation time, RFC 3339.
        creation_timestamp: String,
        /// The time at which deletion was requested, RFC 3339.
        deletion_timestamp: Option<String>,
        /// The labels.
        labels: BTreeMap<String, String>,
        /// The annotations.
        annotations: BTreeMap<String, String>,
    }
);
tolerant!(
    /// `Issuer` and `ClusterIssuer`.
    Issuer {
        /// Name and namespace.
        metadata: Meta,
        /// The desired state.
        spec: IssuerSpec,
        /// The observed state.
        status: IssuerStatus,
    }
);
tolerant!(
    /// The `spec` of an issuer. Of the several issuer types only ACME matters here.
    IssuerSpec {
        /// The ACME settings; absent for other issuer types.
        acme: Option<Acme>,
    }
);
tolerant!(
    /// The `status` of an issuer.
    IssuerStatus {
        /// The status of an ACME issuer.
        acme: Option<AcmeStatus>,
    }
);
tolerant!(
    /// The registered ACME account.
    AcmeStatus {
        /// The account URL, to which CAA records may be bound (RFC 8657).
        uri: String,
    }
);
tolerant!(
    /// An ACME account and its solvers.
    Acme {
        /// The directory URL.
        server: String,
        /// The solvers; their order matters, see [`super::pick`].
        solvers: Vec<Solver>,
    }
);
tolerant!(
    /// One solver.
    Solver {
        /// The names that the solver applies to; absent for all names.
        selector: Option<Selector>,
        /// The HTTP-01 settings.
        http01: Option<Http01>,
        /// The DNS-01 settings, which are not interpreted.
        dns01: Option<Map<String, Value>>,
        /// The time to wait in place of the self check (cert-manager 1.21), as Go writes a duration.
        wait_instead_of_self_check: Option<String>,
    }
);
tolerant!(
    /// The names that a solver applies to. All criteria that are set must match.
    Selector {
        /// Labels that the Certificate must have.
        match_labels: BTreeMap<String, String>,
        /// Exact names.
        dns_names: Vec<String>,
        /// Zones that contain the name.
        dns_zones: Vec<String>,
    }
);
tolerant!(
    /// How the solver answers an HTTP-01 challenge: exactly one of the two.
    Http01 {
        /// By an Ingress.
        ingress: Option<IngressSolver>,
        /// By an `HTTPRoute`.
        #[serde(rename = "gatewayHTTPRoute")]
        gateway_http_route: Option<GatewaySolver>,
    }
);
tolerant!(
    /// A new Ingress, or an existing one that is edited in place.
    IngressSolver {
        /// `ClusterIP` or `NodePort`.
        service_type: String,
        /// `spec.ingressClassName` of the Ingress.
        ingress_class_name: String,
        /// The annotation `kubernetes.io/ingress.class` of the Ingress.
        class: String,
        /// The name of an existing Ingress that is edited in place.
        name: String,
        /// Overrides of the solver's Pod.
        pod_template: Option<Value>,
        /// Labels and annotations that are added to the Ingress.
        ingress_template: Option<Template>,
    }
);
tolerant!(
    /// A new `HTTPRoute`.
    GatewaySolver {
        /// `ClusterIP` or `NodePort`.
        service_type: String,
        /// Labels of the route.
        labels: BTreeMap<String, String>,
        /// The Gateways of the route, copied unchanged.
        parent_refs: Vec<Value>,
        /// Overrides of the solver's Pod.
        pod_template: Option<Value>,
    }
);
tolerant!(
    /// Labels and annotations to add.
    Template {
        /// The labels and annotations.
        metadata: Meta,
    }
);
tolerant!(
    /// `Certificate`.
    Certificate {
        /// Name, labels (used to select a solver) and annotations (which may override it).
        metadata: Meta,
        /// The desired certificate.
        spec: CertificateSpec,
        /// The observed state.
        status: CertificateStatus,
    }
);
tolerant!(
    /// The `spec` of a Certificate.
    CertificateSpec {
        /// The DNS names.
        dns_names: Vec<String>,
        /// The common name (legacy), in addition to the DNS names.
        common_name: String,
        /// IP addresses, which HTTP-01 solvers of this kind rarely validate.
        ip_addresses: Vec<String>,
        /// The issuer.
        issuer_ref: IssuerRef,
        /// The requested validity, as Go writes a duration.
        duration: Option<String>,
        /// How long before expiry the certificate is renewed, as Go writes a duration.
        renew_before: Option<String>,
        /// The same as a percentage of the validity, as an alternative.
        renew_before_percentage: Option<i64>,
    }
);
tolerant!(
    /// The `status` of a Certificate.
    CertificateStatus {
        /// The conditions; `Ready` and `Issuing` matter most.
        conditions: Vec<Condition>,
        /// The start of validity of the current certificate, RFC 3339.
        not_before: Option<String>,
        /// Its expiry, RFC 3339.
        not_after: Option<String>,
        /// The time at which cert-manager renews it, RFC 3339.
        renewal_time: Option<String>,
        /// The time of the last failed issuance, RFC 3339.
        last_failure_time: Option<String>,
        /// The number of consecutive failed issuances.
        failed_issuance_attempts: Option<i64>,
    }
);
tolerant!(
    /// A status condition.
    Condition {
        /// The condition's type.
        #[serde(rename = "type")]
        condition_type: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// The reason, one word.
        reason: String,
        /// The message for people.
        message: String,
        /// The time of the last change of `status`, RFC 3339.
        last_transition_time: Option<String>,
    }
);
tolerant!(
    /// A reference to an issuer.
    IssuerRef {
        /// Its name.
        name: String,
        /// `Issuer` (also if empty) or `ClusterIssuer`.
        kind: String,
        /// `cert-manager.io`, also if empty.
        group: String,
    }
);
tolerant!(
    /// `Challenge`; it contains everything that a replay needs.
    Challenge {
        /// Name and namespace.
        metadata: Meta,
        /// The desired validation.
        spec: ChallengeSpec,
        /// The observed state.
        status: ChallengeStatus,
    }
);
tolerant!(
    /// The `spec` of a Challenge.
    ChallengeSpec {
        /// The challenge's URL at the CA.
        url: String,
        /// The DNS name to validate.
        dns_name: String,
        /// The token.
        token: String,
        /// The key authorization: `token.thumbprint`.
        key: KeyAuthorization,
        /// `HTTP-01` or `DNS-01`.
        #[serde(rename = "type")]
        challenge_type: String,
        /// The solver that cert-manager selected.
        solver: Solver,
        /// The issuer.
        issuer_ref: IssuerRef,
    }
);
tolerant!(
    /// The `status` of a Challenge.
    ChallengeStatus {
        /// Whether the scheduler has started the challenge; until then it is queued, not failing.
        processing: bool,
        /// Whether the solver's objects exist.
        presented: bool,
        /// Empty, `pending`, `ready`, `processing`, `valid`, `invalid`, `expired` or `errored`.
        state: String,
        /// The reason, as free text.
        reason: String,
    }
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_issuer_reads_whatever_else_it_holds_and_whatever_is_null() {
        let issuer: Issuer = from_object(json!({
            "apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": "le", "labels": null},
            "spec": {"acme": {"server": "https://acme.example.test/dir", "privateKeySecretRef": {"name": "k"}, "solvers": [
                {"http01": {"ingress": {"ingressClassName": "nginx", "podTemplate": null}}},
                {"selector": {"dnsZones": ["example.test"]}, "dns01": {"route53": {"region": "x"}}},
                {"http01": {"gatewayHTTPRoute": {"parentRefs": [{"name": "gw", "kind": "Gateway"}]}},
                 "waitInsteadOfSelfCheck": "60s"}]}},
            "status": {"conditions": []}}))
        .unwrap();
        let solvers = issuer.spec.acme.unwrap().solvers;
        let http = |n: usize| solvers[n].http01.clone().unwrap();
        assert_eq!(http(0).ingress.unwrap().ingress_class_name, "nginx");
        assert!(solvers[1].dns01.is_some() && solvers[1].http01.is_none());
        assert_eq!(http(2).gateway_http_route.unwrap().parent_refs.len(), 1);
        assert_eq!(solvers[2].wait_instead_of_self_check.as_deref(), Some("60s"));
    }
}
