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
        // Every field is listed, so that a new one cannot be forgotten.
        let Config {
            listen,
            token,
            tls,
            identity,
            access,
            custom_resources,
            allowed_hosts,
            runs,
            tenants,
            challenges,
            links,
            actions_config_map,
            notify,
            checkpoint,
            forecast_interval,
            histogram_buckets,
            replicas,
            store,
            source,
            // In effect at once.
            interval: _,
            timeout: _,
            initial_topology: _,
            // Not from the file.
            checkpoint_file: _,
            client: _,
            prober_pods: _,
            environment: _,
            record: _,
        } = now;
        let was = &self.config;
        [
            ("listen", was.listen == *listen),
            ("topology", was.source.kubernetes == source.kubernetes),
            ("tokenFile", was.token == *token),
            ("tls", was.tls == *tls),
            ("identity", was.identity == *identity),
            ("access", was.access == *access),
            ("customResources", was.custom_resources == *custom_resources),
            ("allowedHosts", was.allowed_hosts == *allowed_hosts),
            ("runs", was.runs == *runs),
            ("tenants", was.tenants == *tenants),
            ("challenges", was.challenges == *challenges),
            ("replicas", was.replicas == *replicas),
            ("links", was.links == *links),
            ("notify", was.notify == *notify),
            ("incidentActions", was.actions_config_map == *actions_config_map),
            ("forecast", was.forecast_interval == *forecast_interval),
            ("metrics", was.histogram_buckets == *histogram_buckets),
            ("checkpoint", was.checkpoint == *checkpoint),
            ("store", was.store == *store),
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
