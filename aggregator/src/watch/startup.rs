//! What a configuration says that only a start can change, compared with what it says now.

use crate::config::Config;
use parallax_kubernetes::topology_state::{ProbeTiming, SourceNote};

/// The configuration as at the start: what is running.
#[derive(Debug)]
pub(crate) struct StartupConfig {
    config: Config,
    /// This takes none.
    pub(super) timing: ProbeTiming,
}

impl StartupConfig {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            timing: probe_timing(config),
            config: config.clone(),
        }
    }

    /// What of a later configuration waits for the next start.
    pub(super) fn waiting(&self, now: &Config) -> Vec<SourceNote> {
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
            ("handling", was.handling == now.handling),
            ("forecast", was.forecast == now.forecast),
            ("store", was.store == now.store),
        ]
        .into_iter()
        .filter(|(_, same)| !same)
        .map(|(key, _)| SourceNote {
            object: "configuration".to_owned(),
            text: format!("{key} changed; it takes effect with the next start"),
        })
        .collect()
    }
}

/// Interval and timeout of a configuration.
pub(super) const fn probe_timing(config: &Config) -> ProbeTiming {
    ProbeTiming {
        interval: config.interval,
        timeout: config.timeout,
    }
}
