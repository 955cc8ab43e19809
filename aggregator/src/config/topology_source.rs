//! The source of the topology, with the additions of the configuration to it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use parallax_diagnosis::topology::{BalancerSpec, ResolversSpec, Topology, TopologySpec};
use parallax_kubernetes::watch::KubernetesSettings;
use parallax_model::{NodeName, Target, TargetId, TargetSpec, Vantage};

use super::{document::YamlDocument, error::ConfigError, public_views};

/// Source of the topology, with the configuration's additions to it.
#[derive(Debug, Clone)]
pub(crate) struct TopologySource {
    /// The file to reload; absent for an inline topology.
    pub(crate) file: Option<PathBuf>,
    /// The cluster to watch.
    pub(crate) kubernetes: Option<KubernetesSettings>,
    pub(super) config_file: PathBuf,
    pub(super) config_document: Option<Arc<YamlDocument>>,
    pub(super) targets: Vec<TargetSpec>,
    pub(super) vantages: Vec<Vantage>,
    /// Vantages added by the embedding program.
    pub(super) embedded_vantages: Vec<Vantage>,
    /// The node of the watched cluster on which this aggregator runs.
    pub(super) node: Option<NodeName>,
    pub(super) resolvers: ResolversSpec,
    pub(super) balancers: Vec<BalancerSpec>,
}

impl TopologySource {
    /// Reloads the topology file.
    ///
    /// # Errors
    /// The file is unreadable, invalid or empty. An empty file is usually one that a program is about to write, and a
    /// topology without nodes and targets would end every probe.
    pub(crate) fn reload(&self) -> Result<Topology, ConfigError> {
        let path = self.file.as_deref().unwrap_or(&self.config_file);
        let document = YamlDocument::open(path, "the topology")?;
        if document.is_empty() {
            let message = "the topology file is empty; write `nodes: []` for a topology without nodes";
            return Err(ConfigError::new(vec![document.problem("", message.to_owned())]));
        }
        let spec = document.read()?;
        self.build(spec, &document, "")
    }

    /// Builds the topology, including the targets and vantages of the configuration.
    pub(super) fn build(
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
        self.place_aggregator(spec);
        spec.targets.append(&mut targets);
        spec.balancers.extend(self.balancers.iter().cloned());
        spec.resolvers.public.extend(&self.resolvers.public);
        spec.resolvers.authoritative |= self.resolvers.authoritative;
        public_views::add_public_targets(spec);
    }

    /// Adds the place of this aggregator, if it runs on a node of the topology.
    fn place_aggregator(&self, spec: &mut TopologySpec) {
        let own = self.node.as_ref();
        if let Some(node) = own.filter(|own| spec.nodes.iter().any(|node| node.name == **own)) {
            spec.aggregator = Some(node.clone());
        }
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

    /// Returns the configured namespaces of the prober Pods; empty if that is the aggregator's own.
    pub(crate) fn prober_namespaces(&self) -> Vec<String> {
        let watched = self.kubernetes.as_ref();
        watched.map_or_else(Vec::new, |watched| watched.prober_namespaces.clone())
    }

    /// Returns the path of the configuration file.
    pub(crate) fn config_file(&self) -> &Path {
        &self.config_file
    }

    /// Copies what the embedding program added from another source: vantages, and the place of the aggregator.
    pub(crate) fn with_embedded_vantages_of(mut self, other: &Self) -> Self {
        self.embedded_vantages.clone_from(&other.embedded_vantages);
        self.node.clone_from(&other.node);
        self
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
