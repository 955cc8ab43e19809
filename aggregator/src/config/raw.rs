//! The configuration file as written.

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
    notify::RawNotify,
    people::{RawAccess, RawRuns},
    replicas::RawReplicas,
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
    /// Vantages that no node of the topology holds.
    #[serde(default)]
    pub(super) vantages: Vec<String>,
    /// Resolvers that answer as the internet sees a name.
    #[serde(default)]
    pub(super) resolvers: ResolversSpec,
    /// Balancers and their quotas, which no API tells.
    #[serde(default)]
    pub(super) balancers: Vec<BalancerSpec>,
    pub(super) token_file: Option<PathBuf>,
    /// Serving probers over TLS, with a CA of our own.
    pub(super) tls: Option<RawTls>,
    /// Knowing probers by their Kubernetes accounts.
    pub(super) identity: Option<RawIdentity>,
    /// Which people may do what.
    pub(super) access: Option<RawAccess>,
    /// Whether Target and Run objects of the cluster are followed.
    pub(super) custom_resources: Option<bool>,
    /// What a run may ask for.
    pub(super) runs: Option<RawRuns>,
    /// How Challenges that wait are explained.
    pub(super) challenges: Option<RawChallenges>,
    /// That this is one of several aggregators.
    pub(super) replicas: Option<RawReplicas>,
    /// Where else incidents can be looked at.
    pub(super) links: Option<RawLinks>,
    /// Who is told of incidents.
    pub(super) notify: Option<RawNotify>,
    /// Where what people did about incidents outlives the aggregator that was told.
    pub(super) handling: Option<RawHandling>,
    /// Where what worked and which incidents are open survives a restart.
    pub(super) checkpoint: Option<RawCheckpoint>,
    /// How often names are looked at whose certificates will be renewed.
    pub(super) forecast: Option<RawForecast>,
    /// Where history is kept; in memory only without.
    pub(super) store: Option<RawStore>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawTls {
    pub(super) listen: String,
    pub(super) hosts: Vec<String>,
    #[serde(default)]
    pub(super) publish: Vec<String>,
    pub(super) keep: Option<PathBuf>,
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
pub(super) struct RawHandling {
    /// `NAMESPACE/NAME`.
    pub(super) config_map: String,
}

/// Sizes with a binary unit, spans with d, h or m.
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
    /// A kubeconfig; without it the Pod's ServiceAccount, and outside of a cluster the usual kubeconfig.
    pub(super) kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig.
    pub(super) context: Option<String>,
    /// Where the prober Pods are; the aggregator's own namespace where absent.
    pub(super) prober_namespace: Option<Namespace>,
    /// Labels of the prober Pods.
    pub(super) prober_selector: Option<String>,
    /// What is probed without anybody saying so.
    #[serde(default)]
    pub(super) targets: RawDefaults,
    /// Whether cert-manager's objects are followed.
    #[serde(default)]
    pub(super) cert_manager: RawCertManager,
}

/// Whether cert-manager's objects are followed.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawCertManager {
    /// Where its definitions are installed and the right is there.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// What is probed without anybody saying so.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDefaults {
    /// Hosts, balancers and what says that it speaks HTTP.
    #[default]
    Published,
    /// Nothing but what says `parallax.dev/probe: "true"`.
    Annotated,
}

/// A path, or the topology itself.
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
