//! The configuration file as deserialized.

use std::{fmt, path::PathBuf};

use parallax_diagnosis::topology::{BalancerSpec, ResolversSpec, TopologySpec};
use parallax_model::{Namespace, TargetSpec};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{
    challenges::RawChallenges,
    checkpoint::RawCheckpoint,
    forecast::RawForecast,
    links::RawLinks,
    metrics::RawMetrics,
    notify::RawNotify,
    people::{RawAccess, RawRuns},
    replicas::RawReplicas,
    tenants::RawTenants,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawConfig<T> {
    pub(super) listen: Option<String>,
    pub(super) interval_ms: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) topology: Option<T>,
    #[serde(default)]
    pub(super) targets: Vec<TargetSpec>,
    /// Vantages that belong to no node of the topology.
    #[serde(default)]
    pub(super) vantages: Vec<String>,
    /// Resolvers that answer as seen from the internet.
    #[serde(default)]
    pub(super) resolvers: ResolversSpec,
    /// Balancers and their quotas, which no API provides.
    #[serde(default)]
    pub(super) balancers: Vec<BalancerSpec>,
    pub(super) token_file: Option<PathBuf>,
    /// TLS listener for probers, with the aggregator's own CA.
    pub(super) tls: Option<RawTls>,
    /// Authentication of probers by `ServiceAccount` tokens.
    pub(super) identity: Option<RawIdentity>,
    /// Access control for users.
    pub(super) access: Option<RawAccess>,
    /// Host names under which clients may read without authentication.
    #[serde(default)]
    pub(super) allowed_hosts: Vec<String>,
    /// Whether Target and Run objects are watched.
    pub(super) custom_resources: Option<bool>,
    /// Limits of runs.
    pub(super) runs: Option<RawRuns>,
    /// Limits of Target objects, and exceptions by namespace.
    pub(super) tenants: Option<RawTenants>,
    /// How pending Challenges are explained.
    pub(super) challenges: Option<RawChallenges>,
    /// Leader election among several aggregators.
    pub(super) replicas: Option<RawReplicas>,
    /// Addresses of Grafana and of the page.
    pub(super) links: Option<RawLinks>,
    /// Receivers of notifications.
    pub(super) notify: Option<RawNotify>,
    /// Storage of user actions on incidents.
    pub(super) incident_actions: Option<RawIncidentActions>,
    /// Storage of the checkpoint.
    pub(super) checkpoint: Option<RawCheckpoint>,
    /// Interval of renewal forecasts.
    pub(super) forecast: Option<RawForecast>,
    /// What `/metrics` contains.
    pub(super) metrics: Option<RawMetrics>,
    /// Store of the history; without it, history is in memory only.
    pub(super) store: Option<RawStore>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawTls {
    pub(super) listen: String,
    pub(super) hosts: Vec<String>,
    #[serde(default)]
    pub(super) publish: Vec<String>,
    pub(super) directory: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawIdentity {
    pub(super) audience: String,
    pub(super) probers: Vec<String>,
    #[serde(default)]
    pub(super) responders: Vec<String>,
    pub(super) vantages: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawIncidentActions {
    /// `NAMESPACE/NAME`.
    pub(super) config_map: String,
}

/// Sizes have a binary unit, durations the unit d, h or m.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawStore {
    pub(super) path: PathBuf,
    pub(super) max_size: Option<String>,
    pub(super) keep_incidents: Option<String>,
    pub(super) keep_failures: Option<String>,
    pub(super) keep_rollups: Option<String>,
}

/// `topology: {kubernetes: …}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCluster {
    pub(super) kubernetes: Option<RawKubernetes>,
}

/// The cluster as the source of the topology.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawKubernetes {
    /// A kubeconfig; without it, the Pod's ServiceAccount, or outside a cluster the default kubeconfig.
    pub(super) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig.
    pub(super) context: Option<String>,
    /// Namespace of the prober Pods; default: the aggregator's own.
    pub(super) prober_namespace: Option<Namespace>,
    /// Labels of the prober Pods.
    pub(super) prober_selector: Option<String>,
    /// Which objects are probed by default.
    #[serde(default)]
    pub(super) targets: RawDefaults,
    /// Whether cert-manager's objects are watched.
    #[serde(default)]
    pub(super) cert_manager: RawCertManager,
}

/// Whether cert-manager's objects are watched.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawCertManager {
    /// If its CRDs are installed and RBAC permits it.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// Which objects are probed by default.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDefaults {
    /// Hosts, balancers, and Services that declare HTTP.
    #[default]
    Published,
    /// Only objects with the annotation `parallax.dev/probe: "true"`.
    Annotated,
}

/// The path of a topology file, or the topology inline.
#[derive(Debug)]
pub(super) enum RawTopology {
    File(PathBuf),
    Inline(TopologySpec),
}

impl<'de> Deserialize<'de> for RawTopology {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PathOrMapping;

        impl<'de> Visitor<'de> for PathOrMapping {
            type Value = RawTopology;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a topology file, or the topology itself")
            }

            fn visit_str<E>(self, path: &str) -> Result<RawTopology, E> {
                Ok(RawTopology::File(path.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<RawTopology, A::Error> {
                TopologySpec::deserialize(MapAccessDeserializer::new(entries)).map(RawTopology::Inline)
            }
        }

        deserializer.deserialize_any(PathOrMapping)
    }
}
