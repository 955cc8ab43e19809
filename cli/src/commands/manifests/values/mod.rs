//! The values of an installation, validated as a whole.

mod check;
mod notify;
mod raw;

use std::{collections::BTreeMap, path::Path};

use check::ValueProblems;
use parallax_aggregator::{ConfigError, YamlDocument};
use parallax_api::links::parse_base_url;
use parallax_dashboards::alerts::rules::NEVER_WORKED_MINUTES;
use url::Url;

pub(super) use notify::NotifyValues;
pub(super) use raw::CertManager;
use raw::{RawMonitor, RawPreflight, RawResources, RawValues, RawWorkload};

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

impl Default for Values {
    fn default() -> Self {
        let workload = |cpu: &str, memory: &str, most: &str| WorkloadValues {
            resources: ResourceValues {
                requests: amounts([("cpu", cpu), ("memory", memory)]),
                // No CPU limit: a throttled process would measure its own throttling.
                limits: amounts([("memory", most)]),
            },
            placement: PlacementValues {
                node_selector: amounts([("kubernetes.io/os", "linux")]),
                ..PlacementValues::default()
            },
        };
        let mut prober = workload("10m", "24Mi", "128Mi");
        // Tainted nodes are probed like all others.
        prober.placement.tolerations.push(Toleration {
            key: None,
            operator: Some("Exists".to_owned()),
            value: None,
            effect: None,
            seconds: None,
        });
        Self {
            image: concat!("parallax:", env!("CARGO_PKG_VERSION")).to_owned(),
            image_pull_policy: None,
            image_pull_secrets: Vec::new(),
            namespace: "parallax".to_owned(),
            audience: "parallax".to_owned(),
            interval_ms: 5_000,
            timeout_ms: 3_000,
            prober,
            aggregator: workload("100m", "128Mi", "1Gi"),
            replicas: 1,
            volume: None,
            echo_port: 9_095,
            host_echo_port: 9_096,
            host_vantage: false,
            responder: false,
            external_hosts: Vec::new(),
            extra_roots: None,
            page_namespaces: Vec::new(),
            api_server_ports: vec![443, 6_443],
            pod_monitor: None,
            custom_resources: false,
            cert_manager: CertManager::default(),
            cert_manager_namespace: None,
            notify: NotifyValues::default(),
            links: LinkValues::default(),
            preflight: None,
        }
    }
}

impl Default for PreflightValues {
    fn default() -> Self {
        Self {
            workload: WorkloadValues {
                resources: ResourceValues {
                    requests: amounts([("cpu", "10m"), ("memory", "32Mi")]),
                    limits: amounts([("memory", "128Mi")]),
                },
                placement: PlacementValues {
                    node_selector: amounts([("kubernetes.io/os", "linux")]),
                    ..PlacementValues::default()
                },
            },
            namespaces: Vec::new(),
            cert_manager_namespace: "cert-manager".to_owned(),
        }
    }
}

fn amounts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    super::meta::string_map(pairs)
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

    fn merge(mut self, raw: RawValues, check: &mut ValueProblems<'_>) -> Self {
        if let Some(image) = raw.image {
            check.image("image", &image);
            self.image = image;
        }
        if let Some(policy) = raw.image_pull_policy {
            check.one_of("imagePullPolicy", &policy, &["Always", "IfNotPresent", "Never"]);
            self.image_pull_policy = Some(policy);
        }
        for (i, name) in raw.image_pull_secrets.iter().enumerate() {
            check.name(&format!("imagePullSecrets[{i}]"), name);
        }
        self.image_pull_secrets = raw.image_pull_secrets;
        if let Some(namespace) = raw.namespace {
            check.namespace("namespace", &namespace);
            self.namespace = namespace;
        }
        if let Some(audience) = raw.audience {
            check.name("audience", &audience);
            self.audience = audience;
        }
        if let Some(interval) = raw.interval_ms {
            check.in_range("intervalMs", interval, 200, 3_600_000, "milliseconds");
            self.interval_ms = interval;
        }
        if let Some(timeout) = raw.timeout_ms {
            check.in_range("timeoutMs", timeout, 50, 60_000, "milliseconds");
            self.timeout_ms = timeout;
        }
        for (field, port, given) in [
            ("echoPort", &mut self.echo_port, raw.echo_port),
            ("hostEchoPort", &mut self.host_echo_port, raw.host_echo_port),
        ] {
            if let Some(given) = given {
                check.unprivileged_port(field, given);
                *port = given;
            }
        }
        self.prober = workload(self.prober, raw.prober, "prober", check);
        self.overlay_aggregator(raw.aggregator, check);
        self.host_vantage = raw.host_vantage.unwrap_or(false);
        self.responder = raw.responder.unwrap_or(false);
        for (i, host) in raw.external_hosts.iter().enumerate() {
            check.host(&format!("externalHosts[{i}]"), host);
        }
        if self.replicas > 1 && !raw.external_hosts.is_empty() {
            check.add(
                "externalHosts",
                "expected none with 2 replicas: behind one address a machine outside the cluster would report to only one of the aggregators".to_owned(),
            );
        }
        self.external_hosts = raw.external_hosts;
        self.extra_roots = raw.extra_roots.map(|raw| {
            let key = raw.key.unwrap_or_else(|| "ca.crt".to_owned());
            check.name("extraRoots.configMap", &raw.config_map);
            check.key("extraRoots.key", &key);
            ExtraRoots {
                config_map: raw.config_map,
                key,
            }
        });
        for (i, namespace) in raw.page_namespaces.iter().enumerate() {
            check.namespace(&format!("pageNamespaces[{i}]"), namespace);
        }
        self.page_namespaces = raw.page_namespaces;
        if let Some(ports) = raw.api_server_ports {
            check.non_empty("apiServerPorts", ports.len());
            for (i, port) in ports.iter().enumerate() {
                check.port(&format!("apiServerPorts[{i}]"), *port);
            }
            self.api_server_ports = ports;
        }
        self.pod_monitor = raw.pod_monitor.map(|raw| monitor(raw, check));
        self.custom_resources = raw.custom_resources.unwrap_or(false);
        self.cert_manager = raw.cert_manager.unwrap_or_default();
        if let Some(namespace) = raw.cert_manager_namespace {
            check.namespace("certManagerNamespace", &namespace);
            if namespace == self.namespace {
                check.add(
                    "certManagerNamespace",
                    "expected a namespace other than that of Parallax".to_owned(),
                );
            }
            if self.cert_manager == CertManager::Off {
                check.add(
                    "certManagerNamespace",
                    "expected none with certManager: off, which disables watching cert-manager".to_owned(),
                );
            }
            self.cert_manager_namespace = Some(namespace);
        }
        self.links = LinkValues {
            grafana: parse_link("links.grafana", raw.links.grafana, check),
            page: parse_link("links.page", raw.links.page, check),
        };
        self.preflight = raw.preflight.map(|raw| preflight(raw, check));
        self.notify = NotifyValues::from_raw(raw.notify, check);
        self
    }

    fn overlay_aggregator(&mut self, raw: raw::RawAggregator, check: &mut ValueProblems<'_>) {
        if let Some(replicas) = raw.replicas {
            if !(1..=2).contains(&replicas) {
                check.add(
                    "aggregator.replicas",
                    format!("expected 1 or 2, found {replicas}: a leader and a standby, and every prober reports to both"),
                );
            }
            self.replicas = if replicas == 2 { 2 } else { 1 };
        }
        if self.replicas > 1 && raw.volume.is_some() {
            check.add(
                "aggregator.volume",
                "expected none with 2 replicas: only one Pod at a time can mount the volume".to_owned(),
            );
        }
        self.volume = raw.volume.map(|raw| {
            check.quantity("aggregator.volume.size", &raw.size);
            if let Some(class) = &raw.storage_class {
                check.name("aggregator.volume.storageClass", class);
            }
            VolumeClaim {
                size: raw.size,
                storage_class: raw.storage_class,
            }
        });
        let place = RawWorkload {
            resources: raw.resources,
            node_selector: raw.node_selector,
            tolerations: raw.tolerations,
            priority_class_name: raw.priority_class_name,
        };
        self.aggregator = workload(self.aggregator.clone(), place, "aggregator", check);
    }
}

fn preflight(raw: RawPreflight, check: &mut ValueProblems<'_>) -> PreflightValues {
    let known = PreflightValues::default();
    for (i, namespace) in raw.namespaces.iter().enumerate() {
        check.namespace(&format!("preflight.namespaces[{i}]"), namespace);
    }
    if let Some(namespace) = &raw.cert_manager_namespace {
        check.namespace("preflight.certManagerNamespace", namespace);
    }
    let place = RawWorkload {
        resources: raw.resources,
        node_selector: raw.node_selector,
        tolerations: raw.tolerations,
        priority_class_name: raw.priority_class_name,
    };
    PreflightValues {
        workload: workload(known.workload, place, "preflight", check),
        namespaces: raw.namespaces,
        cert_manager_namespace: raw.cert_manager_namespace.unwrap_or(known.cert_manager_namespace),
    }
}

fn workload(
    mut known: WorkloadValues,
    raw: RawWorkload,
    at: &str,
    check: &mut ValueProblems<'_>,
) -> WorkloadValues {
    if let Some(raw) = raw.resources {
        known.resources = resources(known.resources, raw, &format!("{at}.resources"), check);
    }
    if let Some(selector) = raw.node_selector {
        check.labels(&format!("{at}.nodeSelector"), &selector);
        known.placement.node_selector = selector;
    }
    if let Some(tolerations) = raw.tolerations {
        known.placement.tolerations = tolerations
            .into_iter()
            .enumerate()
            .map(|(i, raw)| {
                let at = format!("{at}.tolerations[{i}]");
                check.toleration(&at, &raw);
                Toleration {
                    key: raw.key,
                    operator: raw.operator,
                    value: raw.value,
                    effect: raw.effect,
                    seconds: raw.toleration_seconds,
                }
            })
            .collect();
    }
    if let Some(class) = raw.priority_class_name {
        check.name(&format!("{at}.priorityClassName"), &class);
        known.placement.priority_class_name = Some(class);
    }
    known
}

/// Given quantities replace the defaults of their resources; the other defaults stay.
fn resources(
    mut known: ResourceValues,
    raw: RawResources,
    at: &str,
    check: &mut ValueProblems<'_>,
) -> ResourceValues {
    for (name, kept, given) in [
        ("requests", &mut known.requests, raw.requests),
        ("limits", &mut known.limits, raw.limits),
    ] {
        for (resource, amount) in given.pairs() {
            check.quantity(&format!("{at}.{name}.{resource}"), &amount);
            kept.insert(resource.to_owned(), amount);
        }
    }
    known
}

fn monitor(raw: RawMonitor, check: &mut ValueProblems<'_>) -> MonitorValues {
    let interval_seconds = raw.interval_seconds.unwrap_or(30);
    check.in_range(
        "podMonitor.intervalSeconds",
        interval_seconds,
        1,
        3_600,
        "seconds",
    );
    let never_worked_minutes = raw.never_worked_minutes.unwrap_or(NEVER_WORKED_MINUTES);
    check.in_range(
        "podMonitor.neverWorkedMinutes",
        never_worked_minutes.into(),
        0,
        10_080,
        "minutes",
    );
    check.labels("podMonitor.labels", &raw.labels);
    MonitorValues {
        never_worked_minutes,
        interval_seconds,
        rules: raw.rules.unwrap_or(false),
        labels: raw.labels,
    }
}

fn parse_link(at: &str, text: Option<String>, check: &mut ValueProblems<'_>) -> Option<Url> {
    parse_base_url(&text?).map_err(|why| check.add(at, why)).ok()
}
