//! Settings of the cluster source.

use super::{ApiServerAccess, WatchTiming};

/// Label selector of the prober and responder Pods of an installation.
pub const PROBER_SELECTOR: &str =
    "app.kubernetes.io/name=parallax,app.kubernetes.io/component in (prober,prober-host,responder)";

/// Settings of the cluster source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// How to connect to the API server.
    pub access: ApiServerAccess,
    /// Namespaces of the prober Pods; the aggregator's own if empty.
    pub prober_namespaces: Vec<String>,
    /// Label selector of the prober Pods.
    pub prober_selector: String,
    /// Targets that are probed by default.
    pub defaults: TargetDefaults,
    /// Whether to watch cert-manager's objects.
    pub cert_manager: CertManagerMode,
    /// Timing of the watches.
    pub timing: WatchTiming,
}

impl KubernetesSettings {
    /// Creates settings with defaults.
    #[must_use]
    pub fn new(access: ApiServerAccess) -> Self {
        Self {
            access,
            prober_namespaces: Vec::new(),
            prober_selector: PROBER_SELECTOR.to_owned(),
            defaults: TargetDefaults::default(),
            cert_manager: CertManagerMode::default(),
            timing: WatchTiming::default(),
        }
    }

    /// Adds namespaces whose Pods are watched.
    pub fn add_prober_namespaces<'a>(&mut self, namespaces: impl Iterator<Item = &'a str>) {
        self.prober_namespaces.extend(namespaces.map(str::to_owned));
        self.prober_namespaces.sort_unstable();
        self.prober_namespaces.dedup();
    }
}

/// Targets that are probed by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetDefaults {
    /// What the cluster publishes, as far as it is safe to probe.
    #[default]
    Published,
    /// Only objects with the annotation `parallax.dev/probe: "true"`.
    Annotated,
}

/// Whether to watch cert-manager's objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CertManagerMode {
    /// If the cluster has such objects and the aggregator may read them.
    #[default]
    Auto,
    /// Never; the API server is not queried for them.
    Off,
}
