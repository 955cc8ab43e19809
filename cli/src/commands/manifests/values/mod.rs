//! The values of an installation, validated as a whole.

mod check;
mod defaults;
mod notify;
mod overlay;
mod raw;
mod workloads;

use std::{collections::BTreeMap, path::Path};

use check::ValueProblems;
use parallax_aggregator::{ConfigError, YamlDocument};
use url::Url;

pub(super) use notify::{HEARTBEAT_FILE, NotifyValues};
pub(super) use raw::CertManager;
use raw::RawValues;

/// Everything that a manifest depends on. Built only by [`Values::load`] and [`Values::default`], so all objects
/// derived from it are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) image: String,
    pub(super) image_pull_policy: Option<String>,
    pub(super) image_pull_secrets: Vec<String>,
    pub(super) namespace: String,
    /// Audience of the probers' tokens.
    pub(super) audience: String,
    pub(super) interval_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) prober: WorkloadValues,
    pub(super) aggregator: WorkloadValues,
    pub(super) replicas: i32,
    pub(super) volume: Option<VolumeClaim>,
    pub(super) echo_port: u16,
    pub(super) host_echo_port: u16,
    pub(super) host_vantage: bool,
    pub(super) responder: bool,
    /// Host names for vantages outside the cluster; if empty, they have no access.
    pub(super) external_hosts: Vec<String>,
    /// CA certificates that probes trust in addition to those of the image.
    pub(super) extra_roots: Option<ExtraRoots>,
    /// Namespaces whose Pods may access page, API and metrics.
    pub(super) page_namespaces: Vec<String>,
    pub(super) api_server_ports: Vec<u16>,
    pub(super) pod_monitor: Option<MonitorValues>,
    /// Whether the CRDs of Targets and Runs are installed and watched.
    pub(super) custom_resources: bool,
    /// Whether cert-manager's objects are watched where it is installed.
    pub(super) cert_manager: CertManager,
    /// Namespace in which to look for cert-manager's Pod; if absent, it is not looked for.
    pub(super) cert_manager_namespace: Option<String>,
    /// Receivers of incident notifications.
    pub(super) notify: NotifyValues,
    pub(super) links: LinkValues,
    /// The controller of `Preflight` objects, if enabled.
    pub(super) preflight: Option<PreflightValues>,
}

/// A key of a `ConfigMap` with PEM certificates, in the namespace of the Pods that mount it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExtraRoots {
    pub(super) config_map: String,
    pub(super) key: String,
}

/// Links to other pages of the installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LinkValues {
    pub(super) grafana: Option<Url>,
    pub(super) page: Option<Url>,
}

/// Settings of the controller that executes `Preflight` objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreflightValues {
    pub(super) workload: WorkloadValues,
    /// Namespaces in which it has permissions; empty means all.
    pub(super) namespaces: Vec<String>,
    pub(super) cert_manager_namespace: String,
}

/// Resources and scheduling of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkloadValues {
    pub(super) resources: ResourceValues,
    pub(super) placement: PlacementValues,
}

/// Quantities by resource name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourceValues {
    pub(super) requests: BTreeMap<String, String>,
    pub(super) limits: BTreeMap<String, String>,
}

/// Node selector, tolerations and priority of a Pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PlacementValues {
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) priority_class_name: Option<String>,
}

/// A toleration of a taint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Toleration {
    pub(super) key: Option<String>,
    pub(super) operator: Option<String>,
    pub(super) value: Option<String>,
    pub(super) effect: Option<String>,
    /// Duration, with the effect `NoExecute`.
    pub(super) seconds: Option<i64>,
}

/// A volume to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeClaim {
    pub(super) size: String,
    pub(super) storage_class: Option<String>,
}

/// Scrape settings for the Prometheus operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MonitorValues {
    pub(super) interval_seconds: u64,
    /// Whether the alerts are installed too.
    pub(super) rules: bool,
    /// Time after which a target that has never worked raises an alert; 0 disables the alert.
    pub(super) never_worked_minutes: u32,
    pub(super) labels: BTreeMap<String, String>,
}

impl Values {
    /// Reads a file and merges it over the defaults.
    ///
    /// # Errors
    /// All problems of the file, each with file, line and the expected value.
    pub(super) fn load(path: &Path) -> Result<Self, ConfigError> {
        let document = YamlDocument::open(path, "the values")?;
        let raw: RawValues = document.read()?;
        let mut check = ValueProblems::new(&document);
        let values = Self::default().merge(raw, &mut check);
        check.finish().map(|()| values)
    }

    /// Reports whether leader election is enabled.
    pub(super) const fn leader_election_enabled(&self) -> bool {
        self.replicas > 1
    }

    /// Returns the namespace of the host probers.
    pub(super) fn host_namespace(&self) -> String {
        format!("{}-host", self.namespace)
    }
}
