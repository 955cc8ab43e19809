//! Reads and validates the configuration file: either a valid [`Config`], or all errors with their positions.

mod access;
mod challenges;
mod checkpoint;
mod document;
mod error;
mod forecast;
mod links;
mod notify;
mod people;
mod positioned_error;
mod public_views;
mod raw;
mod read;
mod replicas;
mod store;
mod tree;
mod wording;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use parallax_diagnosis::topology::{BalancerSpec, ResolversSpec, Topology, TopologySpec};
use parallax_model::{InvalidName, Micros, Target, TargetId, TargetSpec, Vantage};

pub use document::YamlDocument;
pub use error::{ConfigError, ConfigProblem};
pub use notify::parse_receiver_url;
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
use raw::{RawCertManager, RawCluster, RawConfig, RawDefaults, RawKubernetes, RawTopology};

use crate::{
    access::AccessOptions, checkpoint::CheckpointOptions, identity::IdentityOptions, tls::TlsOptions,
    token::BearerToken,
};

/// Minimum and maximum interval, in milliseconds.
const INTERVAL_RANGE_MS: (u64, u64) = (200, 3_600_000);
/// Minimum and maximum timeout, in milliseconds.
const TIMEOUT_RANGE_MS: (u64, u64) = (50, 60_000);

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
    /// Limits of runs.
    pub(crate) runs: RunOptions,
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
    /// Interval of renewal forecasts per name; `None` disables them.
    pub(crate) forecast_interval: Option<Micros>,
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

/// Source of the topology, with the configuration's additions to it.
#[derive(Debug, Clone)]
pub(crate) struct TopologySource {
    /// The file to reload; absent for an inline topology.
    pub(crate) file: Option<PathBuf>,
    /// The cluster to watch.
    pub(crate) kubernetes: Option<KubernetesSettings>,
    config_file: PathBuf,
    config_document: Option<Arc<YamlDocument>>,
    targets: Vec<TargetSpec>,
    vantages: Vec<Vantage>,
    /// Vantages added by the embedding program.
    embedded_vantages: Vec<Vantage>,
    resolvers: ResolversSpec,
    balancers: Vec<BalancerSpec>,
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

    /// Validates everything except the topology, which `build` reads from its source.
    #[expect(
        clippy::too_many_lines,
        reason = "each section of the file is read and validated once"
    )]
    fn validate<T>(
        path: &Path,
        document: &YamlDocument,
        raw: RawConfig<T>,
        build: impl FnOnce(&mut TopologySource, Option<T>) -> Result<Topology, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut found = Vec::new();
        let mut wrong = |field: &str, message: String| found.push(document.problem(field, message));

        let listen = raw.listen.as_deref().unwrap_or("127.0.0.1:8080");
        let listen = listen.parse::<SocketAddr>().unwrap_or_else(|_| {
            wrong(
                "listen",
                format!("expected ADDRESS:PORT like 127.0.0.1:8080 or [::]:8080, found {listen:?}"),
            );
            SocketAddr::from(([127, 0, 0, 1], 0))
        });
        let mut within = |field: &str, (low, high): (u64, u64), given: Option<u64>, default: u64| {
            let value = given.unwrap_or(default);
            if !(low..=high).contains(&value) {
                wrong(
                    field,
                    format!("expected {low} to {high} milliseconds, found {value}"),
                );
            }
            Micros::from_millis(value)
        };
        let interval = within("intervalMs", INTERVAL_RANGE_MS, raw.interval_ms, 5_000);
        let timeout = within("timeoutMs", TIMEOUT_RANGE_MS, raw.timeout_ms, 3_000);
        let token = raw.token_file.as_ref().and_then(|file| {
            BearerToken::read(&folder.join(file))
                .map_err(|message| wrong("tokenFile", message))
                .ok()
        });
        let (tls, identity) = access::validate(
            raw.tls,
            raw.identity,
            raw.token_file.is_some(),
            folder,
            &mut wrong,
        );
        let access = raw
            .access
            .and_then(|raw| people::validate_access(raw, folder, &mut wrong));
        let runs = people::validate_runs(&raw.runs.unwrap_or_default(), &mut wrong);
        let challenges = challenges::validate(raw.challenges.unwrap_or_default(), &mut wrong);
        let store = raw.store.and_then(|raw| store::validate(raw, folder, &mut wrong));
        let actions_config_map = raw.incident_actions.and_then(|raw| {
            let place = raw.config_map.parse();
            place
                .map_err(|error: InvalidName| wrong("incidentActions.configMap", error.to_string()))
                .ok()
        });
        let checkpoint = raw
            .checkpoint
            .and_then(|raw| checkpoint::validate(raw, folder, &mut wrong));
        let forecast = forecast::validate(raw.forecast, &mut wrong);
        let replicas = raw.replicas.and_then(|raw| replicas::validate(&raw, &mut wrong));
        let notify = raw
            .notify
            .map(|raw| notify::validate(raw, folder, &mut wrong))
            .unwrap_or_default();
        let links = raw
            .links
            .map(|raw| links::validate(raw, &mut wrong))
            .unwrap_or_default();
        let vantages = raw
            .vantages
            .iter()
            .enumerate()
            .filter_map(|(i, text)| {
                text.parse()
                    .map_err(|error| wrong(&format!("vantages[{i}]"), format!("{error}")))
                    .ok()
            })
            .collect();

        let mut source = TopologySource {
            file: None,
            kubernetes: None,
            config_file: path.to_owned(),
            config_document: Some(Arc::new(document.clone())),
            targets: raw.targets,
            vantages,
            embedded_vantages: Vec::new(),
            resolvers: raw.resolvers,
            balancers: raw.balancers,
        };
        let topology = build(&mut source, raw.topology);
        if let (Some(kubernetes), Some(identity)) = (&mut source.kubernetes, &identity) {
            kubernetes.add_prober_namespaces(identity.namespaces());
        }
        match topology {
            Ok(topology) if found.is_empty() => Ok(Self {
                listen,
                interval,
                timeout,
                token,
                tls,
                identity,
                access,
                custom_resources: raw.custom_resources == Some(true),
                runs,
                challenges,
                client: None,
                prober_pods: None,
                links,
                actions_config_map,
                notify,
                checkpoint,
                forecast_interval: forecast,
                replicas,
                environment: RuntimeEnvironment::default(),
                record: None,
                store,
                initial_topology: Arc::new(topology),
                source,
            }),
            Ok(_) => Err(ConfigError::new(found)),
            Err(error) => Err(ConfigError::new(found).with_problems_of(error)),
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
            runs: RunOptions::default(),
            challenges: parallax_acme::challenges::ChallengeOptions::default(),
            client: None,
            prober_pods: None,
            links: ExternalLinks::default(),
            actions_config_map: None,
            notify: NotifyOptions::default(),
            checkpoint: None,
            forecast_interval: Some(forecast::DEFAULT_INTERVAL),
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
        if let Some(file) = file {
            self.checkpoint = Some(CheckpointOptions::File(file));
        }
        self
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

impl TopologySource {
    /// Reloads the topology file.
    pub(crate) fn reload(&self) -> Result<Topology, ConfigError> {
        let path = self.file.as_deref().unwrap_or(&self.config_file);
        let document = YamlDocument::open(path, "the topology")?;
        let spec = document.read()?;
        self.build(spec, &document, "")
    }

    /// Builds the topology, including the targets and vantages of the configuration.
    fn build(
        &self,
        mut spec: TopologySpec,
        document: &YamlDocument,
        at: &str,
    ) -> Result<Topology, ConfigError> {
        let (own, own_balancers) = (spec.targets.len(), spec.balancers.len());
        self.add_configured(&mut spec);
        let topology = Topology::try_from(spec).map_err(|problems| {
            let complaints = problems
                .into_iter()
                .map(|problem| {
                    match (
                        &self.config_document,
                        configured_path(&problem.path, own, own_balancers),
                    ) {
                        (Some(config), Some(path)) => config.problem(&path, problem.message),
                        _ if at.is_empty() => document.problem(&problem.path, problem.message),
                        _ => document.problem(&format!("{at}.{}", problem.path), problem.message),
                    }
                })
                .collect();
            ConfigError::new(complaints)
        })?;
        Ok(self.with_vantages(topology))
    }

    /// Adds targets, balancers and resolvers of the configuration.
    fn add_configured(&self, spec: &mut TopologySpec) {
        spec.targets.extend(self.targets.iter().cloned());
        spec.balancers.extend(self.balancers.iter().cloned());
        spec.resolvers.public.extend(&self.resolvers.public);
        spec.resolvers.authoritative |= self.resolvers.authoritative;
    }

    /// Adds targets, balancers and resolvers of the configuration to the discovered topology. For a target in both, the
    /// configuration defines the probe and the cluster the entry.
    pub(crate) fn join_configured(&self, spec: &mut TopologySpec) {
        let named = |target: &TargetSpec| Some(Target::try_from(target.clone()).ok()?.id);
        let mut own: BTreeMap<TargetId, &TargetSpec> = self
            .targets
            .iter()
            .filter_map(|target| Some((named(target)?, target)))
            .collect();
        let mut targets = self.targets.clone();
        if !own.is_empty() {
            for published in &mut spec.published {
                if let Some(target) = named(&published.target).and_then(|id| own.remove(&id)) {
                    published.target = target.clone();
                    targets.retain(|other| other != target);
                }
            }
            spec.targets
                .retain(|target| named(target).is_none_or(|id| !own.contains_key(&id)));
        }
        spec.targets.append(&mut targets);
        spec.balancers.extend(self.balancers.iter().cloned());
        spec.resolvers.public.extend(&self.resolvers.public);
        spec.resolvers.authoritative |= self.resolvers.authoritative;
        public_views::add_public_targets(spec);
    }

    pub(crate) fn with_vantages(&self, topology: Topology) -> Topology {
        self.vantages
            .iter()
            .chain(&self.embedded_vantages)
            .cloned()
            .fold(topology, Topology::with_vantage)
    }

    /// Adds the vantages of the embedding program to a topology.
    pub(crate) fn with_embedded_vantages(&self, topology: &Topology) -> Topology {
        let expected = self.embedded_vantages.iter().cloned();
        expected.fold(topology.clone(), Topology::with_vantage)
    }

    /// Returns the path of the configuration file.
    pub(crate) fn config_file(&self) -> &Path {
        &self.config_file
    }

    /// Copies the vantages of the embedding program from another source.
    pub(crate) fn with_embedded_vantages_of(mut self, other: &Self) -> Self {
        self.embedded_vantages.clone_from(&other.embedded_vantages);
        self
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

/// Maps a path of the joined topology to the configuration, if it refers to an entry that the configuration added.
/// `targets` and `balancers` are the topology's own numbers of entries.
fn configured_path(path: &str, targets: usize, balancers: usize) -> Option<String> {
    [("targets", targets), ("balancers", balancers)]
        .into_iter()
        .find_map(|(list, own)| {
            let (index, rest) = path.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
            let index = index.parse::<usize>().ok()?.checked_sub(own)?;
            Some(format!(
                "{list}[{index}]{}",
                if list == "targets" { "" } else { rest }
            ))
        })
}

#[cfg(test)]
mod tests;
