//! Reads Pods, workloads and monitors from the API server. Reads no Secrets, and writes nothing.

use std::{collections::BTreeSet, fmt::Debug};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};
use parallax_api::installation::InstallationFacts;
use parallax_kubernetes::api_client::api_resource;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{
    facts::{Answer, ClusterFacts},
    workloads::{PodFacts, Workload},
};
use crate::{
    commands::{
        query::{API_SERVER_TIMEOUT, ServerArgs},
        server_text::root_cause,
    },
    exit::Failure,
};

/// Selects the objects of an installation.
const SELECTOR: &str = "app.kubernetes.io/name=parallax";

/// Returns a client of the cluster of the installation, and its namespace; `None` if it is not known.
pub(super) async fn connect(server: &ServerArgs) -> Result<Option<(Client, String)>, Failure> {
    let (config, namespace) = if let Some((cluster, namespace)) = server.cluster() {
        (cluster.config().await?, namespace.to_owned())
    } else {
        // Without a cluster option, the current context may be that of another cluster than the aggregator's.
        // A Pod has only one.
        let Ok(config) = kube::Config::incluster() else {
            return Ok(None);
        };
        let namespace = config.default_namespace.clone();
        (config, namespace)
    };
    let client = Client::try_from(config).map_err(Failure::indeterminate)?;
    Ok(Some((client, namespace)))
}

/// Reads the facts of the installation. `known` is the answer of the aggregator, which names the namespaces of its probers.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    known: Option<&InstallationFacts>,
) -> ClusterFacts {
    let probers = known.iter().flat_map(|facts| &facts.prober_namespaces);
    let namespaces: BTreeSet<&str> = probers.map(String::as_str).chain([namespace]).collect();
    let (workloads, pods, monitors) = tokio::join!(
        workloads(client, &namespaces),
        pods(client, &namespaces),
        monitors(client, namespace)
    );
    ClusterFacts {
        workloads,
        pods,
        monitors,
    }
}

async fn workloads(client: &Client, namespaces: &BTreeSet<&str>) -> Answer<Vec<Workload>> {
    let mut all = Vec::new();
    for namespace in namespaces {
        let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
        let deployments = list(deployments, ("deployments.apps", namespace)).await?;
        all.extend(deployments.iter().map(Workload::from));
        let sets = Api::<DaemonSet>::namespaced(client.clone(), namespace);
        let sets = list(sets, ("daemonsets.apps", namespace)).await?;
        all.extend(sets.iter().map(Workload::from));
    }
    Ok(all)
}

async fn pods(client: &Client, namespaces: &BTreeSet<&str>) -> Answer<Vec<PodFacts>> {
    let mut all = Vec::new();
    for namespace in namespaces {
        let pods = Api::<Pod>::namespaced(client.clone(), namespace);
        let pods = list(pods, ("pods", namespace)).await?;
        all.extend(pods.iter().filter_map(PodFacts::of));
    }
    // Pods of tests end, and are never ready afterwards.
    all.retain(|pod| !pod.component.starts_with("test-"));
    Ok(all)
}

/// Counts the monitors of the Prometheus operator that belong to the installation.
async fn monitors(client: &Client, namespace: &str) -> Answer<usize> {
    let group = "monitoring.coreos.com";
    let mut count = 0;
    for (kind, plural) in [
        ("PodMonitor", "podmonitors"),
        ("ServiceMonitor", "servicemonitors"),
    ] {
        let resource: ApiResource = api_resource((group, "v1", kind, plural));
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
        let listed = timeout(
            API_SERVER_TIMEOUT,
            api.list(&ListParams::default().labels(SELECTOR)),
        )
        .await;
        count += match listed {
            // The operator is not installed.
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => 0,
            listed => answered(listed, (&format!("{plural}.{group}"), namespace))?.len(),
        };
    }
    Ok(count)
}

async fn list<T>(api: Api<T>, subject: (&str, &str)) -> Answer<Vec<T>>
where
    T: Clone + Debug + DeserializeOwned,
{
    let listed = timeout(
        API_SERVER_TIMEOUT,
        api.list(&ListParams::default().labels(SELECTOR)),
    )
    .await;
    answered(listed, subject)
}

/// Returns the listed objects, or why they cannot be listed. The subject is a resource with its namespace.
fn answered<T: Clone>(
    listed: Result<Result<kube::core::ObjectList<T>, kube::Error>, tokio::time::error::Elapsed>,
    (resource, namespace): (&str, &str),
) -> Answer<Vec<T>> {
    let action = format!("cannot list {resource} in the namespace {namespace}");
    match listed {
        Ok(Ok(list)) => Ok(list.items),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Err(format!("{action}: permission denied; it requires the verb list"))
        }
        Ok(Err(kube::Error::Api(status))) => Err(format!("{action}: {}", status.message)),
        Ok(Err(error)) => Err(format!("{action}: {}", root_cause(&error))),
        Err(_) => Err(format!(
            "{action}: no response from the API server within {} s",
            API_SERVER_TIMEOUT.as_secs()
        )),
    }
}
