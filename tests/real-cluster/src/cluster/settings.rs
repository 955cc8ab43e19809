//! Names that differ between clusters, including those that resolve to the ingress controller.

use std::{fs, path::Path};

use anyhow::Context;
use serde::Deserialize;

/// Names in a cluster. The defaults are those of the examples in docs/contributing/testing.md.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Settings {
    /// The cluster's DNS.
    pub dns: Dns,
    /// The ingress controller.
    pub ingress: Ingress,
    /// Host names that resolve inside the cluster to the ingress controller's balancer.
    pub hosts: Hosts,
}

/// The cluster's DNS.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Dns {
    /// Namespace of both.
    pub namespace: String,
    /// Name of the Deployment.
    pub deployment: String,
    /// Name of the Service.
    pub service: String,
}

/// The ingress controller.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Ingress {
    /// Namespace of Deployment and Service.
    pub namespace: String,
    /// Name of the Deployment.
    pub deployment: String,
    /// Name of the Service, of type LoadBalancer.
    pub service: String,
    /// The `IngressClass` that it serves.
    pub class: String,
}

/// Host names that resolve inside the cluster to the ingress controller's balancer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Hosts {
    /// The application over HTTP.
    pub http: String,
    /// The application over HTTPS.
    pub https: String,
    /// A host that a step publishes.
    pub new: String,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            deployment: "coredns".to_owned(),
            service: "kube-dns".to_owned(),
        }
    }
}

impl Default for Ingress {
    fn default() -> Self {
        Self {
            namespace: "ingress".to_owned(),
            deployment: "traefik".to_owned(),
            service: "traefik".to_owned(),
            class: "traefik".to_owned(),
        }
    }
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            http: "shop.example.com".to_owned(),
            https: "secure.example.com".to_owned(),
            new: "side.example.com".to_owned(),
        }
    }
}

impl Settings {
    /// Reads a file; without one, returns the defaults.
    ///
    /// # Errors
    /// A file that cannot be read or has an unknown field.
    pub fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_has_its_default_and_what_is_unknown_is_refused() {
        let read: Settings =
            serde_saphyr::from_str("ingress: {class: nginx}\nhosts: {http: a.example.com}").unwrap();
        assert_eq!(read.ingress.class, "nginx");
        assert_eq!(read.ingress.namespace, "ingress");
        assert_eq!(read.dns.service, "kube-dns");
        assert!(serde_saphyr::from_str::<Settings>("ingres: {}").is_err());
    }
}
