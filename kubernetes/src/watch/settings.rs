//! Where the cluster is and what of it is wanted.

use super::{ApiServerAccess, WatchTiming};

/// Labels of the Pods of Parallax as they are installed: those that probe, and those that only answer.
pub const PROBERS: &str =
    "app.kubernetes.io/name=parallax,app.kubernetes.io/component in (prober,prober-host,responder)";

/// Where the cluster is and what of it is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// How to reach the API server.
    pub access: ApiServerAccess,
    /// Namespaces of the prober Pods; the aggregator's own where there are none.
    pub prober_namespaces: Vec<String>,
    /// Labels of the prober Pods.
    pub prober_selector: String,
    /// What is probed without anybody saying so.
    pub defaults: TargetDefaults,
    /// Whether cert-manager's objects are followed too.
    pub cert_manager: CertManagerMode,
    /// How fast and how patiently it is read.
    pub pace: WatchTiming,
}

impl KubernetesSettings {
    /// The defaults, for a cluster reached in this way.
    #[must_use]
    pub fn new(access: ApiServerAccess) -> Self {
        Self {
            access,
            prober_namespaces: Vec::new(),
            prober_selector: PROBERS.to_owned(),
            defaults: TargetDefaults::default(),
            cert_manager: CertManagerMode::default(),
            pace: WatchTiming::default(),
        }
    }

    /// Reads the Pods of these namespaces too.
    pub fn know_pods_of<'a>(&mut self, namespaces: impl Iterator<Item = &'a str>) {
        self.prober_namespaces.extend(namespaces.map(str::to_owned));
        self.prober_namespaces.sort_unstable();
        self.prober_namespaces.dedup();
    }
}

/// What is to be probed without anybody saying so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetDefaults {
    /// What the cluster publishes, as far as that is safe to ask for.
    #[default]
    Published,
    /// Nothing: only what says `parallax.dev/probe: "true"`.
    Annotated,
}

/// Whether cert-manager's objects are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CertManagerMode {
    /// Where there are such objects and the right to read them.
    #[default]
    Auto,
    /// Never: the API server is not asked for them.
    Off,
}
