//! Locates cert-manager's Pod with the caller's permissions.

use parallax_preflight::{PlacementReader, PlacementResource};
use serde_json::Value;

use super::cluster::{ClusterClient, ClusterError, ObjectKind};

impl PlacementReader for ClusterClient {
    async fn list(
        &self,
        resource: PlacementResource,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Value>, String> {
        let sort = match resource {
            PlacementResource::Deployments => ObjectKind::Deployment,
            PlacementResource::Pods => ObjectKind::Pod,
            PlacementResource::NetworkPolicies => ObjectKind::NetworkPolicy,
        };
        let found = match namespace {
            Some(namespace) => Self::list(self, sort, namespace, labels).await,
            None => self.list_all(sort, labels).await,
        };
        match found {
            Ok(found) => Ok(found),
            Err(ClusterError::NotFound) => Ok(Vec::new()),
            Err(ClusterError::Failed(_, error)) => Err(error),
        }
    }

    async fn lease(&self, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        match self.get(ObjectKind::Lease, namespace, name).await {
            Ok(lease) => Ok(Some(lease)),
            Err(ClusterError::NotFound) => Ok(None),
            Err(ClusterError::Failed(_, error)) => Err(error),
        }
    }
}
