//! What an uninstalled release leaves in the cluster.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::Value;

use super::{NAMESPACE, helm_release::RELEASE};
use crate::cluster::{Cluster, Kubectl};

/// Label of every object of the chart.
const CHART_LABEL: &str = "app.kubernetes.io/name=parallax";
/// Label that Helm sets on every object of a release.
const HELM_LABEL: &str = "app.kubernetes.io/managed-by=Helm";

/// Lists the objects that are left of the release: those with the label of the chart, those that Helm marked as part of the
/// release, and those in its namespace. Custom resource definitions are no exception, because the chart keeps none. The namespace
/// itself is not part of the release.
///
/// # Errors
/// kubectl fails.
pub async fn leftovers(cluster: &Cluster) -> anyhow::Result<BTreeSet<String>> {
    let kubectl = &cluster.kubectl;
    let all = kinds(kubectl, &[]).await?;
    let namespaced = kinds(kubectl, &["--namespaced=true"]).await?;
    let labelled = objects(kubectl, &[&all, "--all-namespaces", "--selector", CHART_LABEL]).await?;
    let managed = objects(kubectl, &[&all, "--all-namespaces", "--selector", HELM_LABEL]).await?;
    let inside = objects(kubectl, &[&namespaced, "--namespace", NAMESPACE]).await?;
    let in_default = objects(kubectl, &[&namespaced, "--namespace", "default"]).await?;
    Ok(left(&labelled, &managed, (&inside, &in_default)))
}

/// Returns the kinds that can be listed and deleted, separated by commas. Events expire by themselves.
async fn kinds(kubectl: &Kubectl, further: &[&str]) -> anyhow::Result<String> {
    let words = ["api-resources", "--verbs=list,delete", "--output=name"];
    let names = kubectl.run(&[&words, further].concat()).await?;
    Ok(selected_kinds(&names))
}

fn selected_kinds(names: &str) -> String {
    let lines = names.lines().map(str::trim);
    let kept = lines.filter(|name| !name.is_empty() && *name != "events" && !name.starts_with("events."));
    kept.collect::<Vec<_>>().join(",")
}

async fn objects(kubectl: &Kubectl, selection: &[&str]) -> anyhow::Result<Vec<Value>> {
    let words = [&["get"], selection, &["--ignore-not-found", "--output=json"]].concat();
    items(&kubectl.run(&words).await?)
}

/// Parses a list. kubectl prints nothing if nothing was found.
fn items(printed: &str) -> anyhow::Result<Vec<Value>> {
    if printed.trim().is_empty() {
        return Ok(Vec::new());
    }
    let list: Value = serde_json::from_str(printed).context("parsing the output of kubectl get")?;
    let items = list["items"].as_array();
    Ok(items.context("kubectl get printed no list")?.clone())
}

/// `inside` are the objects in the namespace of the release, and those in the namespace `default`.
fn left(
    labelled: &[Value],
    managed: &[Value],
    (inside, in_default): (&[Value], &[Value]),
) -> BTreeSet<String> {
    let of_release = |object: &&Value| {
        let annotations = &object["metadata"]["annotations"];
        annotations["meta.helm.sh/release-name"] == RELEASE
            && annotations["meta.helm.sh/release-namespace"] == NAMESPACE
    };
    // Controllers of the cluster create some objects in every namespace: Kubernetes the ServiceAccount `default` and the ConfigMap
    // `kube-root-ca.crt`, platforms more.
    let identity = |object: &Value| {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        (text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    let of_cluster: BTreeSet<_> = in_default.iter().map(identity).collect();
    let of_namespace = |object: &&Value| !of_cluster.contains(&identity(object));
    labelled
        .iter()
        .chain(managed.iter().filter(of_release))
        .chain(inside.iter().filter(of_namespace))
        .map(name)
        .collect()
}

fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, namespace: Option<&str>, name: &str, release: Option<&str>) -> Value {
        let mut object = json!({"kind": kind, "metadata": {"name": name}});
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if let Some(release) = release {
            object["metadata"]["annotations"] =
                json!({"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "parallax"});
        }
        object
    }

    #[test]
    fn what_the_cluster_keeps_in_every_namespace_is_not_left_and_everything_else_is() {
        let labelled = [object("ClusterRole", None, "parallax-viewer", Some("parallax"))];
        let managed = [
            labelled[0].clone(),
            object(
                "CustomResourceDefinition",
                None,
                "targets.parallax.dev",
                Some("parallax"),
            ),
            object("Deployment", Some("ingress"), "traefik", Some("traefik")),
        ];
        let of_cluster = |namespace| {
            [
                object("ConfigMap", Some(namespace), "kube-root-ca.crt", None),
                object("ConfigMap", Some(namespace), "openshift-service-ca.crt", None),
                object("ServiceAccount", Some(namespace), "default", None),
            ]
        };
        let in_default = of_cluster("default");
        let unowned = of_cluster("parallax");
        let of_release = [
            object("Secret", Some("parallax"), "sh.helm.release.v1.parallax.v3", None),
            object("ServiceAccount", Some("parallax"), "parallax-prober", None),
        ];
        let expected = [
            "ClusterRole parallax-viewer",
            "CustomResourceDefinition targets.parallax.dev",
            "Secret parallax/sh.helm.release.v1.parallax.v3",
            "ServiceAccount parallax/parallax-prober",
        ];
        let inside = [&unowned[..], &of_release[..]].concat();
        assert_eq!(
            left(&labelled, &managed, (&inside, &in_default)),
            expected.map(str::to_owned).into()
        );
        assert!(left(&[], &managed[2..], (&unowned, &in_default)).is_empty());
    }

    #[test]
    fn every_kind_except_events_is_asked_for() {
        let printed = "configmaps\nevents\npods\ndeployments.apps\nevents.events.k8s.io\n";
        assert_eq!(selected_kinds(printed), "configmaps,pods,deployments.apps");
    }

    #[test]
    fn a_list_is_read_and_no_output_is_an_empty_one() {
        assert_eq!(items("").unwrap(), Vec::<Value>::new());
        assert_eq!(items(r#"{"items": [{"kind": "Pod"}]}"#).unwrap().len(), 1);
        assert!(items("{}").is_err());
    }
}
