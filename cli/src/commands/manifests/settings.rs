//! ConfigMaps: the aggregator's configuration, and those to which it writes.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::ConfigMap;

use super::{
    aggregator::{self, PAGE_PORT, PROBER_PORT},
    meta::{self, Component},
    storage,
    values::{CertManager, HEARTBEAT_FILE, Values},
};

/// ConfigMap with the configuration.
pub(super) const CONFIG_MAP: &str = "parallax-config";
/// Key of the configuration.
pub(super) const CONFIG_FILE: &str = "parallax.yaml";
/// ConfigMap in which the aggregator publishes its CA.
pub(crate) const CA_MAP: &str = "parallax-ca";
/// Key of the CA.
pub(crate) const CA_FILE: &str = "ca.crt";

/// ConfigMap with users' actions on incidents, for the next leader.
pub(super) const INCIDENT_ACTIONS_MAP: &str = "parallax-incident-actions";

/// ConfigMap with what has worked and which incidents are open, for the next process.
pub(super) const CHECKPOINT_MAP: &str = "parallax-checkpoint";

/// ConfigMap with the notifications sent, for the next leader.
pub(super) const NOTIFICATIONS_MAP: &str = "parallax-notifications";
/// Annotation of the aggregator's Pod template with the digest of the settings that require a restart.
pub(super) const CONFIG_DIGEST_ANNOTATION: &str = "parallax.dev/configuration";
/// Mount path of the secrets that sign webhooks.
pub(super) const SECRETS_MOUNT_PATH: &str = "/etc/parallax-secrets";

/// Digest of the settings that require a restart of the aggregator; a change of it in the Pod template causes a
/// rollout. Timing settings are reloaded at runtime.
pub(super) fn start_digest(values: &Values) -> String {
    let text = configuration(values);
    let of_a_start = |line: &&str| !line.starts_with("intervalMs: ") && !line.starts_with("timeoutMs: ");
    let lines: Vec<&str> = text.lines().filter(of_a_start).collect();
    let digest = ring::digest::digest(&ring::digest::SHA256, lines.join("\n").as_bytes());
    digest
        .as_ref()
        .iter()
        .take(8)
        .fold("sha256:".to_owned(), |mut hex, byte| {
            // Writing into a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// Builds all ConfigMaps.
pub(super) fn config_maps(values: &Values) -> Vec<ConfigMap> {
    let mut maps = vec![ConfigMap {
        metadata: Component::Aggregator.metadata(CONFIG_MAP, values),
        data: Some([(CONFIG_FILE.to_owned(), configuration(values))].into()),
        ..ConfigMap::default()
    }];
    // Empty, and defined here so that they are deleted with the rest. The aggregator owns the fields it writes, so
    // another apply does not touch them.
    maps.extend(prober_namespaces(values).into_iter().map(|namespace| ConfigMap {
        metadata: meta::installation_metadata(CA_MAP, Some(namespace)),
        ..ConfigMap::default()
    }));
    maps.extend([INCIDENT_ACTIONS_MAP, CHECKPOINT_MAP].map(|name| ConfigMap {
        metadata: meta::installation_metadata(name, Some(values.namespace.clone())),
        ..ConfigMap::default()
    }));
    if !values.notify.is_empty() {
        maps.push(ConfigMap {
            metadata: meta::installation_metadata(NOTIFICATIONS_MAP, Some(values.namespace.clone())),
            ..ConfigMap::default()
        });
    }
    maps
}

/// Returns the namespaces with probers.
pub(super) fn prober_namespaces(values: &Values) -> Vec<String> {
    let mut spaces = vec![values.namespace.clone()];
    if values.host_vantage {
        spaces.push(values.host_namespace());
    }
    spaces
}

/// Renders the aggregator's configuration as a person would write it.
fn configuration(values: &Values) -> String {
    let mut text = format!(
        "listen: '[::]:{PAGE_PORT}'\nintervalMs: {}\ntimeoutMs: {}\ntopology:\n  kubernetes: {}\n",
        values.interval_ms,
        values.timeout_ms,
        match values.cert_manager {
            CertManager::Auto => "{}",
            CertManager::Off => "{certManager: off}",
        }
    );
    let mut hosts = vec![aggregator::report_host(values)];
    hosts.extend(values.external_hosts.iter().cloned());
    let published: Vec<_> = prober_namespaces(values)
        .into_iter()
        .map(|space| format!("{space}/{CA_MAP}"))
        .collect();
    let mut probers = vec![format!("{}/{}", values.namespace, Component::Prober.name())];
    if values.host_vantage {
        let part = Component::HostProber;
        probers.push(format!("{}/{}", part.namespace(values), part.name()));
    }
    // Writing into a string cannot fail.
    let _ = write!(
        text,
        "tls:\n  listen: '[::]:{PROBER_PORT}'\n  hosts: {}\n  publish: {}\n",
        flow_list(&hosts),
        flow_list(&published)
    );
    if values.volume.is_some() {
        let folder = storage::MOUNT_PATH;
        let _ = write!(
            text,
            "  directory: {folder}/tls\nstore:\n  path: {folder}/history.db\n"
        );
    }
    let _ = write!(
        text,
        "identity:\n  audience: {}\n  probers: {}\n  vantages: {}\n",
        values.audience,
        flow_list(&probers),
        values.namespace
    );
    if values.responder {
        let account = format!("{}/{}", values.namespace, Component::Responder.name());
        let _ = writeln!(text, "  responders: {}", flow_list(&[account]));
    }
    let _ = write!(
        text,
        "incidentActions:\n  configMap: {0}/{INCIDENT_ACTIONS_MAP}\ncheckpoint:\n  configMap: {0}/{CHECKPOINT_MAP}\n",
        values.namespace
    );
    write_notifications(&mut text, values);
    if values.leader_election_enabled() {
        let _ = write!(
            text,
            "replicas:\n  lease: {}/{}\n",
            values.namespace,
            Component::Aggregator.name()
        );
    }
    if let Some(namespace) = &values.cert_manager_namespace {
        let _ = writeln!(text, "challenges:\n  certManagerNamespace: {namespace}");
    }
    if values.custom_resources {
        text.push_str("customResources: true\n");
    }
    let links = [("grafana", &values.links.grafana), ("page", &values.links.page)];
    let links: Vec<_> = links
        .into_iter()
        .filter_map(|(name, url)| {
            Some(format!(
                "{name}: '{}'",
                url.as_ref()?.as_str().replace('\'', "''")
            ))
        })
        .collect();
    if !links.is_empty() {
        let _ = writeln!(text, "links: {{{}}}", links.join(", "));
    }
    text
}

/// Renders the receivers of notifications.
fn write_notifications(text: &mut String, values: &Values) {
    let notify = &values.notify;
    if notify.is_empty() && notify.heartbeat.is_none() {
        return;
    }
    text.push_str("notify:\n");
    // Writing into a string cannot fail.
    if !notify.is_empty() {
        let _ = writeln!(text, "  configMap: {}/{NOTIFICATIONS_MAP}", values.namespace);
    }
    if notify.heartbeat.is_some() {
        let _ = writeln!(
            text,
            "  heartbeat: {{urlFile: '{SECRETS_MOUNT_PATH}/{HEARTBEAT_FILE}'}}"
        );
    }
    if notify.events {
        text.push_str("  events: true\n");
    }
    if !notify.webhooks.is_empty() {
        text.push_str("  webhooks:\n");
    }
    for webhook in &notify.webhooks {
        let _ = writeln!(
            text,
            "  - {{name: '{0}', url: '{1}', secretFile: '{SECRETS_MOUNT_PATH}/{0}'}}",
            webhook.name, webhook.url
        );
    }
    if !notify.alertmanagers.is_empty() {
        text.push_str("  alertmanagers:\n");
    }
    for (name, url) in &notify.alertmanagers {
        let _ = writeln!(
            text,
            "  - {{name: '{name}', url: '{url}', job: {}/{}}}",
            values.namespace,
            Component::Aggregator.name()
        );
    }
}

/// Renders a flow-style list. Kubernetes names need no quotes, IPv6 addresses do.
fn flow_list(items: &[String]) -> String {
    let written: Vec<_> = items
        .iter()
        .map(|item| {
            if item.contains(':') {
                format!("'{item}'")
            } else {
                item.clone()
            }
        })
        .collect();
    format!("[{}]", written.join(", "))
}
