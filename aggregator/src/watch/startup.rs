//! Detects changes of the configuration that take effect only after a restart.

use crate::config::Config;
use parallax_kubernetes::topology_state::{ProbeTiming, SourceNote};

/// The configuration at the start, which is in effect.
#[derive(Debug)]
pub(crate) struct StartupConfig {
    config: Config,
    /// Initial timing; changing it needs no restart.
    pub(super) initial_timing: ProbeTiming,
}

impl StartupConfig {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            initial_timing: probe_timing(config),
            config: config.clone(),
        }
    }

    /// Returns a note for each section of a newer configuration that needs a restart.
    pub(super) fn restart_notes(&self, now: &Config) -> Vec<SourceNote> {
        let was = &self.config;
        [
            ("listen", was.listen == now.listen),
            ("topology", was.source.kubernetes == now.source.kubernetes),
            ("tokenFile", was.token == now.token),
            ("tls", was.tls == now.tls),
            ("identity", was.identity == now.identity),
            ("access", was.access == now.access),
            ("customResources", was.custom_resources == now.custom_resources),
            ("runs", was.runs == now.runs),
            ("challenges", was.challenges == now.challenges),
            ("replicas", was.replicas == now.replicas),
            ("links", was.links == now.links),
            ("notify", was.notify == now.notify),
            (
                "incidentActions",
                was.actions_config_map == now.actions_config_map,
            ),
            ("forecast", was.forecast_interval == now.forecast_interval),
            ("store", was.store == now.store),
        ]
        .into_iter()
        .filter(|(_, same)| !same)
        .map(|(key, _)| SourceNote {
            object: "configuration".to_owned(),
            text: format!("{key} changed; it takes effect after a restart"),
        })
        .collect()
    }
}

/// Returns interval and timeout of a configuration.
pub(super) const fn probe_timing(config: &Config) -> ProbeTiming {
    ProbeTiming {
        interval: config.interval,
        timeout: config.timeout,
    }
}
