use std::collections::BTreeMap;

use serde_json::json;

use super::*;

/// A cluster of objects with restricted permissions.
#[derive(Default)]
struct FakeCluster {
    deployments: Vec<Value>,
    pods: Vec<Value>,
    leases: BTreeMap<&'static str, Value>,
    /// Listing is allowed in single namespaces only.
    only_by_namespace: bool,
}

impl PlacementReader for FakeCluster {
    async fn list(
        &self,
        resource: PlacementResource,
        namespace: Option<&str>,
        _: &str,
    ) -> Result<Vec<Value>, String> {
        if namespace.is_none() && self.only_by_namespace {
            return Err("missing rule in a ClusterRole".to_owned());
        }
        let all = match resource {
            PlacementResource::Deployments => &self.deployments,
            PlacementResource::Pods => &self.pods,
            PlacementResource::NetworkPolicies => return Ok(Vec::new()),
        };
        let in_namespace =
            |object: &&Value| namespace.is_none_or(|namespace| object["metadata"]["namespace"] == namespace);
        Ok(all.iter().filter(in_namespace).cloned().collect())
    }

    async fn lease(&self, namespace: &str, _: &str) -> Result<Option<Value>, String> {
        Ok(self.leases.get(namespace).cloned())
    }
}

fn installed(namespace: &str, node: &str) -> (Value, Value) {
    let deployment = json!({"metadata": {"namespace": namespace, "name": "cm"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{}]}}}});
    let pod = json!({"metadata": {"namespace": namespace, "name": format!("{namespace}-pod")}, "spec": {"nodeName": node}, "status": {"phase": "Running"}});
    (deployment, pod)
}

fn held(places: &[(&str, &str)]) -> FakeCluster {
    let (deployments, pods) = places
        .iter()
        .map(|(namespace, node)| installed(namespace, node))
        .unzip();
    FakeCluster {
        deployments,
        pods,
        ..FakeCluster::default()
    }
}

fn lease(holder: &str) -> Value {
    json!({"spec": {"holderIdentity": format!("{holder}-external-cert-manager-controller")}})
}

#[tokio::test]
async fn it_is_found_in_any_namespace_and_a_named_one_wins() {
    let cluster = held(&[("certs", "n1"), ("other", "n2")]);
    let named = CertManagerPlacement::locate(&cluster, Some("other")).await;
    assert_eq!(named.node().unwrap().as_str(), "n2");
    let cluster = held(&[("certs", "n1")]);
    let placement = CertManagerPlacement::locate(&cluster, None).await;
    assert_eq!(
        placement.description().unwrap(),
        "cert-manager's Pod is certs-pod on n1 (the only one)"
    );
    assert!(placement.notes.is_empty(), "{:?}", placement.notes);
    let not_found = CertManagerPlacement::locate(&cluster, Some("cert-manager")).await;
    assert!(
        not_found.notes[0].contains("namespace cert-manager has no Deployment with the labels"),
        "{:?}",
        not_found.notes
    );
}

#[tokio::test]
async fn of_several_the_holder_of_the_lease_counts_and_without_one_the_ambiguity_is_named() {
    let mut cluster = held(&[("certs", "n1"), ("other", "n2")]);
    let placement = CertManagerPlacement::locate(&cluster, None).await;
    assert_eq!(placement.node(), None);
    assert!(
        placement.notes[0]
            .contains("Deployment certs/cm, Deployment other/cm all have cert-manager's labels")
            && placement.notes[0].contains("--cert-manager-namespace"),
        "{:?}",
        placement.notes
    );
    cluster.leases.insert("kube-system", lease("other-pod"));
    let placement = CertManagerPlacement::locate(&cluster, None).await;
    assert_eq!(placement.node().unwrap().as_str(), "n2");
    assert!(
        placement.notes[0].contains("whose Pod holds the Lease"),
        "{:?}",
        placement.notes
    );
}

#[tokio::test]
async fn without_a_deployment_the_lease_says_where_to_look() {
    let mut cluster = held(&[]);
    cluster.leases.insert("kube-system", lease("tls-controller-7d"));
    let placement = CertManagerPlacement::locate(&cluster, None).await;
    assert!(
        placement.notes[0].contains("no namespace has a Deployment")
            && placement.notes[0]
                .contains("tls-controller-7d-external-cert-manager-controller holds the Lease"),
        "{:?}",
        placement.notes
    );
}

#[tokio::test]
async fn who_may_not_look_everywhere_looks_where_it_usually_is() {
    let mut cluster = held(&[("cert-manager", "n1")]);
    cluster.only_by_namespace = true;
    assert_eq!(
        CertManagerPlacement::locate(&cluster, None)
            .await
            .node()
            .unwrap()
            .as_str(),
        "n1"
    );
    let mut cluster = held(&[("certs", "n1")]);
    cluster.only_by_namespace = true;
    let placement = CertManagerPlacement::locate(&cluster, None).await;
    assert!(
        placement.notes[0].contains("missing rule in a ClusterRole")
            && placement.notes[0].contains("--cert-manager-namespace"),
        "{:?}",
        placement.notes
    );
}
