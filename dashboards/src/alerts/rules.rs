//! The alerts for Prometheus: as a rule file, and as a `PrometheusRule` object.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_saphyr::LitString;

use super::{Alert, all};
use crate::{
    SerializationError,
    promql::{LEADER_RECORD, Leader, leader_record_expression},
    yaml,
};

#[derive(Debug, Serialize)]
struct RuleGroups {
    groups: Vec<RuleGroup>,
}

#[derive(Debug, Serialize)]
struct RuleGroup {
    name: &'static str,
    rules: Vec<Rule>,
}

/// A rule of a group, in which Prometheus evaluates one after the other.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Rule {
    Recording(RecordingRule),
    Alert(AlertRule),
}

#[derive(Debug, Serialize)]
struct RecordingRule {
    record: &'static str,
    expr: LitString,
}

#[derive(Debug, Serialize)]
struct AlertRule {
    alert: &'static str,
    expr: LitString,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    lasting: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<&'static str, &'static str>,
    annotations: BTreeMap<&'static str, String>,
}

/// A `PrometheusRule` of `monitoring.coreos.com/v1`, with the fields used here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PrometheusRule {
    api_version: &'static str,
    kind: &'static str,
    metadata: RuleMetadata,
    spec: RuleGroups,
}

#[derive(Debug, Serialize)]
struct RuleMetadata {
    labels: BTreeMap<&'static str, &'static str>,
    name: &'static str,
    namespace: &'static str,
}

/// The header of both files.
const HEADER: &str = "\
# Generated from dashboards/src/alerts; do not edit. What each alert means and what to do: docs/runbooks. How they are routed
# and inhibited: docs/use/alerts.md. The alerts use the recorded series of their group: which aggregators count.
";

fn rule_groups() -> RuleGroups {
    let leader = Rule::Recording(RecordingRule {
        record: LEADER_RECORD,
        expr: block(&leader_record_expression()),
    });
    let alerts = all(Leader::Recorded);
    let alerts = alerts
        .iter()
        .map(|alert| Rule::Alert(AlertRule::from_alert(alert)));
    let rules = std::iter::once(leader).chain(alerts).collect();
    RuleGroups {
        groups: vec![RuleGroup {
            name: "parallax",
            rules,
        }],
    }
}

/// An expression that is written as a block, because it ends with a newline.
fn block(expression: &str) -> LitString {
    LitString(format!("{expression}\n"))
}

impl AlertRule {
    fn from_alert(alert: &Alert) -> Self {
        Self {
            alert: alert.name,
            expr: block(&alert.expression),
            lasting: (alert.for_seconds > 0).then(|| alert.duration_text()),
            labels: alert
                .severity
                .label()
                .map(|label| ("severity", label))
                .into_iter()
                .collect(),
            annotations: annotations(alert),
        }
    }
}

/// The annotations of an alert.
pub(super) fn annotations(alert: &Alert) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("summary", alert.summary.to_owned()),
        ("description", alert.description.to_owned()),
        ("runbook", alert.runbook()),
    ])
}

/// The file for `rule_files`.
pub fn rule_file() -> Result<String, SerializationError> {
    Ok(format!("{HEADER}{}", yaml(&rule_groups())?))
}

/// The object for the Prometheus operator, for an installation with default values.
pub fn rule_object_file() -> Result<String, SerializationError> {
    let object = PrometheusRule {
        api_version: "monitoring.coreos.com/v1",
        kind: "PrometheusRule",
        metadata: RuleMetadata {
            labels: BTreeMap::from([("app.kubernetes.io/name", "parallax")]),
            name: "parallax",
            namespace: "parallax",
        },
        spec: rule_groups(),
    };
    Ok(format!("{HEADER}{}", yaml(&object)?))
}
