//! The prober's own metrics. Names and help texts are an API, checked by a golden test.

use std::{collections::BTreeSet, fmt, sync::atomic::AtomicU64, time::Duration};

use parallax_model::{Outcome, ProbeSpec};
use parallax_runtime::ProcessMetrics;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, prometheus_protobuf, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, NativeHistogramConfig},
    },
    registry::Registry,
};

use crate::replica_key::ReplicaKey;

/// Labels of `parallax_prober_probes_total`: a kind of [`ProbeSpec`] and one of three results, whatever the plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProbeLabels {
    kind: &'static str,
    result: &'static str,
}

/// Label of `parallax_prober_build_info`: one series.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VersionLabel {
    version: &'static str,
}

/// Labels of `parallax_prober_replica_spool_reports`: one series per aggregator, and one more while one is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReplicaLabel {
    replica: String,
}

const KINDS: [&str; 5] = ["http", "tcp", "dns", "echo", "challenge"];
const RESULTS: [&str; 3] = ["ok", "failed", "not_asked"];

/// The registry and its metrics.
pub(crate) struct Metrics {
    registry: Registry,
    probes: Family<ProbeLabels, Counter>,
    late: Histogram,
    plan_age: Gauge<f64, AtomicU64>,
    spool: Gauge<i64>,
    replica_spools: Family<ReplicaLabel, Gauge<i64>>,
    /// The replicas that have a series.
    replica_series: Mutex<BTreeSet<String>>,
    dropped: Counter,
    overrun: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A rendered exposition with its content type.
#[derive(Debug)]
pub(crate) struct Exposition {
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let probes = Family::<ProbeLabels, Counter>::default();
        for kind in KINDS {
            for result in RESULTS {
                // Series exist from the start, so that the first failure is an increase.
                drop(probes.get_or_create(&ProbeLabels { kind, result }));
            }
        }
        // 1 ms to 16 s by powers of two for scrapers without native histograms.
        let classic = (0..15).map(|power| 0.001 * f64::from(1_u32 << power));
        let late = Histogram::new_classic_and_native(classic, NativeHistogramConfig::with_schema(3));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics));
        let metrics = Self {
            registry,
            probes,
            late,
            plan_age: Gauge::default(),
            spool: Gauge::default(),
            replica_spools: Family::default(),
            replica_series: Mutex::default(),
            dropped: Counter::default(),
            overrun: Counter::default(),
        };
        metrics.register()
    }

    fn register(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register(
            "parallax_prober_probes",
            "Probes by kind and result; not_asked is a fault of the prober itself",
            self.probes.clone(),
        );
        registry.register(
            "parallax_prober_late_seconds",
            "Delay of probe starts against their schedule",
            self.late.clone(),
        );
        registry.register(
            "parallax_prober_plan_age_seconds",
            "Time since the last line of the plan stream, heartbeats included",
            self.plan_age.clone(),
        );
        registry.register(
            "parallax_prober_spool_reports",
            "Observations that the aggregator has not acknowledged; with several aggregators, those of the one furthest behind",
            self.spool.clone(),
        );
        registry.register(
            "parallax_prober_replica_spool_reports",
            "Observations that each of several aggregators has not acknowledged; no series if there is only one",
            self.replica_spools.clone(),
        );
        registry.register(
            "parallax_prober_spool_dropped",
            "Observations dropped because the spool was full or the aggregator rejected them",
            self.dropped.clone(),
        );
        registry.register(
            "parallax_prober_overrun",
            "Starts skipped because the assignment's previous probe was still running",
            self.overrun.clone(),
        );
        let info = Family::<VersionLabel, Gauge>::default();
        let version = env!("CARGO_PKG_VERSION");
        info.get_or_create(&VersionLabel { version }).set(1);
        registry.register(
            "parallax_prober_build_info",
            "1, with the version of the prober",
            info,
        );
        self
    }

    pub(crate) fn record_probe(&self, probe: &ProbeSpec, outcome: &Outcome) {
        let kind = probe.kind().label();
        let result = match outcome {
            Outcome::Ok { .. } => "ok",
            Outcome::Failed { .. } => "failed",
            Outcome::NotProbed { .. } => "not_asked",
        };
        self.probes.get_or_create(&ProbeLabels { kind, result }).inc();
    }

    pub(crate) fn record_delay(&self, late: Duration) {
        self.late.observe(late.as_secs_f64());
    }

    pub(crate) fn record_overrun(&self, starts: u64) {
        self.overrun.inc_by(starts);
    }

    /// Sets the spool metrics after a change. `dropped` counts from the start and never decreases.
    pub(crate) fn set_spool(&self, reports: usize, dropped: u64) {
        self.spool.set(i64::try_from(reports).unwrap_or(i64::MAX));
        self.dropped.inc_by(dropped.saturating_sub(self.dropped.get()));
    }

    /// Sets the number of waiting observations of each of several aggregators.
    pub(crate) fn set_replica_spools<'a>(&self, waiting: impl Iterator<Item = (&'a ReplicaKey, usize)>) {
        let waiting: Vec<_> = waiting.collect();
        let mut shown = self.replica_series.lock();
        let mut gone = std::mem::take(&mut *shown);
        if waiting.len() > 1 {
            for (key, reports) in waiting {
                let replica = key.to_string();
                gone.remove(&replica);
                shown.insert(replica.clone());
                let reports = i64::try_from(reports).unwrap_or(i64::MAX);
                self.replica_spools
                    .get_or_create(&ReplicaLabel { replica })
                    .set(reports);
            }
        }
        for replica in gone {
            self.replica_spools.remove(&ReplicaLabel { replica });
        }
    }

    /// Renders text, or protobuf if the scraper requests it: only that contains native histograms.
    pub(crate) fn expose(&self, accept: &str, plan_age: Duration) -> Result<Exposition, fmt::Error> {
        self.plan_age.set(plan_age.as_secs_f64());
        if accept.contains("io.prometheus.client.MetricFamily") {
            let body = prometheus_protobuf::encode_to_vec(&self.registry).map_err(|_| fmt::Error)?;
            return Ok(Exposition {
                content_type: "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
                body,
            });
        }
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(Exposition {
            content_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body: text.into_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        let exposition = metrics.expose("*/*", Duration::from_millis(1500)).unwrap();
        String::from_utf8(exposition.body).unwrap()
    }

    /// Metrics with the series that exist only with several aggregators.
    fn of_two() -> Metrics {
        let metrics = Metrics::new();
        let keys = [1, 2].map(|n| ReplicaKey::at(0, ([10, 0, 0, n], 8_443).into()));
        metrics.set_replica_spools(keys.iter().map(|key| (key, 7)));
        metrics
    }

    #[test]
    fn each_of_several_aggregators_has_its_queue_and_a_single_one_has_no_series() {
        let metrics = of_two();
        let series = "parallax_prober_replica_spool_reports{replica=\"10.0.0.2:8443\"} 7";
        assert!(text(&metrics).contains(series), "{}", text(&metrics));
        metrics.set_replica_spools([(&ReplicaKey::default(), 3)].into_iter());
        assert!(!text(&metrics).contains("replica_spool"), "{}", text(&metrics));
    }

    #[test]
    fn names_types_and_help_are_an_api() {
        let described: Vec<String> = text(&of_two())
            .lines()
            .filter(|line| line.starts_with("# ") && !line.contains(" process_"))
            .map(str::to_owned)
            .collect();
        assert_eq!(
            described,
            [
                "# HELP parallax_prober_probes Probes by kind and result; not_asked is a fault of the prober itself.",
                "# TYPE parallax_prober_probes counter",
                "# HELP parallax_prober_late_seconds Delay of probe starts against their schedule.",
                "# TYPE parallax_prober_late_seconds histogram",
                "# HELP parallax_prober_plan_age_seconds Time since the last line of the plan stream, heartbeats included.",
                "# TYPE parallax_prober_plan_age_seconds gauge",
                "# HELP parallax_prober_spool_reports Observations that the aggregator has not acknowledged; with several aggregators, those of the one furthest behind.",
                "# TYPE parallax_prober_spool_reports gauge",
                "# HELP parallax_prober_replica_spool_reports Observations that each of several aggregators has not acknowledged; no series if there is only one.",
                "# TYPE parallax_prober_replica_spool_reports gauge",
                "# HELP parallax_prober_spool_dropped Observations dropped because the spool was full or the aggregator rejected them.",
                "# TYPE parallax_prober_spool_dropped counter",
                "# HELP parallax_prober_overrun Starts skipped because the assignment's previous probe was still running.",
                "# TYPE parallax_prober_overrun counter",
                "# HELP parallax_prober_build_info 1, with the version of the prober.",
                "# TYPE parallax_prober_build_info gauge",
                "# EOF",
            ]
        );
    }

    #[test]
    fn the_documentation_lists_every_metric_and_no_other() {
        let page = include_str!("../../docs/reference/prober-metrics.md");
        let row = |line: &str| {
            let name = line.strip_prefix("| `parallax_prober_")?.split('`').next()?;
            Some(format!("parallax_prober_{}", name.trim_end_matches("_total")))
        };
        let listed: BTreeSet<String> = page.lines().filter_map(row).collect();
        let text = text(&of_two());
        let exposed: BTreeSet<String> = text
            .lines()
            .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned()))
            .filter(|name| !name.starts_with("process_"))
            .collect();
        assert_eq!(listed, exposed);
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    }

    #[test]
    fn every_kind_and_result_is_zero_from_the_start() {
        let text = text(&Metrics::new());
        for kind in KINDS {
            for result in RESULTS {
                let series = format!("parallax_prober_probes_total{{kind=\"{kind}\",result=\"{result}\"}} 0");
                assert!(text.contains(&series), "{series} in\n{text}");
            }
        }
    }

    #[test]
    fn what_happened_is_what_is_exposed() {
        let metrics = Metrics::new();
        let probe = ProbeSpec::Echo {
            nonce: "n".into(),
            size: None,
        };
        metrics.record_probe(&probe, &Outcome::Ok { status: Some(200) });
        metrics.record_delay(Duration::from_millis(3));
        metrics.set_spool(7, 2);
        metrics.set_spool(5, 3);
        let text = text(&metrics);
        for line in [
            "parallax_prober_probes_total{kind=\"echo\",result=\"ok\"} 1",
            "parallax_prober_late_seconds_bucket{le=\"0.002\"} 0",
            "parallax_prober_late_seconds_bucket{le=\"0.004\"} 1",
            "parallax_prober_plan_age_seconds 1.5",
            "parallax_prober_spool_reports 5",
            "parallax_prober_spool_dropped_total 3",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_scraper_that_asks_for_protobuf_gets_it() {
        let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,*/*;q=0.1";
        let exposition = Metrics::new().expose(accept, Duration::ZERO).unwrap();
        assert!(
            exposition
                .content_type
                .starts_with("application/vnd.google.protobuf")
        );
        assert!(!exposition.body.is_empty());
    }
}
