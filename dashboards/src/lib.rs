//! Alerts and dashboards for the metrics of Parallax, as code.
//!
//! ```text
//! alerts::ALERTS ─┬▶ rules         dashboards/parallax.rules.yaml · deploy/prometheus-rule.yaml
//!                 ├▶ provisioning  dashboards/grafana-alerts.yaml
//!                 └▶ inhibit       dashboards/alertmanager-inhibit.yaml
//! grafana::dashboards ───────────▶ dashboards/*.json
//! ```
//! [`files`] returns every committed file; a test compares the files with it, and writes them with `PARALLAX_BLESS=1`.
//! No expression combines a node label with a target label, so that the number of series does not grow with nodes ×
//! targets.
#![forbid(unsafe_code)]

pub mod alerts;
pub mod grafana;
pub mod promql;

/// Serialization as YAML or JSON failed.
#[derive(Debug)]
pub struct SerializationError(String);

impl std::fmt::Display for SerializationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot serialize a rule or dashboard: {}", self.0)
    }
}

impl std::error::Error for SerializationError {}

/// Every generated file: its path in the repository, and its content.
pub fn files() -> Result<Vec<(String, String)>, SerializationError> {
    let mut files = vec![
        (
            "dashboards/parallax.rules.yaml".to_owned(),
            alerts::rules::rule_file()?,
        ),
        (
            "deploy/prometheus-rule.yaml".to_owned(),
            alerts::rules::rule_object_file()?,
        ),
        (
            "dashboards/grafana-alerts.yaml".to_owned(),
            alerts::provisioning::provisioning_file()?,
        ),
        (
            "dashboards/alertmanager-inhibit.yaml".to_owned(),
            alerts::inhibit::inhibition_file()?,
        ),
    ];
    for dashboard in grafana::dashboards() {
        files.push((dashboard.path(), dashboard.json()?));
    }
    Ok(files)
}

/// Serializes as YAML that parsers of version 1.1 read the same way: to them a bare `on` is not a string.
fn yaml(value: &impl serde::Serialize) -> Result<String, SerializationError> {
    let options = serde_saphyr::ser_options! { yaml_12: false };
    serde_saphyr::to_string_with_options(value, options)
        .map(|text| text.trim_start().to_owned())
        .map_err(|error| SerializationError(error.to_string()))
}
