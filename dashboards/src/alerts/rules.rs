//! The alerts for Prometheus: as a file of rules, and as an object for its operator.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_saphyr::LitString;

use super::{Alert, all, targets::NEVER_WORKED};
use crate::{SerializationError, yaml};

#[derive(Debug, Serialize)]
struct RuleGroups {
    groups: Vec<RuleGroup>,
}

#[derive(Debug, Serialize)]
struct RuleGroup {
    name: &'static str,
    rules: Vec<AlertRule>,
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

/// A `PrometheusRule` of `monitoring.coreos.com/v1`, as far as it is used here.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusRule {
    api_version: &'static str,
    kind: &'static str,
    metadata: RuleMetadata,
    spec: RuleGroups,
}

#[derive(Debug, Serialize)]
struct RuleMetadata {
    labels: BTreeMap<String, String>,
    name: &'static str,
    namespace: String,
}

impl PrometheusRule {
    /// All alerts, in the namespace of an installation. An operator may ask for labels of its own. A target that has never
    /// worked raises an alert after so many minutes, with zero none.
    #[must_use]
    pub fn new(namespace: &str, labels: &BTreeMap<String, String>, never_worked_minutes: u32) -> Self {
        let mut labels = labels.clone();
        labels.insert("app.kubernetes.io/name".to_owned(), "parallax".to_owned());
        Self {
            api_version: "monitoring.coreos.com/v1",
            kind: "PrometheusRule",
            metadata: RuleMetadata {
                labels,
                name: "parallax",
                namespace: namespace.to_owned(),
            },
            spec: groups(never_worked_minutes),
        }
    }
}

/// What stands above both.
const HEAD: &str = "\
# Written from dashboards/src/alerts; do not edit. What each alert means and what to do: docs/runbooks. How they are routed
# and inhibited: docs/use/alerts.md.
";

/// Minutes after which a target that has never worked raises an alert, unless an installation chooses another time.
pub const NEVER_WORKED_MINUTES: u32 = 30;

fn groups(never_worked_minutes: u32) -> RuleGroups {
    let mut alerts = all();
    alerts.retain(|alert| never_worked_minutes > 0 || alert.name != NEVER_WORKED);
    for alert in alerts.iter_mut().filter(|alert| alert.name == NEVER_WORKED) {
        alert.lasting = never_worked_minutes * 60;
    }
    let rules = alerts.iter().map(AlertRule::of).collect();
    RuleGroups {
        groups: vec![RuleGroup {
            name: "parallax",
            rules,
        }],
    }
}

impl AlertRule {
    fn of(alert: &Alert) -> Self {
        Self {
            alert: alert.name,
            // Ends a line, so that it is written as a block.
            expr: LitString(format!("{}\n", alert.expression)),
            lasting: (alert.lasting > 0).then(|| alert.for_text()),
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

/// The texts that go with an alert.
pub(super) fn annotations(alert: &Alert) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("summary", alert.summary.to_owned()),
        ("description", alert.description.to_owned()),
        ("runbook", alert.runbook()),
    ])
}

/// A file for `rule_files`.
pub fn plain() -> Result<String, SerializationError> {
    Ok(format!("{HEAD}{}", yaml(&groups(NEVER_WORKED_MINUTES))?))
}

/// The object for the operator, beside the installation with its defaults.
pub fn object() -> Result<String, SerializationError> {
    let object = PrometheusRule::new("parallax", &BTreeMap::new(), NEVER_WORKED_MINUTES);
    Ok(format!("{HEAD}{}", yaml(&object)?))
}
