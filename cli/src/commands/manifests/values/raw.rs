//! The values file as parsed.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawValues {
    pub(super) image: Option<String>,
    pub(super) image_pull_policy: Option<String>,
    #[serde(default)]
    pub(super) image_pull_secrets: Vec<String>,
    pub(super) namespace: Option<String>,
    pub(super) audience: Option<String>,
    pub(super) interval_ms: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(super) prober: RawWorkload,
    #[serde(default)]
    pub(super) aggregator: RawAggregator,
    pub(super) echo_port: Option<u16>,
    pub(super) host_echo_port: Option<u16>,
    pub(super) host_vantage: Option<bool>,
    pub(super) responder: Option<bool>,
    #[serde(default)]
    pub(super) external_hosts: Vec<String>,
    pub(super) extra_roots: Option<RawExtraRoots>,
    #[serde(default)]
    pub(super) page_namespaces: Vec<String>,
    pub(super) api_server_ports: Option<Vec<u16>>,
    pub(super) pod_monitor: Option<RawMonitor>,
    pub(super) custom_resources: Option<bool>,
    pub(super) cert_manager: Option<CertManager>,
    pub(super) cert_manager_namespace: Option<String>,
    #[serde(default)]
    pub(super) notify: RawNotify,
    #[serde(default)]
    pub(super) links: RawLinks,
    pub(super) preflight: Option<RawPreflight>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawExtraRoots {
    pub(super) config_map: String,
    pub(super) key: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawLinks {
    pub(super) grafana: Option<String>,
    pub(super) page: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawPreflight {
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    pub(super) cert_manager_namespace: Option<String>,
    pub(super) resources: Option<RawResources>,
    pub(super) node_selector: Option<BTreeMap<String, String>>,
    pub(super) tolerations: Option<Vec<RawToleration>>,
    pub(super) priority_class_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawNotify {
    pub(super) events: Option<bool>,
    #[serde(default)]
    pub(super) webhooks: Vec<RawWebhook>,
    #[serde(default)]
    pub(super) alertmanagers: Vec<RawAlertmanager>,
    pub(super) heartbeat: Option<RawHeartbeat>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawHeartbeat {
    pub(super) secret: String,
    pub(super) port: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawWebhook {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) secret: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawAlertmanager {
    pub(super) name: String,
    pub(super) url: String,
}

/// Whether cert-manager's objects are watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands::manifests) enum CertManager {
    /// Where it is installed.
    #[default]
    Auto,
    /// Never.
    Off,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawWorkload {
    pub(super) resources: Option<RawResources>,
    pub(super) node_selector: Option<BTreeMap<String, String>>,
    pub(super) tolerations: Option<Vec<RawToleration>>,
    pub(super) priority_class_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawAggregator {
    pub(super) replicas: Option<u32>,
    pub(super) volume: Option<RawVolume>,
    pub(super) resources: Option<RawResources>,
    pub(super) node_selector: Option<BTreeMap<String, String>>,
    pub(super) tolerations: Option<Vec<RawToleration>>,
    pub(super) priority_class_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawVolume {
    pub(super) size: String,
    pub(super) storage_class: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawResources {
    #[serde(default)]
    pub(super) requests: RawAmounts,
    #[serde(default)]
    pub(super) limits: RawAmounts,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAmounts {
    cpu: Option<String>,
    memory: Option<String>,
    #[serde(rename = "ephemeral-storage")]
    ephemeral_storage: Option<String>,
}

impl RawAmounts {
    /// Returns the given amounts by resource name.
    pub(super) fn pairs(self) -> impl Iterator<Item = (&'static str, String)> {
        [
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.ephemeral_storage),
        ]
        .into_iter()
        .filter_map(|(name, amount)| Some((name, amount?)))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawToleration {
    pub(super) key: Option<String>,
    pub(super) operator: Option<String>,
    pub(super) value: Option<String>,
    pub(super) effect: Option<String>,
    pub(super) toleration_seconds: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawMonitor {
    pub(super) interval_seconds: Option<u64>,
    pub(super) rules: Option<bool>,
    pub(super) never_worked_minutes: Option<u32>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
}
