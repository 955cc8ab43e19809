//! Reads and validates the configuration file: either a valid [`Config`], or all errors with their positions.

mod access;
mod challenges;
mod checkpoint;
mod document;
mod duration;
mod error;
mod forecast;
mod links;
mod metrics;
mod notify;
mod people;
mod positioned_error;
mod public_views;
mod raw;
mod read;
mod replicas;
mod store;
mod tenants;
mod topology_source;
mod tree;
mod validation;
mod wording;

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use parallax_diagnosis::topology::{ResolversSpec, Topology, TopologySpec};
use parallax_model::{Micros, NodeName, Vantage};

use document::YamlDocument;
pub use error::{ConfigError, ConfigProblem};
pub use tree::SourcePosition;

use parallax_api::links::ExternalLinks;
use parallax_history::{recording::RecordOptions, store::StoreOptions};
use parallax_kubernetes::{
    api_client::ApiClient,
    object_key::ObjectKey,
    prober_pods::ProberPods,
    replicas::ReplicaOptions,
    watch::{ApiServerAccess, CertManagerMode, KubernetesSettings, TargetDefaults},
};
use parallax_notify::NotifyOptions;
use parallax_runs::RunOptions;
use parallax_runtime::metrics::HistogramBuckets;
use raw::{RawCertManager, RawCluster, RawConfig, RawDefaults, RawKubernetes, RawTopology};

use crate::{
    access::AccessOptions, checkpoint::CheckpointOptions, crd::TenantOptions, identity::IdentityOptions,
    tls::TlsOptions, token::BearerToken,
};
pub(crate) use topology_source::TopologySource;

/// Everything an aggregator needs to run. Built from a file by [`Config::load`] or in code by [`Config::embedded`].
#[derive(Debug, Clone)]
pub struct Config {
    /// Listen address of API and page.
    pub listen: SocketAddr,
    /// Length of a round, and time between two probes of an assignment.
    pub interval: Micros,
    /// Deadline of a probe.
    pub timeout: Micros,
    /// Shared secret of the probers, if required.
    pub token: Option<BearerToken>,
    /// TLS listener for probers, in addition to `listen`.
    pub tls: Option<TlsOptions>,
    /// Authentication of probers by `ServiceAccount` tokens instead of a shared secret.
    pub identity: Option<IdentityOptions>,
    /// Access control for users; if absent, derived from the rest of the configuration.
    pub(crate) access: Option<AccessOptions>,
    /// Whether Target and Run objects are watched.
    pub(crate) custom_resources: bool,
    /// Host names, in lower case, under which clients may read without authentication.
    pub(crate) allowed_hosts: BTreeSet<String>,
    /// Limits of runs.
    pub(crate) runs: RunOptions,
    /// Limits of Target objects.
    pub(crate) tenants: TenantOptions,
    /// Options of explaining pending Challenges.
    pub(crate) challenges: parallax_acme::challenges::ChallengeOptions,
    /// Client of the API server; if absent, inferred from the environment.
    pub(crate) client: Option<ApiClient>,
    /// Lookup of prober Pods, if the embedding program watches them already.
    pub(crate) prober_pods: Option<Arc<dyn ProberPods>>,
    /// Links to dashboards and to the page.
    pub(crate) links: ExternalLinks,
    /// `ConfigMap` that persists user actions on incidents.
    pub(crate) actions_config_map: Option<ObjectKey>,
    /// Receivers of notifications.
    pub(crate) notify: NotifyOptions,
    /// Storage of the checkpoint; if absent, the store, if there is one.
    pub checkpoint: Option<CheckpointOptions>,
    /// File of the checkpoint from the command line, instead of `checkpoint`.
    pub(crate) checkpoint_file: Option<PathBuf>,
    /// Interval of renewal forecasts per name; `None` disables them.
    pub(crate) forecast_interval: Option<Micros>,
    /// Buckets of the phases' durations in `/metrics`.
    pub(crate) histogram_buckets: HistogramBuckets,
    /// Leader election; `None` for a single aggregator.
    pub(crate) replicas: Option<ReplicaOptions>,
    /// Name and address of this replica.
    pub(crate) environment: RuntimeEnvironment,
    /// Options of the recording, if enabled.
    pub record: Option<RecordOptions>,
    /// Store of the history, if enabled.
    pub store: Option<StoreOptions>,
    pub(crate) initial_topology: Arc<Topology>,
    pub(crate) source: TopologySource,
}

/// Name and address of this aggregator, from its environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuntimeEnvironment {
    pub(crate) name: Option<String>,
    pub(crate) address: Option<IpAddr>,
}

impl Config {
    /// Reads and validates a configuration file and the topology file that it names.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let document = YamlDocument::open(path, "the configuration")?;
        let folder = path.parent().unwrap_or(Path::new(""));
        // Read as one kind or the other, so that errors name the fields of the intended kind.
        if document.contains_path(&["topology", "kubernetes"]) {
            let mut raw: RawConfig<RawCluster> = document.read()?;
            let kubernetes = raw.topology.take().and_then(|topology| topology.kubernetes);
            let kubernetes = kubernetes.unwrap_or_default().into_settings(folder);
            Self::validate(path, &document, raw, |source, _| {
                source.kubernetes = Some(kubernetes);
                source.build(TopologySpec::default(), &document, "")
            })
        } else {
            let raw: RawConfig<RawTopology> = document.read()?;
            Self::validate(path, &document, raw, |source, topology| match topology {
                None => source.build(TopologySpec::default(), &document, ""),
                Some(RawTopology::Inline(spec)) => source.build(spec, &document, "topology"),
                Some(RawTopology::File(file)) => {
                    source.file = Some(folder.join(file));
                    source.reload()
                }
            })
        }
    }

    /// Creates a configuration without a file, for an aggregator embedded in another program: it listens on a free
    /// loopback port, and the topology does not change.
    #[must_use]
    pub fn embedded(topology: Topology) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            interval: Micros::from_secs(5),
            timeout: Micros::from_secs(3),
            token: None,
            tls: None,
            identity: None,
            access: None,
            custom_resources: false,
            allowed_hosts: BTreeSet::new(),
            runs: RunOptions::default(),
            tenants: TenantOptions::default(),
            challenges: parallax_acme::challenges::ChallengeOptions::default(),
            client: None,
            prober_pods: None,
            links: ExternalLinks::default(),
            actions_config_map: None,
            notify: NotifyOptions::default(),
            checkpoint: None,
            checkpoint_file: None,
            forecast_interval: Some(forecast::DEFAULT_INTERVAL),
            histogram_buckets: HistogramBuckets::default(),
            replicas: None,
            environment: RuntimeEnvironment::default(),
            record: None,
            store: None,
            initial_topology: Arc::new(topology),
            source: TopologySource {
                file: None,
                kubernetes: None,
                config_file: PathBuf::new(),
                config_document: None,
                targets: Vec::new(),
                vantages: Vec::new(),
                embedded_vantages: Vec::new(),
                node: None,
                resolvers: ResolversSpec::default(),
                balancers: Vec::new(),
            },
        }
    }

    /// Adds a vantage that the topology does not contain (the local prober of `parallax up`).
    #[must_use]
    pub fn with_vantage(mut self, vantage: Vantage) -> Self {
        self.initial_topology =
            Arc::new(Topology::clone(&self.initial_topology).with_vantage(vantage.clone()));
        self.source.embedded_vantages.push(vantage);
        self
    }

    /// Uses this client for the API server instead of the in-cluster configuration or `KUBECONFIG`.
    #[must_use]
    pub fn with_client(mut self, client: kube::Client) -> Self {
        self.client = Some(ApiClient(client));
        self
    }

    /// Sets name (of the Pod) and address of this replica. Without an address, other replicas use that of `listen`.
    #[must_use]
    pub fn as_replica(mut self, name: Option<String>, address: Option<IpAddr>) -> Self {
        self.environment = RuntimeEnvironment { name, address };
        self
    }

    /// Sets the node of the watched cluster on which this aggregator runs.
    #[must_use]
    pub fn on_node(mut self, node: Option<NodeName>) -> Self {
        self.source.node = node;
        self
    }

    /// Uses this lookup of prober Pods instead of an own watch.
    #[must_use]
    pub fn with_pods(mut self, pods: Arc<dyn ProberPods>) -> Self {
        self.prober_pods = Some(pods);
        self
    }

    /// Records all inputs of the engine, if options are given.
    #[must_use]
    pub fn with_record(mut self, record: Option<RecordOptions>) -> Self {
        self.record = record;
        self
    }

    /// Stores history in a file, if one is given.
    #[must_use]
    pub fn with_store(mut self, store: Option<StoreOptions>) -> Self {
        self.store = store;
        self
    }

    /// Writes the checkpoint to a file, if one is given.
    #[must_use]
    pub fn with_checkpoint_file(mut self, file: Option<PathBuf>) -> Self {
        self.checkpoint_file = file;
        self
    }

    /// Returns the storage of the checkpoint: that of the command line, otherwise that of the file.
    pub(crate) fn checkpoint_options(&self) -> Option<CheckpointOptions> {
        let file = self.checkpoint_file.clone().map(CheckpointOptions::File);
        file.or_else(|| self.checkpoint.clone())
    }

    /// Returns the initial topology.
    #[must_use]
    pub fn topology(&self) -> &Arc<Topology> {
        &self.initial_topology
    }

    /// Returns the longest timeout of any probe; rounds stay open for it.
    pub(crate) fn longest_timeout(&self) -> Micros {
        self.initial_topology
            .targets()
            .values()
            .filter_map(|placed| placed.target.timeout)
            .fold(self.timeout, Micros::max)
    }
}

impl RawKubernetes {
    fn into_settings(self, folder: &Path) -> KubernetesSettings {
        let context = self.context;
        let mut settings = KubernetesSettings::new(match self.kubeconfig {
            Some(path) => ApiServerAccess::File {
                path: folder.join(path),
                context,
            },
            None => ApiServerAccess::Inferred { context },
        });
        settings
            .prober_namespaces
            .extend(self.prober_namespace.map(String::from));
        if let Some(selector) = self.prober_selector {
            settings.prober_selector = selector;
        }
        settings.defaults = match self.targets {
            RawDefaults::Published => TargetDefaults::Published,
            RawDefaults::Annotated => TargetDefaults::Annotated,
        };
        settings.cert_manager = match self.cert_manager {
            RawCertManager::Auto => CertManagerMode::Auto,
            RawCertManager::Off => CertManagerMode::Off,
        };
        settings
    }
}

#[cfg(test)]
mod tests;
