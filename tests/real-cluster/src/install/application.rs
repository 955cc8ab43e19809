//! The test application and the control client, as objects in the cluster.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{Authority, Destinations, SUITE_LABEL};
use crate::{
    cluster::Cluster,
    step::{CertificateKind, resolve},
};

/// Namespace of the test application.
pub const APPLICATION: &str = "shop";
/// Namespace of the control client.
pub const CLIENTS: &str = "shop-users";

/// The Secret with the certificate of the HTTPS host.
const SECRET: &str = "secure";

/// The test application and the control client.
#[derive(Debug, Clone)]
pub struct Application {
    /// The image of both.
    pub image: String,
}

impl Application {
    /// Creates everything, and waits until it is ready.
    ///
    /// # Errors
    /// A namespace that does not belong to the suite, a rejected object, or Pods that do not become ready.
    pub async fn install(&self, cluster: &Cluster, authority: &Authority) -> anyhow::Result<Destinations> {
        for namespace in [APPLICATION, CLIENTS] {
            ensure_namespace_is_ours(cluster, namespace).await?;
        }
        let names = self.names(cluster);
        let objects = resolve(include_str!("application.yaml"), &names)?;
        cluster
            .kubectl
            .with_input(&["apply", "-f", "-"], &objects)
            .await?;
        let host = &cluster.settings.hosts.https;
        write_certificate(
            cluster,
            authority,
            (APPLICATION, SECRET),
            host,
            CertificateKind::Valid,
        )
        .await?;
        let destinations = self.install_clients(cluster, authority).await?;
        for workload in ["deployment/shop", "statefulset/ledger"] {
            rolled_out(cluster, APPLICATION, workload).await?;
        }
        rolled_out(cluster, CLIENTS, "daemonset/shopper").await?;
        cluster.pods.include_namespace(APPLICATION);
        cluster.pods.include_namespace(CLIENTS);
        Ok(destinations)
    }

    async fn install_clients(
        &self,
        cluster: &Cluster,
        authority: &Authority,
    ) -> anyhow::Result<Destinations> {
        let roots = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "roots", "namespace": CLIENTS},
            "data": {"ca.pem": authority.root()}});
        cluster
            .kubectl
            .with_input(&["apply", "-f", "-"], &roots.to_string())
            .await?;
        let services = Api::<Service>::namespaced(cluster.client.clone(), APPLICATION);
        let service = services.get("shop").await.context("the Service shop/shop")?;
        let address = service
            .spec
            .and_then(|spec| spec.cluster_ip)
            .context("shop/shop has no ClusterIP")?;
        let mut arguments = vec!["client".to_owned(), "--roots=/roots/ca.pem".to_owned()];
        let destinations = Destinations::new(&cluster.settings.hosts, &address);
        arguments.extend(
            destinations
                .0
                .iter()
                .map(|(name, url)| format!("--ask={name}={url}")),
        );
        let mut names = self.names(cluster);
        names.insert("arguments".to_owned(), json!(arguments).to_string());
        let objects = resolve(include_str!("clients.yaml"), &names)?;
        cluster
            .kubectl
            .with_input(&["apply", "-f", "-"], &objects)
            .await?;
        Ok(destinations)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The API server rejects it.
    pub async fn remove(cluster: &Cluster) -> anyhow::Result<()> {
        let selector = format!("{SUITE_LABEL}=true");
        cluster
            .kubectl
            .run(&[
                "delete",
                "namespace",
                "--selector",
                &selector,
                "--ignore-not-found",
                "--timeout=180s",
            ])
            .await?;
        Ok(())
    }

    fn names(&self, cluster: &Cluster) -> BTreeMap<String, String> {
        let settings = &cluster.settings;
        [
            ("image.suite", &self.image),
            ("ingress.class", &settings.ingress.class),
            ("host.http", &settings.hosts.http),
            ("host.https", &settings.hosts.https),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect()
    }
}

/// Writes a Secret with a certificate of a kind.
///
/// # Errors
/// A host that is not valid in a certificate, or a rejected Secret.
pub async fn write_certificate(
    cluster: &Cluster,
    authority: &Authority,
    (namespace, secret): (&str, &str),
    host: &str,
    kind: CertificateKind,
) -> anyhow::Result<()> {
    let pair = authority.issue(host, kind)?;
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": secret, "namespace": namespace},
        "stringData": {"tls.crt": pair.certificate, "tls.key": pair.key}});
    cluster
        .kubectl
        .with_input(&["apply", "-f", "-"], &object.to_string())
        .await?;
    Ok(())
}

/// Fails if the namespace exists and does not belong to this suite; deletes it if it is left from an earlier run.
async fn ensure_namespace_is_ours(cluster: &Cluster, name: &str) -> anyhow::Result<()> {
    let api = Api::<Namespace>::all(cluster.client.clone());
    let Some(found) = api.get_opt(name).await? else {
        return Ok(());
    };
    anyhow::ensure!(
        found.labels().contains_key(SUITE_LABEL),
        "the namespace {name} already exists and was not created by this suite: delete it, or use another cluster"
    );
    cluster
        .kubectl
        .run(&["delete", "namespace", name, "--timeout=180s"])
        .await?;
    Ok(())
}

async fn rolled_out(cluster: &Cluster, namespace: &str, workload: &str) -> anyhow::Result<()> {
    cluster
        .kubectl
        .run(&["-n", namespace, "rollout", "status", workload, "--timeout=180s"])
        .await?;
    Ok(())
}
