//! The alerts as a provisioning file for Grafana's own alerting.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use serde_saphyr::LitString;

use super::{Alert, all, rules::annotations};
use crate::{SerializationError, promql::Leader, yaml};

/// Default uid of the data source, to be replaced by the user's.
pub const DATA_SOURCE: &str = "prometheus";

const HEADER: &str = "\
# Generated from dashboards/src/alerts; do not edit. The rules of parallax.rules.yaml for Grafana's own alerting: a file for
# provisioning/alerting. `datasourceUid` is the uid of the Prometheus data source: replace `prometheus` where yours differs.
";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProvisioningFile {
    api_version: u8,
    groups: Vec<ProvisioningGroup>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProvisioningGroup {
    org_id: u8,
    name: &'static str,
    folder: &'static str,
    interval: &'static str,
    rules: Vec<ProvisioningRule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProvisioningRule {
    uid: String,
    title: &'static str,
    condition: &'static str,
    data: (ProvisioningQuery, ProvisioningQuery, Threshold),
    // No series means that all is well.
    no_data_state: &'static str,
    exec_err_state: &'static str,
    #[serde(rename = "for")]
    lasting: String,
    annotations: BTreeMap<&'static str, String>,
    labels: BTreeMap<&'static str, &'static str>,
    is_paused: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProvisioningQuery {
    ref_id: &'static str,
    relative_time_range: Value,
    datasource_uid: &'static str,
    model: QueryModel,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QueryModel {
    expr: LitString,
    instant: bool,
    interval_ms: u32,
    max_data_points: u32,
    ref_id: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Threshold {
    ref_id: &'static str,
    datasource_uid: &'static str,
    model: Value,
}

impl ProvisioningRule {
    fn from_alert(alert: &Alert) -> Self {
        Self {
            uid: uid(alert),
            title: alert.name,
            condition: "FIRES",
            data: (
                ProvisioningQuery::instant("VALUE", &alert.expression),
                ProvisioningQuery::instant("SERIES", &presence_expression(&alert.expression)),
                Threshold {
                    ref_id: "FIRES",
                    // Grafana's expression engine.
                    datasource_uid: "__expr__",
                    model: json!({
                        "conditions": [{"evaluator": {"params": [0], "type": "gt"}}],
                        "expression": "SERIES",
                        "refId": "FIRES",
                        "type": "threshold",
                    }),
                },
            ),
            no_data_state: "OK",
            exec_err_state: "Error",
            lasting: alert.duration_text(),
            annotations: annotations(alert)
                .into_iter()
                .map(|(name, text)| (name, with_grafana_value(&text)))
                .collect(),
            labels: alert
                .severity
                .label()
                .map(|label| ("severity", label))
                .into_iter()
                .collect(),
            is_paused: false,
        }
    }
}

impl ProvisioningQuery {
    fn instant(name: &'static str, expression: &str) -> Self {
        Self {
            ref_id: name,
            relative_time_range: json!({"from": 600, "to": 0}),
            datasource_uid: DATA_SOURCE,
            model: QueryModel {
                expr: LitString(format!("{expression}\n")),
                instant: true,
                interval_ms: 1_000,
                max_data_points: 43_200,
                ref_id: name,
            },
        }
    }
}

/// The alert's name in kebab case: `parallax-vantage-silent`.
fn uid(alert: &Alert) -> String {
    let mut uid = String::new();
    for c in alert.name.chars() {
        if c.is_ascii_uppercase() && !uid.is_empty() {
            uid.push('-');
        }
        uid.push(c.to_ascii_lowercase());
    }
    uid
}

/// 1 for every series of an expression: Prometheus fires on the presence of a series, Grafana on its value, which is
/// zero if nothing is reachable.
fn presence_expression(expression: &str) -> String {
    format!("({expression}) * 0 + 1")
}

/// Replaces `$value` by Grafana's name for it.
fn with_grafana_value(text: &str) -> String {
    text.replace("$value ", "$values.VALUE.Value ")
}

/// The file for `provisioning/alerting`.
pub fn provisioning_file() -> Result<String, SerializationError> {
    let file = ProvisioningFile {
        api_version: 1,
        groups: vec![ProvisioningGroup {
            org_id: 1,
            name: "parallax",
            folder: "Parallax",
            interval: "30s",
            rules: all(Leader::Inline)
                .iter()
                .map(ProvisioningRule::from_alert)
                .collect(),
        }],
    };
    Ok(format!("{HEADER}{}", yaml(&file)?))
}
