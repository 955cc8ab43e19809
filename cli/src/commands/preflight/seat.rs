//! Where cert-manager's pod sits, as the caller may see it.

use parallax_aggregator::preflight::{Look, Sought};
use serde_json::Value;

use super::cluster::{Cluster, Missing, Sort};

impl Look for Cluster {
    async fn list(&self, what: Sought, namespace: Option<&str>, labels: &str) -> Result<Vec<Value>, String> {
        let sort = match what {
            Sought::Deployments => Sort::Deployment,
            Sought::Pods => Sort::Pod,
            Sought::NetworkPolicies => Sort::NetworkPolicy,
        };
        let found = match namespace {
            Some(namespace) => Self::list(self, sort, namespace, labels).await,
            None => self.list_all(sort, labels).await,
        };
        match found {
            Ok(found) => Ok(found),
            Err(Missing::NotFound) => Ok(Vec::new()),
            Err(Missing::Failed(_, said)) => Err(said),
        }
    }

    async fn lease(&self, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        match self.get(Sort::Lease, namespace, name).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Missing::NotFound) => Ok(None),
            Err(Missing::Failed(_, said)) => Err(said),
        }
    }
}
