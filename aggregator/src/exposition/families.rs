//! Table of all metric families. It registers them, generates docs/reference/metrics.md, and a test compares the
//! exposition with it.

/// Name, type, labels and help text of a family.
#[derive(Debug, Clone, Copy)]
pub(super) struct FamilyDescription {
    /// Name without the prefix `parallax_`, and without `_total` for a counter.
    pub(super) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page and its test"))]
    pub(super) kind: MetricKind,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page and its test"))]
    pub(super) labels: &'static [&'static str],
    /// Help text, with a full stop.
    pub(super) help: &'static str,
}

impl FamilyDescription {
    /// Returns the help text without full stop, for a registry that appends one.
    pub(super) fn help_without_stop(&self) -> &'static str {
        self.help.strip_suffix('.').unwrap_or(self.help)
    }
}

/// Type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

macro_rules! families {
    ($($section:literal { $($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)+ })+) => {
        $($(pub(super) const $constant: FamilyDescription = FamilyDescription {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)+)+

        /// All families by section.
        #[cfg(test)]
        pub(super) const SECTIONS: &[(&str, &[FamilyDescription])] = &[$(($section, &[$($constant),+])),+];
    };
}

families! {
    "Targets" {
        PROBES = Counter "probes" ["target", "channel", "placement", "result"]
            "Probes by target, channel, placement of client and entry, and result: ok, a failure kind, or not_asked for faults of the prober itself.";
        PHASES = Histogram "probe_phase_seconds" ["target", "phase"]
            "Duration of each phase of successful probes on channels vip and dns.";
        REACHABLE = Gauge "target_reachable_ratio" ["target", "placement"]
            "Share of recent probes on the path of a user that succeed, by placement of client and entry; absent without fresh evidence.";
        TARGET_VANTAGES = Gauge "target_vantages" ["target", "state"]
            "Vantages that probe a target, by state: ok, flaky, failing, or unknown without fresh evidence.";
        NEVER_OK = Gauge "target_never_ok" ["target", "pending"]
            "1 for a target of which no probe has succeeded since it appeared, and whether its owner marked it as pending, that is not in service yet (yes or no); no series for other targets.";
    }
    "Verdicts" {
        INCIDENT = Gauge "incident" ["incident", "cause", "severity", "subject", "action"]
            "1 while an incident is open, with its likeliest cause, severity, subject and user action (none, acknowledged, silenced or maintenance).";
        INCIDENTS = Gauge "incident_open" ["cause", "severity"]
            "Open incidents by likeliest cause and severity: critical if a vantage can no longer reach a target, otherwise warning.";
        TARGET_INCIDENT = Gauge "target_incident" ["target", "incident"]
            "1 for each target that an open incident explains, with the likeliest such incident; at most one series per target.";
        VERDICTS = Gauge "verdict_probability" ["target", "cause"]
            "Probability of each cause that open incidents name for a target.";
        UNEXPLAINED_FAILURES = Gauge "unexplained_failures" []
            "Failing subjects whose cause has not been identified yet.";
        FINDINGS = Gauge "finding" ["finding", "catalogue", "severity"]
            "Findings (such as differing DNS answers or exposed internal hosts) by kind, number in the catalogue, and severity.";
        HAZARDS = Gauge "hazard" ["hazard", "subject", "severity"]
            "1 while the configuration would make some clients fail although nothing fails yet, by kind, subject and severity.";
    }
    "Vantages and evidence" {
        VANTAGES = Gauge "vantages" ["state"]
            "Vantages of the topology by state: reporting, silent for three intervals, or waiting for the first report.";
        SILENT = Gauge "vantage_silent_seconds" ["vantage"]
            "Time since the latest observation of each vantage, or since the start of the aggregator if there is none.";
        VANTAGE_INCIDENT = Gauge "vantage_incident" ["vantage", "incident"]
            "1 for each silent vantage with the open incident that keeps its reports from the aggregator.";
        NODES = Gauge "nodes" ["prober"]
            "Nodes of the topology with (yes) and without (no) a prober.";
        ROUND = Gauge "round_seconds" []
            "Length of a round, and default interval between two probes of a target.";
        EVIDENCE_AGE = Gauge "evidence_age_seconds" []
            "Time since the end of the latest judged round, or since the start of the aggregator if there is none.";
        TOPOLOGY_AGE = Gauge "topology_age_seconds" []
            "Time since the topology was last known to be current; 0 while its source can be read.";
        TOPOLOGY_PROBLEMS = Gauge "topology_problems" []
            "Warnings about cluster objects, such as invalid annotations or references; the page lists them.";
    }
    "Ingest" {
        LINES = Counter "ingest_observations" ["result"]
            "Lines of accepted reports by result; only counted ones are judged.";
        REPORTS = Counter "ingest_reports" ["result"]
            "Reports of probers by result: accepted, or the reason of the rejection.";
        DISCARDED = Counter "ingest_discarded" ["vantage", "reason"]
            "Observations that are no evidence, by vantage and reason: too late, dated in the future (implausible), or beyond the share of the vantage (over_budget). A vantage without any has no series.";
        IDENTITY_REFUSED = Counter "identity_refused" ["reason"]
            "Requests of probers whose authentication was rejected, by reason (see docs/use/install.md).";
        CA_UNPUBLISHED = Gauge "ca_unpublished" []
            "1 while the aggregator's CA cannot be published, so that probers do not trust it, otherwise 0.";
    }
    "Aggregators" {
        BUILD_INFO = Gauge "build_info" ["version"]
            "1, with the version of the aggregator.";
        LEADER = Gauge "aggregator_leader" []
            "1 on the leader, which makes the plans and writes to the cluster, and on a single aggregator; 0 on a standby.";
        CATCHING_UP = Gauge "aggregator_catching_up" []
            "1 while a newly started aggregator has too little evidence to report the status ok, otherwise 0; alerting rules keep the incidents of its predecessor until then.";
        LEASE_FAILURES = Counter "aggregator_lease_failures" []
            "Failed attempts to read or renew the Lease; the log gives the reason.";
        INCIDENT_ACTIONS_UNPERSISTED = Gauge "incident_actions_unpersisted" []
            "1 while user actions on incidents are only in this aggregator's memory because their ConfigMap cannot be read or written, otherwise 0.";
    }
    "Notifications" {
        NOTIFICATIONS = Counter "notifications" ["receiver", "result"]
            "Attempts to notify a receiver by result: delivered, failed (will be retried), refused (permanently), or dropped because too many were pending.";
        NOTIFICATIONS_PENDING = Gauge "notifications_pending" ["receiver"]
            "Incidents with a pending notification, by receiver; 0 on a standby.";
        NOTIFICATIONS_OLDEST = Gauge "notifications_oldest_seconds" ["receiver"]
            "Age of the oldest pending notification, by receiver; 0 if none is pending.";
        NOTIFICATIONS_UNPERSISTED = Gauge "notifications_unpersisted" []
            "1 while pending notifications are only in this aggregator's memory, 0 while they are persisted; absent without receivers.";
    }
    "Runs" {
        RUNS = Counter "runs" ["result"]
            "Requested runs by outcome; refused runs were not made.";
        RUNS_ACTIVE = Gauge "runs_active" []
            "Runs in progress.";
        RUN_SECONDS = Histogram "run_seconds" []
            "Time from the request for a run to its result.";
        RUN_FIRST_PROBE_SECONDS = Histogram "run_first_probe_seconds" []
            "Time from the request for a run to the start of its first probe.";
    }
    "Certificates" {
        RENEWAL_FORECAST = Gauge "renewal_forecast" ["namespace", "certificate", "host", "forecast", "cause"]
            "1 for the forecast of a renewal at this time, for each name of a Certificate that is validated by HTTP-01: would_fail with its cause, would_pass as far as can be checked without a token, or unknown; on the leader only.";
        CERTIFICATE_RENEWAL = Gauge "certificate_renewal_timestamp_seconds" ["namespace", "certificate"]
            "When cert-manager will renew a Certificate, in seconds since 1970; absent if cert-manager has not set it.";
        CERTIFICATE_NOT_AFTER = Gauge "certificate_not_after_timestamp_seconds" ["namespace", "certificate"]
            "When a Certificate expires, in seconds since 1970; absent while none is issued.";
        CHALLENGES_WAITING = Gauge "challenges_waiting" ["cause"]
            "Pending Challenges of cert-manager by likeliest cause, or unknown; no series if none is pending.";
    }
    "Watches of the cluster" {
        WATCH_UP = Gauge "watch_up" ["resource"]
            "1 while the watch of a resource is up to date or the API server does not serve the resource; 0 while the last objects read are in use.";
        WATCH_OBJECTS = Gauge "watch_objects" ["resource"]
            "Known objects by resource.";
        WATCH_EVENTS = Counter "watch_events" ["resource"]
            "Watch events received from the API server.";
        WATCH_LISTS = Counter "watch_lists" ["resource"]
            "Complete lists read: one at the start, and one whenever the resource version has expired or the watch has been silent.";
        WATCH_UNREADABLE = Counter "watch_unreadable" ["resource"]
            "Objects skipped because they could not be parsed; the log names them.";
        WATCH_ERRORS = Counter "watch_errors" ["resource", "reason"]
            "Failed lists and watches by reason.";
    }
    "Recording and store" {
        RECORDING_LINES = Counter "recording_lines" ["result"]
            "Lines of the recording (--record) by result: written, or lost because the disk was too slow or failed.";
        RECORDING_FAILING = Gauge "recording_failing" []
            "1 while the recording cannot be written, otherwise 0.";
        CHECKPOINT_WRITES = Counter "checkpoint_writes" ["result"]
            "Writes of the checkpoint, which a restarted aggregator restores, by result: written or failed.";
        STORE_UP = Gauge "store_up" []
            "1 while the store can be used, otherwise 0; absent without a store.";
        STORE_BYTES = Gauge "store_bytes" []
            "Size of the store on disk at the last check; absent without a store.";
        STORE_WRITTEN = Counter "store_written" ["what"]
            "Entries written to the store, by kind.";
        STORE_DROPPED = Counter "store_dropped" ["what"]
            "Entries dropped because the store was slow or could not be used, by kind; the least valuable are dropped first.";
        STORE_SURPLUS = Counter "store_surplus_failures" []
            "Raw failures beyond the number stored per target and hour; rollups still count them.";
    }
}
