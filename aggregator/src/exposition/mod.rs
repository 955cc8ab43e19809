//! Exposition of `/metrics`. Names, help texts and types are an API, checked by a golden test.
//!
//! Subsystems count events as they happen. Current state is read from the latest view at each scrape ([`live`]), so
//! the series of removed targets end automatically. Targets are labels and nodes are not, so that the cost of a
//! scrape does not grow with nodes × targets.

mod build_info;
mod families;
#[cfg(test)]
mod large;
mod live;
#[cfg(test)]
mod reference;
mod renewals;
#[cfg(test)]
mod tests;
mod verdicts;

use parallax_history::{recording::RecordMetrics, store::StoreMetrics};
use parallax_kubernetes::replicas::ReplicaMetrics;
use parallax_notify::{NotifyMetrics, incident_actions::IncidentActionMetrics};
use parallax_runs::RunMetrics;
use parallax_runtime::{ProcessMetrics, metrics::HistogramBuckets};
use prometheus_client::registry::Registry;

use crate::{
    checkpoint::CheckpointMetrics, identity::IdentityMetrics, ingest::IngestMetrics, tls::TlsMetrics,
};

pub(crate) use live::ScrapeSources;

/// Metrics of all subsystems. Clones share the counts.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) ingest: IngestMetrics,
    pub(crate) record: RecordMetrics,
    pub(crate) checkpoint: CheckpointMetrics,
    pub(crate) identity: IdentityMetrics,
    pub(crate) tls: TlsMetrics,
    pub(crate) replicas: ReplicaMetrics,
    pub(crate) actions: IncidentActionMetrics,
    pub(crate) notify: NotifyMetrics,
    pub(crate) runs: RunMetrics,
    pub(crate) store: StoreMetrics,
}

impl Metrics {
    pub(crate) fn new(buckets: HistogramBuckets) -> Self {
        Self {
            ingest: IngestMetrics::new(buckets),
            record: RecordMetrics::new(),
            checkpoint: CheckpointMetrics::new(),
            identity: IdentityMetrics::new(),
            tls: TlsMetrics::default(),
            replicas: ReplicaMetrics::default(),
            actions: IncidentActionMetrics::default(),
            notify: NotifyMetrics::default(),
            runs: RunMetrics::new(),
            store: StoreMetrics::new(),
        }
    }

    /// Creates the registry of all metrics.
    pub(crate) fn registry(&self, live: ScrapeSources) -> Registry {
        let mut root = Registry::default();
        root.register_collector(Box::new(ProcessMetrics));
        let registry = root.sub_registry_with_prefix("parallax");
        macro_rules! register {
            ($($family:ident: $($field:ident).+;)+) => {
                $(registry.register(
                    families::$family.name,
                    families::$family.help_without_stop(),
                    self.$($field).+.clone(),
                );)+
            };
        }
        register! {
            PROBES: ingest.probes;
            PHASES: ingest.phases;
            LINES: ingest.lines;
            REPORTS: ingest.reports;
            DISCARDED: ingest.discarded;
            RECORDING_LINES: record.recorded;
            RECORDING_FAILING: record.failing;
            CHECKPOINT_WRITES: checkpoint.writes;
            IDENTITY_REFUSED: identity.rejected;
            CA_UNPUBLISHED: tls.ca_unpublished;
            LEADER: replicas.leader;
            LEASE_FAILURES: replicas.lease_failures;
            INCIDENT_ACTIONS_UNPERSISTED: actions.unshared;
            STORE_WRITTEN: store.written;
            STORE_DROPPED: store.dropped;
            STORE_SURPLUS: store.surplus_failures;
            NOTIFICATIONS: notify.notifications;
            RUNS: runs.results;
            RUNS_ACTIVE: runs.active;
            RUN_SECONDS: runs.seconds;
            RUN_FIRST_PROBE_SECONDS: runs.first_probe_seconds;
        }
        let info = families::BUILD_INFO;
        registry.register(info.name, info.help_without_stop(), build_info::build_info());
        registry.register_collector(Box::new(live));
        root
    }
}
