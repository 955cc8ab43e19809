//! Alerts and dashboards for what Parallax measures, as code.
//!
//! ```text
//! alerts::ALERTS ─┬▶ rules         dashboards/parallax.rules.yaml · deploy/prometheus-rule.yaml
//!                 ├▶ provisioning  dashboards/grafana-alerts.yaml
//!                 └▶ inhibit       dashboards/alertmanager-inhibit.yaml
//! grafana::dashboards ───────────▶ dashboards/*.json
//! ```
//! [`files`] is everything that is committed of it; a test holds the files to it, and writes them with `PARALLAX_BLESS=1`.
//! No expression names a node and a target together: their number does not grow with nodes × targets.
#![forbid(unsafe_code)]

pub mod alerts;
pub mod grafana;
pub mod promql;

/// Something that cannot be written as YAML or JSON.
#[derive(Debug)]
pub struct SerializationError(String);

impl std::fmt::Display for SerializationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "writing a rule or dashboard: {}", self.0)
    }
}

impl std::error::Error for SerializationError {}

/// Every generated file: its path in the repository, and what is in it.
pub fn files() -> Result<Vec<(String, String)>, SerializationError> {
    let mut files = vec![
        (
            "dashboards/parallax.rules.yaml".to_owned(),
            alerts::rules::plain()?,
        ),
        ("deploy/prometheus-rule.yaml".to_owned(), alerts::rules::object()?),
        (
            "dashboards/grafana-alerts.yaml".to_owned(),
            alerts::provisioning::file()?,
        ),
        (
            "dashboards/alertmanager-inhibit.yaml".to_owned(),
            alerts::inhibit::file()?,
        ),
    ];
    for dashboard in grafana::dashboards() {
        files.push((dashboard.path(), dashboard.json()?));
    }
    Ok(files)
}

/// YAML that readers of version 1.1 take for the same: to them a bare `on` is no text.
fn yaml(value: &impl serde::Serialize) -> Result<String, SerializationError> {
    let options = serde_saphyr::ser_options! { yaml_12: false };
    serde_saphyr::to_string_with_options(value, options)
        .map(|text| text.trim_start().to_owned())
        .map_err(|error| SerializationError(error.to_string()))
}
