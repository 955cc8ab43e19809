//! Reads cert-manager's namespace with the aggregator's permissions.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use parallax_kubernetes::api_client::{ResourceParts, api_resource};
use parallax_preflight::{PlacementReader, PlacementResource};
use serde_json::Value;
use tokio::time::timeout;

/// The timeout of one API request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A reader whose errors name the missing RBAC rule.
pub(super) struct ClusterReader(pub(super) Client);

const fn resource_parts(resource: PlacementResource) -> ResourceParts {
    match resource {
        PlacementResource::Deployments => ("apps", "v1", "Deployment", "deployments"),
        PlacementResource::Pods => ("", "v1", "Pod", "pods"),
        PlacementResource::NetworkPolicies => ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    }
}

impl ClusterReader {
    fn api(&self, parts: ResourceParts, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = api_resource(parts);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.0.clone(), namespace, &resource),
            None => Api::all_with(self.0.clone(), &resource),
        }
    }
}

impl PlacementReader for ClusterReader {
    async fn list(
        &self,
        resource: PlacementResource,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Value>, String> {
        let parts = resource_parts(resource);
        let params = ListParams::default().labels(labels);
        let api = self.api(parts, namespace);
        let page = call(parts, namespace, "list", api.list(&params)).await?;
        Ok(page
            .into_iter()
            .flat_map(|page| page.items)
            .map(to_value)
            .collect())
    }

    async fn lease(&self, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        let parts = ("coordination.k8s.io", "v1", "Lease", "leases");
        let api = self.api(parts, Some(namespace));
        let lease = call(parts, Some(namespace), "get", api.get(name)).await?;
        Ok(lease.map(to_value))
    }
}

/// Runs a request; `None` if the object does not exist.
async fn call<T>(
    (group, _, _, plural): ResourceParts,
    namespace: Option<&str>,
    verb: &str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Option<T>, String> {
    let place = namespace.map_or_else(
        || "all namespaces".to_owned(),
        |namespace| format!("namespace {namespace}"),
    );
    match timeout(REQUEST_TIMEOUT, call).await {
        Ok(Ok(done)) => Ok(Some(done)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => Err(format!(
            "the aggregator's account may not {verb} {plural} in {place}; missing rule: {{apiGroups: [\"{group}\"], resources: [{plural}], verbs: [{verb}]}}"
        )),
        Ok(Err(error)) => Err(format!("cannot {verb} {plural} in {place}: {error}")),
        Err(_) => Err(format!(
            "cannot {verb} {plural} in {place}: no response within {} s",
            REQUEST_TIMEOUT.as_secs()
        )),
    }
}

fn to_value(object: DynamicObject) -> Value {
    // The object was deserialized from JSON, so serialization does not fail.
    serde_json::to_value(object).unwrap_or_default()
}
