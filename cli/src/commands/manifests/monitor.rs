//! Objects of the Prometheus operator: the Pods to scrape, and the alerts. Defined here, because they are no built-in
//! types.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use parallax_dashboards::alerts::rules::PrometheusRule;
use serde::Serialize;

use super::{meta::Component, values::Values};

/// The part of a `PodMonitor` (`monitoring.coreos.com/v1`) that is used here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodMonitor {
    api_version: &'static str,
    kind: &'static str,
    metadata: ObjectMeta,
    spec: MonitorSpec,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MonitorSpec {
    selector: LabelSelector,
    pod_metrics_endpoints: Vec<Endpoint>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    port: &'static str,
    interval: String,
    /// Certificate series have their own `namespace` label; without this, the operator renames it.
    honor_labels: bool,
}

/// Builds one per workload, if enabled.
pub(super) fn pod_monitors(values: &Values) -> Option<Vec<PodMonitor>> {
    let wanted = values.pod_monitor.as_ref()?;
    let mut parts = vec![(Component::Aggregator, "http"), (Component::Prober, "echo")];
    if values.host_vantage {
        parts.push((Component::HostProber, "echo"));
    }
    Some(
        parts
            .into_iter()
            .map(|(part, port)| {
                let mut metadata = part.metadata(part.name(), values);
                if let Some(labels) = &mut metadata.labels {
                    labels.extend(wanted.labels.clone());
                }
                PodMonitor {
                    api_version: "monitoring.coreos.com/v1",
                    kind: "PodMonitor",
                    metadata,
                    spec: MonitorSpec {
                        selector: part.selector(),
                        pod_metrics_endpoints: vec![Endpoint {
                            port,
                            interval: format!("{}s", wanted.interval_seconds),
                            honor_labels: true,
                        }],
                    },
                }
            })
            .collect(),
    )
}

/// Builds the alerts, if enabled.
pub(super) fn rules(values: &Values) -> Option<PrometheusRule> {
    let monitor = values.pod_monitor.as_ref().filter(|monitor| monitor.rules)?;
    Some(PrometheusRule::new(
        &values.namespace,
        &monitor.labels,
        monitor.never_worked_minutes,
    ))
}
