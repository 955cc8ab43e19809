//! cert-manager's objects, as far as a preflight needs them. Every field may be missing or null; what is not named here
//! is of no use.

use std::{collections::BTreeMap, fmt};

use parallax_kubernetes::null_fields::without_nulls;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// Reads an object of the API, nulls as absent.
///
/// # Errors
/// What serde says, with the field's name: the object is not of the kind that is meant, or of another version.
pub fn read<T: DeserializeOwned>(mut object: Value) -> Result<T, String> {
    without_nulls(&mut object);
    serde_json::from_value(object).map_err(|error| error.to_string())
}

/// What a solver answers: `token.thumbprint`. No secret, as it is published over HTTP, but nothing for a log either: its
/// `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct KeyAuthorization(String);

impl KeyAuthorization {
    /// To be compared with an answer.
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
    /// What is kept of `metadata`.
    Meta {
        /// Its name.
        name: String,
        /// Its namespace; empty for objects of the cluster.
        namespace: String,
        /// What tells it from another of its name.
        uid: String,
        /// Counts the changes of its spec.
        generation: i64,
        /// When it was made, RFC 3339.
        creation_timestamp: String,
        /// When it was asked to end, RFC 3339.
        deletion_timestamp: Option<String>,
        /// Its labels.
        labels: BTreeMap<String, String>,
        /// Its annotations.
        annotations: BTreeMap<String, String>,
    }
);
tolerant!(
    /// `Issuer` and `ClusterIssuer`.
    Issuer {
        /// Name and namespace.
        metadata: Meta,
        /// What it issues by.
        spec: IssuerSpec,
        /// Where it stands.
        status: IssuerStatus,
    }
);
tolerant!(
    /// `spec` of an issuer; one of several sorts, of which ACME is of interest.
    IssuerSpec {
        /// Absent where it is no ACME issuer.
        acme: Option<Acme>,
    }
);
tolerant!(
    /// `status` of an issuer.
    IssuerStatus {
        /// Of an ACME issuer.
        acme: Option<AcmeStatus>,
    }
);
tolerant!(
    /// The account that was registered.
    AcmeStatus {
        /// Its URL, by which CAA records may be bound to it (RFC 8657).
        uri: String,
    }
);
tolerant!(
    /// An ACME account and its solvers.
    Acme {
        /// The directory's URL.
        server: String,
        /// In order; see [`super::pick`].
        solvers: Vec<Solver>,
    }
);
tolerant!(
    /// One solver.
    Solver {
        /// For which names; absent for all.
        selector: Option<Selector>,
        /// By HTTP.
        http01: Option<Http01>,
        /// By DNS: its settings are of no interest.
        dns01: Option<Map<String, Value>>,
        /// The self check is skipped, and so long is waited instead (cert-manager 1.21).
        wait_instead_of_self_check: Option<String>,
    }
);
tolerant!(
    /// For which names a solver is meant. All that are given must match.
    Selector {
        /// Labels that the Certificate must have.
        match_labels: BTreeMap<String, String>,
        /// Names, to the letter.
        dns_names: Vec<String>,
        /// Zones that the name must lie in.
        dns_zones: Vec<String>,
    }
);
tolerant!(
    /// How a challenge is answered over HTTP: one of the two.
    Http01 {
        /// By an Ingress.
        ingress: Option<IngressSolver>,
        /// By an `HTTPRoute`.
        #[serde(rename = "gatewayHTTPRoute")]
        gateway_http_route: Option<GatewaySolver>,
    }
);
tolerant!(
    /// An Ingress of its own, or an existing one edited in place.
    IngressSolver {
        /// `ClusterIP` or `NodePort`.
        service_type: String,
        /// `spec.ingressClassName` of the Ingress.
        ingress_class_name: String,
        /// Its annotation `kubernetes.io/ingress.class`.
        class: String,
        /// An existing Ingress that is edited in place.
        name: String,
        /// What is different about the solver's Pod.
        pod_template: Option<Value>,
        /// What is added to the Ingress.
        ingress_template: Option<Template>,
    }
);
tolerant!(
    /// An `HTTPRoute` of its own.
    GatewaySolver {
        /// `ClusterIP` or `NodePort`.
        service_type: String,
        /// Labels of the route.
        labels: BTreeMap<String, String>,
        /// The Gateways it hangs on, as they stand.
        parent_refs: Vec<Value>,
        /// What is different about the solver's Pod.
        pod_template: Option<Value>,
    }
);
tolerant!(
    /// Labels and annotations to be added.
    Template {
        /// They.
        metadata: Meta,
    }
);
tolerant!(
    /// `Certificate`.
    Certificate {
        /// Its annotations may override the solver, its labels choose it.
        metadata: Meta,
        /// What is to be certified.
        spec: CertificateSpec,
        /// Where it stands.
        status: CertificateStatus,
    }
);
tolerant!(
    /// `spec` of a Certificate.
    CertificateSpec {
        /// The names.
        dns_names: Vec<String>,
        /// An old-fashioned name besides.
        common_name: String,
        /// Addresses, which HTTP-01 solvers of this sort are rarely meant for.
        ip_addresses: Vec<String>,
        /// Who issues it.
        issuer_ref: IssuerRef,
        /// How long it is wanted to be valid, as Go writes a duration.
        duration: Option<String>,
        /// How long before its end it is renewed, as Go writes a duration.
        renew_before: Option<String>,
        /// The same in percent of its time, instead.
        renew_before_percentage: Option<i64>,
    }
);
tolerant!(
    /// `status` of a Certificate.
    CertificateStatus {
        /// `Ready` and `Issuing` above all.
        conditions: Vec<Condition>,
        /// When the one that is there begins to be valid, RFC 3339.
        not_before: Option<String>,
        /// When it ends, RFC 3339.
        not_after: Option<String>,
        /// When cert-manager renews it, RFC 3339.
        renewal_time: Option<String>,
        /// When it last failed to be issued, RFC 3339.
        last_failure_time: Option<String>,
        /// How often in a row that failed.
        failed_issuance_attempts: Option<i64>,
    }
);
tolerant!(
    /// A condition, as any status has them.
    Condition {
        /// What it is about.
        #[serde(rename = "type")]
        sort: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// One word.
        reason: String,
        /// In words.
        message: String,
        /// Since when it is so, RFC 3339.
        last_transition_time: Option<String>,
    }
);
tolerant!(
    /// Who issues.
    IssuerRef {
        /// Its name.
        name: String,
        /// `Issuer`, also where empty, or `ClusterIssuer`.
        kind: String,
        /// `cert-manager.io`, also where empty.
        group: String,
    }
);
tolerant!(
    /// `Challenge`, once it exists: it holds everything that is needed.
    Challenge {
        /// Name and namespace.
        metadata: Meta,
        /// What is asked for.
        spec: ChallengeSpec,
        /// Where it stands.
        status: ChallengeStatus,
    }
);
tolerant!(
    /// `spec` of a Challenge.
    ChallengeSpec {
        /// Where the authority keeps it.
        url: String,
        /// The name.
        dns_name: String,
        /// The token.
        token: String,
        /// The key authorization: `token.thumbprint`.
        key: KeyAuthorization,
        /// `HTTP-01` or `DNS-01`.
        #[serde(rename = "type")]
        sort: String,
        /// The solver that was picked.
        solver: Solver,
        /// Who issues.
        issuer_ref: IssuerRef,
    }
);
tolerant!(
    /// `status` of a Challenge.
    ChallengeStatus {
        /// Whether the scheduler has started it; until then it is queued, not failing.
        processing: bool,
        /// Whether the solver's objects are there.
        presented: bool,
        /// Empty, `pending`, `ready`, `processing`, `valid`, `invalid`, `expired` or `errored`.
        state: String,
        /// In words.
        reason: String,
    }
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_issuer_reads_whatever_else_it_holds_and_whatever_is_null() {
        let issuer: Issuer = read(json!({
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
