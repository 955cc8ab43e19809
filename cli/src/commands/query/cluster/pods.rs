//! The aggregator's Pods, found through the Service of the page, and connections into one of them.

use std::fmt;

use futures_util::{FutureExt as _, future::BoxFuture};
use k8s_openapi::{
    api::core::v1::{Pod, Service},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{Api, Client, ResourceExt as _, api::ListParams, client::UpgradeConnectionError};
use tokio::{io::DuplexStream, time::timeout};

use super::API_SERVER_TIMEOUT;
use crate::{commands::server_text::root_cause, exit::Failure};

/// Service of page and API, as in the manifests.
const SERVICE: &str = "parallax";
/// Role that grants the required permissions.
const ROLE: &str = "parallax-reach";

/// Finds and connects to the aggregator's Pods.
pub(super) struct PodAccess {
    pods: Api<Pod>,
    server: String,
    namespace: String,
    selector: String,
    port: IntOrString,
}

impl fmt::Debug for PodAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodAccess")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// One forwarded connection into a Pod.
pub(super) struct PodStream {
    pub(super) bytes: DuplexStream,
    /// Resolves to the kubelet's error if nothing listens on the port or the Pod is gone.
    error: BoxFuture<'static, Option<String>>,
}

impl PodStream {
    /// Returns the kubelet's error, if it has reported one.
    pub(super) fn error(self) -> Option<String> {
        self.error.now_or_never().flatten()
    }
}

impl fmt::Debug for PodStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodStream")
    }
}

impl PodAccess {
    /// Looks up the Service.
    pub(super) async fn find(client: Client, server: String, namespace: &str) -> Result<Self, Failure> {
        let services = Api::<Service>::namespaced(client.clone(), namespace);
        let found = timeout(API_SERVER_TIMEOUT, services.get(SERVICE)).await;
        let found = found.map_err(|_| timeout_error(&server))?;
        let service = found.map_err(|error| match &error {
            kube::Error::Api(status) if status.code == 404 => Failure::Usage(format!(
                "no Service {SERVICE} in the namespace {namespace} of {server}; give the namespace of Parallax with -n, another cluster with --context, or install it: kubectl apply -f deploy/install.yaml"
            )),
            _ => api_error(&error, &server, ("get", "services", namespace)),
        })?;
        let spec = service.spec.unwrap_or_default();
        let selector = spec.selector.unwrap_or_default();
        let ports = spec.ports.unwrap_or_default();
        let port = ports
            .iter()
            .find(|port| port.name.as_deref() == Some("http"))
            .or(ports.first());
        let (Some(port), false) = (port, selector.is_empty()) else {
            return Err(Failure::Indeterminate(format!(
                "the Service {namespace}/{SERVICE} selects no Pods (it has no selector or no port); check that it belongs to Parallax"
            )));
        };
        let pairs: Vec<_> = selector
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Ok(Self {
            pods: Api::namespaced(client, namespace),
            server,
            namespace: namespace.to_owned(),
            selector: pairs.join(","),
            port: port.target_port.clone().unwrap_or(IntOrString::Int(port.port)),
        })
    }

    /// Connects to the first serving Pod that accepts a connection.
    pub(super) async fn connect(&self) -> Result<PodStream, Failure> {
        let mut first_error = None;
        for (name, port) in self.serving_pods().await? {
            let opened = timeout(API_SERVER_TIMEOUT, self.pods.portforward(&name, &[port])).await;
            let failure = match opened {
                Err(_) => timeout_error(&self.server),
                Ok(Ok(mut forwarder)) => {
                    if let Some(bytes) = forwarder.take_stream(port) {
                        let error = forwarder.take_error(port).map(futures_util::FutureExt::boxed);
                        return Ok(PodStream {
                            bytes,
                            error: error.unwrap_or_else(|| std::future::ready(None).boxed()),
                        });
                    }
                    continue;
                }
                Ok(Err(error)) => self.forward_error(&error, &name),
            };
            // Another Pod may be reachable. A missing permission applies to all of them, so the first error is kept.
            first_error.get_or_insert(failure);
        }
        Err(first_error
            .unwrap_or_else(|| Failure::Indeterminate("cannot connect to any aggregator Pod".to_owned())))
    }

    /// Lists the serving Pods, each with its port number.
    async fn serving_pods(&self) -> Result<Vec<(String, u16)>, Failure> {
        let parameters = ListParams::default().labels(&self.selector);
        let listed = timeout(API_SERVER_TIMEOUT, self.pods.list(&parameters)).await;
        let listed = listed.map_err(|_| timeout_error(&self.server))?;
        let pods = listed
            .map_err(|error| api_error(&error, &self.server, ("list", "pods", &self.namespace)))?
            .items;
        for test in [is_ready, has_ready_containers] {
            let serving: Vec<_> = pods
                .iter()
                .filter(|pod| test(pod))
                .filter_map(|pod| Some((pod.name_any(), self.port_of(pod)?)))
                .collect();
            if !serving.is_empty() {
                return Ok(serving);
            }
        }
        let description = if pods.is_empty() {
            "there are none".to_owned()
        } else {
            let all: Vec<_> = pods
                .iter()
                .map(|pod| format!("{} is {}", pod.name_any(), not_ready_reason(pod)))
                .collect();
            all.join(", ")
        };
        Err(Failure::Indeterminate(format!(
            "no aggregator Pod is ready in the namespace {}: {description}; see: kubectl -n {} describe pods -l {}",
            self.namespace, self.namespace, self.selector
        )))
    }

    fn port_of(&self, pod: &Pod) -> Option<u16> {
        let number = match &self.port {
            IntOrString::Int(number) => *number,
            IntOrString::String(name) => {
                let containers = &pod.spec.as_ref()?.containers;
                let mut ports = containers
                    .iter()
                    .filter_map(|container| container.ports.as_ref())
                    .flatten();
                ports
                    .find(|port| port.name.as_deref() == Some(name))?
                    .container_port
            }
        };
        u16::try_from(number).ok()
    }

    fn forward_error(&self, error: &kube::Error, name: &str) -> Failure {
        let code = match error {
            kube::Error::Api(status) => status.code,
            kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(status)) => status.as_u16(),
            _ => {
                return api_error(
                    error,
                    &self.server,
                    ("create", "pods/portforward", &self.namespace),
                );
            }
        };
        match code {
            401 => credentials_rejected(),
            403 => permission_denied(("create", "pods/portforward", &self.namespace)),
            code => Failure::Indeterminate(format!(
                "the API server at {} cannot forward a port of the Pod {}/{name} (it answered {code}); check whether the node is ready: kubectl -n {} get pods -o wide",
                self.server, self.namespace, self.namespace
            )),
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = |condition: &k8s_openapi::api::core::v1::PodCondition| {
        condition.type_ == "Ready" && condition.status == "True"
    };
    pod.metadata.deletion_timestamp.is_none() && conditions.is_some_and(|all| all.iter().any(ready))
}

/// Reports whether the kubelet last reported all containers ready. When the API server has been unavailable, the node
/// lifecycle controller sets the Pod's own condition to not ready (`MarkPodsNotReady`), while the process keeps
/// serving.
fn has_ready_containers(pod: &Pod) -> bool {
    let containers = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && containers.is_some_and(|all| !all.is_empty() && all.iter().all(|container| container.ready))
}

/// Describes in a word or two why a Pod is not ready.
fn not_ready_reason(pod: &Pod) -> String {
    if pod.metadata.deletion_timestamp.is_some() {
        return "stopping".to_owned();
    }
    let Some(status) = &pod.status else {
        return "unknown".to_owned();
    };
    let mut containers = status.container_statuses.iter().flatten();
    let waiting = containers.find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone());
    waiting.unwrap_or_else(|| match status.phase.as_deref() {
        Some("Running") | None => "not ready yet".to_owned(),
        Some(phase) => phase.to_lowercase(),
    })
}

/// Converts an error of the API server into a failure with advice. `rule` is verb, resource and namespace.
pub(super) fn api_error(error: &kube::Error, server: &str, rule: (&str, &str, &str)) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 401 => credentials_rejected(),
        kube::Error::Api(status) if status.code == 403 => permission_denied(rule),
        kube::Error::Api(status) => Failure::Indeterminate(format!(
            "the API server at {server} cannot {} {} in the namespace {}: {}",
            rule.0, rule.1, rule.2, status.message
        )),
        kube::Error::Auth(error) => Failure::Usage(format!(
            "the kubeconfig's user cannot authenticate: {error}; log in again as for kubectl"
        )),
        error => {
            let reason = root_cause(error);
            Failure::Indeterminate(format!(
                "cannot reach the API server at {server}: {reason}; see: kubectl cluster-info"
            ))
        }
    }
}

fn timeout_error(server: &str) -> Failure {
    Failure::Indeterminate(format!(
        "no response from the API server at {server} within {} s; see: kubectl cluster-info",
        API_SERVER_TIMEOUT.as_secs()
    ))
}

fn credentials_rejected() -> Failure {
    Failure::Usage(
        "the API server rejects the kubeconfig's credentials: they have expired, or belong to another cluster; log in again, or select another --context"
            .to_owned(),
    )
}

fn permission_denied((verb, resource, namespace): (&str, &str, &str)) -> Failure {
    Failure::Usage(format!(
        "permission denied: cannot {verb} {resource} in the namespace {namespace}; ask a cluster administrator to bind the Role {ROLE} there, which grants it (apiGroups: [\"\"], resources: [{resource}], verbs: [{verb}])"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_its_silent_node_made_not_ready_still_serves() {
        let pod = |ready: bool, containers: bool, deleted: bool| -> Pod {
            let deleted = deleted.then_some("2026-01-01T00:00:00Z");
            let status = if ready { "True" } else { "False" };
            serde_json::from_value(json!({
                "metadata": {"name": "parallax-aggregator-0", "deletionTimestamp": deleted},
                "status": {
                    "conditions": [{"type": "Ready", "status": status}],
                    "containerStatuses": [{"name": "aggregator", "ready": containers, "image": "", "imageID": "", "restartCount": 0}],
                },
            }))
            .unwrap()
        };
        let serves = |pod: &Pod| (is_ready(pod), has_ready_containers(pod));
        assert_eq!(serves(&pod(true, true, false)), (true, true));
        assert_eq!(serves(&pod(false, true, false)), (false, true));
        assert_eq!(serves(&pod(false, false, false)), (false, false));
        assert_eq!(serves(&pod(false, true, true)), (false, false));
        assert_eq!(serves(&Pod::default()), (false, false));
    }
}
