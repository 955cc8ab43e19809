//! Overlays the given values on the defaults and checks them.

use parallax_api::links::parse_base_url;
use parallax_dashboards::alerts::rules::NEVER_WORKED_MINUTES;
use url::Url;

use super::{
    ExtraRoots, LinkValues, MonitorValues, Values,
    check::ValueProblems,
    notify::NotifyValues,
    raw::{CertManager, RawMonitor, RawValues},
    workloads::{preflight, workload},
};

impl Values {
    pub(super) fn merge(mut self, raw: RawValues, check: &mut ValueProblems<'_>) -> Self {
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
    parse_base_url(&text?)
        .map_err(|reason| check.add(at, reason))
        .ok()
}
