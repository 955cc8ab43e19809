//! Access to the cluster with the caller's permissions. Errors name the RBAC rule that is missing.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use parallax_kubernetes::api_client::{ResourceParts, api_resource};
use serde_json::Value;
use tokio::time::timeout;

use super::error::{NoVerdict, NoVerdictReason};
use crate::{commands::query::ConnectionArgs, exit::Failure};

/// The timeout of one API request.
const API_SERVER_TIMEOUT: Duration = Duration::from_secs(15);

/// The page size of list requests.
const PAGE_SIZE: u32 = 200;

/// The kinds of objects that are read or created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Pod,
    Service,
    Ingress,
    IngressClass,
    Route,
    Issuer,
    ClusterIssuer,
    Certificate,
    Challenge,
    Deployment,
    DaemonSet,
    Lease,
    NetworkPolicy,
}

impl ObjectKind {
    const fn parts(self) -> ResourceParts {
        match self {
            Self::Pod => ("", "v1", "Pod", "pods"),
            Self::Service => ("", "v1", "Service", "services"),
            Self::Ingress => ("networking.k8s.io", "v1", "Ingress", "ingresses"),
            Self::IngressClass => ("networking.k8s.io", "v1", "IngressClass", "ingressclasses"),
            Self::Route => ("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
            Self::Issuer => ("cert-manager.io", "v1", "Issuer", "issuers"),
            Self::ClusterIssuer => ("cert-manager.io", "v1", "ClusterIssuer", "clusterissuers"),
            Self::Certificate => ("cert-manager.io", "v1", "Certificate", "certificates"),
            Self::Challenge => ("acme.cert-manager.io", "v1", "Challenge", "challenges"),
            Self::Deployment => ("apps", "v1", "Deployment", "deployments"),
            Self::DaemonSet => ("apps", "v1", "DaemonSet", "daemonsets"),
            Self::Lease => ("coordination.k8s.io", "v1", "Lease", "leases"),
            Self::NetworkPolicy => ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
        }
    }

    const fn is_cluster_scoped(self) -> bool {
        matches!(self, Self::IngressClass | Self::ClusterIssuer)
    }

    fn resource(self) -> ApiResource {
        api_resource(self.parts())
    }

    /// `Ingress shop/web`.
    pub(super) fn qualified_name(self, namespace: &str, name: &str) -> String {
        let kind = self.parts().2;
        if self.is_cluster_scoped() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {namespace}/{name}")
        }
    }

    /// `pods of shop`.
    fn list_description(self, namespace: Option<&str>) -> String {
        let plural = self.parts().3;
        match namespace {
            Some(namespace) if !self.is_cluster_scoped() => format!("{plural} of {namespace}"),
            _ => format!("{plural} of all namespaces"),
        }
    }
}

/// Why an object is not available.
#[derive(Debug)]
pub(super) enum ClusterError {
    /// The object or its kind does not exist.
    NotFound,
    /// Any other error, as a message.
    Failed(NoVerdictReason, String),
}

impl From<ClusterError> for NoVerdict {
    fn from(missing: ClusterError) -> Self {
        match missing {
            ClusterError::NotFound => NoVerdictReason::Replaced
                .indeterminate("an object that existed a moment ago is gone".to_owned()),
            ClusterError::Failed(reason, message) => reason.indeterminate(message),
        }
    }
}

impl From<ClusterError> for Failure {
    fn from(missing: ClusterError) -> Self {
        NoVerdict::from(missing).into()
    }
}

/// A client of a cluster.
#[derive(Clone)]
pub(super) struct ClusterClient {
    client: Client,
}

impl ClusterClient {
    pub(super) async fn connect(connection: &ConnectionArgs) -> Result<Self, Failure> {
        let unusable = |error: &dyn std::fmt::Display| {
            Failure::Indeterminate(format!("{error}; or test the existing path with --no-create"))
        };
        let config = connection
            .cluster
            .config()
            .await
            .map_err(|error| unusable(&error))?;
        let client = Client::try_from(config).map_err(|error| unusable(&error))?;
        Ok(Self { client })
    }

    /// The underlying client, for Parallax's own kinds.
    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    fn api(&self, kind: ObjectKind, namespace: &str) -> Api<DynamicObject> {
        let resource = kind.resource();
        if kind.is_cluster_scoped() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    pub(super) async fn get(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, ClusterError> {
        let call = async { self.api(kind, namespace).get(name).await };
        self.call(kind, Some(namespace), ("get", "read", name), call)
            .await
            .map(to_value)
    }

    pub(super) async fn list(
        &self,
        kind: ObjectKind,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        self.list_pages(kind, Some(namespace), self.api(kind, namespace), labels)
            .await
    }

    /// Lists the objects of all namespaces.
    pub(super) async fn list_all(&self, kind: ObjectKind, labels: &str) -> Result<Vec<Value>, ClusterError> {
        let api = Api::all_with(self.client.clone(), &kind.resource());
        self.list_pages(kind, None, api, labels).await
    }

    async fn list_pages(
        &self,
        kind: ObjectKind,
        namespace: Option<&str>,
        api: Api<DynamicObject>,
        labels: &str,
    ) -> Result<Vec<Value>, ClusterError> {
        let mut all = Vec::new();
        let mut params = ListParams::default().labels(labels).limit(PAGE_SIZE);
        loop {
            let call = async { api.list(&params).await };
            let page = self.call(kind, namespace, ("list", "list", ""), call).await?;
            all.extend(page.items.into_iter().map(to_value));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    pub(super) async fn create(
        &self,
        kind: ObjectKind,
        namespace: &str,
        object: &Value,
    ) -> Result<Value, ClusterError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object.clone())
            .map_err(|error| ClusterError::Failed(NoVerdictReason::Invalid, error.to_string()))?;
        let call = async {
            self.api(kind, namespace)
                .create(&PostParams::default(), &object)
                .await
        };
        self.call(kind, Some(namespace), ("create", "create", &name), call)
            .await
            .map(to_value)
    }

    /// Merges a change into an object. Returns false if the object's version differs from the one in the change.
    pub(super) async fn patch(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
        change: &Value,
    ) -> Result<bool, ClusterError> {
        let call = async {
            let api = self.api(kind, namespace);
            match api
                .patch(name, &PatchParams::default(), &Patch::Merge(change))
                .await
            {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.call(kind, Some(namespace), ("patch", "edit", name), call)
            .await
    }

    /// Deletes an object; a missing object is not an error.
    pub(super) async fn delete(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<(), ClusterError> {
        let call = async {
            self.api(kind, namespace)
                .delete(name, &DeleteParams::background())
                .await
        };
        match self
            .call(kind, Some(namespace), ("delete", "remove", name), call)
            .await
        {
            Ok(_) | Err(ClusterError::NotFound) => Ok(()),
            Err(failed) => Err(failed),
        }
    }

    async fn call<T>(
        &self,
        kind: ObjectKind,
        namespace: Option<&str>,
        (verb, doing, name): (&str, &str, &str),
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ClusterError> {
        let description = if name.is_empty() {
            kind.list_description(namespace)
        } else {
            kind.qualified_name(namespace.unwrap_or_default(), name)
        };
        match timeout(API_SERVER_TIMEOUT, call).await {
            Err(_) => Err(ClusterError::Failed(
                NoVerdictReason::ApiServer,
                format!(
                    "cannot {doing} {description}: the API server does not respond within {} s",
                    API_SERVER_TIMEOUT.as_secs()
                ),
            )),
            Ok(Ok(done)) => Ok(done),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 && verb != "create" => {
                Err(ClusterError::NotFound)
            }
            Ok(Err(kube::Error::Api(status))) => {
                let message = &status.message;
                let by_admission = [
                    "admission webhook",
                    "ValidatingAdmissionPolicy",
                    "violates PodSecurity",
                ]
                .iter()
                .any(|words| message.contains(words));
                Err(match status.code {
                    403 if by_admission => ClusterError::Failed(
                        NoVerdictReason::AdmissionRefused,
                        format!(
                            "admission rejects {description}: {message}; cert-manager's own object would be rejected as well"
                        ),
                    ),
                    // A quota error has the same status, but no RBAC rule would help.
                    403 if message.contains("exceeded quota") => ClusterError::Failed(
                        NoVerdictReason::NotReady,
                        format!("the quota has no room for {description}: {message}"),
                    ),
                    403 => ClusterError::Failed(
                        NoVerdictReason::Forbidden,
                        forbidden_message(kind, namespace, verb, &description, message),
                    ),
                    404 => ClusterError::Failed(
                        NoVerdictReason::NotFound,
                        format!(
                            "cannot {doing} {description}: the cluster does not have this kind or the namespace {}",
                            namespace.unwrap_or_default()
                        ),
                    ),
                    409 if verb == "create" => ClusterError::Failed(
                        NoVerdictReason::Busy,
                        format!("cannot {doing} {description}: {message}"),
                    ),
                    400 | 422 if verb == "create" => {
                        // Rejected because of its content: a retry would fail as well.
                        let reason = if by_admission {
                            NoVerdictReason::AdmissionRefused
                        } else {
                            NoVerdictReason::Invalid
                        };
                        ClusterError::Failed(reason, format!("cannot {doing} {description}: {message}"))
                    }
                    _ => ClusterError::Failed(
                        NoVerdictReason::ApiServer,
                        format!("cannot {doing} {description}: {message}"),
                    ),
                })
            }
            Ok(Err(other)) => Err(ClusterError::Failed(
                NoVerdictReason::ApiServer,
                format!("cannot {doing} {description}: {other}"),
            )),
        }
    }
}

/// Returns a message that names the missing rule.
fn forbidden_message(
    kind: ObjectKind,
    namespace: Option<&str>,
    verb: &str,
    description: &str,
    message: &str,
) -> String {
    let (group, _, _, plural) = kind.parts();
    let place = match namespace {
        Some(namespace) if !kind.is_cluster_scoped() => format!("in namespace {namespace}"),
        _ => "in a ClusterRole".to_owned(),
    };
    format!(
        "cannot {verb} {description}: permission denied; missing rule {place}: {{apiGroups: [\"{group}\"], resources: [{plural}], verbs: [{verb}]}} ({message})"
    )
}

fn to_value(object: DynamicObject) -> Value {
    // The object was deserialized from JSON, so serialization does not fail.
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_that_is_missing_is_named_by_its_rule_and_place() {
        for sort in [
            ObjectKind::Pod,
            ObjectKind::Service,
            ObjectKind::Ingress,
            ObjectKind::IngressClass,
            ObjectKind::Route,
            ObjectKind::Issuer,
            ObjectKind::ClusterIssuer,
            ObjectKind::Certificate,
            ObjectKind::Challenge,
            ObjectKind::Deployment,
            ObjectKind::DaemonSet,
            ObjectKind::Lease,
            ObjectKind::NetworkPolicy,
        ] {
            let (group, _, _, plural) = sort.parts();
            for verb in ["get", "list", "create", "patch", "delete"] {
                let message = forbidden_message(sort, Some("shop"), verb, "it", "no");
                let place = if sort.is_cluster_scoped() {
                    "in a ClusterRole"
                } else {
                    "in namespace shop"
                };
                let rule = format!("{{apiGroups: [\"{group}\"], resources: [{plural}], verbs: [{verb}]}}");
                assert!(
                    message.contains(&format!("missing rule {place}: {rule}")),
                    "{message}"
                );
                assert!(forbidden_message(sort, None, verb, "it", "no").contains("in a ClusterRole"));
            }
        }
    }
}
