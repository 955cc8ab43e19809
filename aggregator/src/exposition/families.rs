//! Every family of `/metrics`, once: what registers them, what the reference page (docs/reference/metrics.md) says, and what a test
//! holds the exposition to.

/// What a family is and means.
#[derive(Debug, Clone, Copy)]
pub(super) struct FamilyDescription {
    /// Without the prefix `parallax_`, and a counter without `_total`.
    pub(super) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page and its test"))]
    pub(super) kind: MetricKind,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page and its test"))]
    pub(super) labels: &'static [&'static str],
    /// A sentence, with its full stop.
    pub(super) help: &'static str,
}

impl FamilyDescription {
    /// The help text for a registry that ends the sentence itself.
    pub(super) fn unended(&self) -> &'static str {
        self.help.strip_suffix('.').unwrap_or(self.help)
    }
}

/// How a family counts.
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

        /// All of them, by what they are about.
        #[cfg(test)]
        pub(super) const SECTIONS: &[(&str, &[FamilyDescription])] = &[$(($section, &[$($constant),+])),+];
    };
}

families! {
    "Targets" {
        PROBES = Counter "probes" ["target", "channel", "placement", "result"]
            "Probes by target, channel, placement of client and entry, and result (ok, a failure kind, or not_asked for the prober's own faults).";
        PHASES = Histogram "probe_phase_seconds" ["target", "phase"]
            "Time of each phase of the successful probes that go the way a user would.";
        REACHABLE = Gauge "target_reachable_ratio" ["target", "placement"]
            "Share of the fresh probes that succeed, as a user would go, by placement of client and entry; absent while nothing fresh is known.";
        TARGET_VANTAGES = Gauge "target_vantages" ["target", "state"]
            "Vantages that are to ask for a target, by what they see: ok, flaky, failing, or unknown where nothing fresh is known.";
        NEVER_OK = Gauge "target_never_ok" ["target", "pending"]
            "1 for a target that never succeeded since it appeared, and whether its owner says that it is not in service yet (yes or no); no series for any other.";
    }
    "Verdicts" {
        INCIDENT = Gauge "incident" ["incident", "cause", "severity", "subject", "handling"]
            "1 while an incident is open, with its likeliest cause, how bad it is, what it is about, and whether somebody has dealt with it (none, acknowledged, silenced, maintenance).";
        INCIDENTS = Gauge "incident_open" ["cause", "severity"]
            "Open incidents by likeliest cause; critical where some vantage reaches a target no more, warning otherwise.";
        TARGET_INCIDENT = Gauge "target_incident" ["target", "incident"]
            "1 for each target that an open incident explains, with the likeliest of these; at most one series a target.";
        VERDICTS = Gauge "verdict_probability" ["target", "cause"]
            "Probability of each cause that open incidents name for a target.";
        INVESTIGATING = Gauge "investigating" []
            "Subjects that fail while no cause is named yet.";
        FINDINGS = Gauge "finding" ["finding", "catalogue", "severity"]
            "Findings besides incidents (answers that differ, hosts served where they do not belong) by kind, as they are numbered in the catalogue, and severity.";
        HAZARDS = Gauge "hazard" ["hazard", "subject", "severity"]
            "What configuration lets fail though nobody does yet, by kind, subject and severity; 1 while it stands.";
    }
    "Vantages and evidence" {
        VANTAGES = Gauge "vantages" ["state"]
            "Expected vantages: reporting, silent for three intervals, or waiting to be heard of for the first time.";
        SILENT = Gauge "vantage_silent_seconds" ["vantage"]
            "Time since the newest observation of each expected vantage, or since the start of the aggregator.";
        NODES = Gauge "nodes" ["prober"]
            "Nodes of the topology with (yes) and without (no) a prober.";
        ROUND = Gauge "round_seconds" []
            "Length of a round, the unit of judgement, and time between two probes of what says nothing else.";
        EVIDENCE_AGE = Gauge "evidence_age_seconds" []
            "Time since the end of the newest round that was judged, or since the start of the aggregator.";
        TOPOLOGY_AGE = Gauge "topology_age_seconds" []
            "Time since the topology was last known to be current; zero while its source can be read.";
        TOPOLOGY_NOTES = Gauge "topology_notes" []
            "Objects of the cluster whose annotations or references cannot be followed; the page lists them.";
    }
    "Intake" {
        LINES = Counter "ingest_observations" ["result"]
            "Lines of accepted reports by what became of them; only counted ones are judged.";
        REPORTS = Counter "ingest_reports" ["result"]
            "Reports of probers, accepted or by the reason of their refusal.";
        IDENTITY_REFUSED = Counter "identity_refused" ["reason"]
            "Requests of probers that were not let in, by reason (see docs/use/install.md).";
        CA_UNPUBLISHED = Gauge "ca_unpublished" []
            "1 while the CA of the aggregator cannot be published, so that probers do not trust it, else 0.";
    }
    "Aggregators" {
        LEADER = Gauge "aggregator_leader" []
            "1 on the aggregator that makes the plans and writes into the cluster, and where there is but one; 0 on one that stands by.";
        CATCHING_UP = Gauge "aggregator_catching_up" []
            "1 while an aggregator that has just started has not seen enough to say that all is well, else 0; rules keep the incidents of its predecessor meanwhile.";
        LEASE_FAILURES = Counter "aggregator_lease_failures" []
            "Looks at the Lease of the aggregators that failed; the log says why.";
        HANDLING_UNSHARED = Gauge "handling_unshared" []
            "1 while what people do about incidents is in the memory of this aggregator only, as the ConfigMap for it cannot be read or written, else 0.";
    }
    "Notifications" {
        NOTIFICATIONS = Counter "notifications" ["receiver", "result"]
            "Attempts to tell a receiver of an incident: delivered, failed and to be tried again, refused for good, or dropped as too many waited.";
        NOTIFICATIONS_PENDING = Gauge "notifications_pending" ["receiver"]
            "Incidents of which a receiver is owed something; zero on an aggregator that stands by.";
        NOTIFICATIONS_OLDEST = Gauge "notifications_oldest_seconds" ["receiver"]
            "For how long the oldest of what a receiver is owed has been owed; zero where nothing is.";
        NOTIFICATIONS_UNKEPT = Gauge "notifications_unkept" []
            "1 while what receivers are owed is in the memory of this aggregator only, 0 while it is kept; absent where nobody is told anything.";
    }
    "Runs" {
        RUNS = Counter "runs" ["result"]
            "Runs that somebody asked for, by what they came to; refused ones were not made.";
        RUNS_ACTIVE = Gauge "runs_active" []
            "Runs under way.";
        RUN_SECONDS = Histogram "run_seconds" []
            "Time from the request for a run to its judgement.";
        RUN_FIRST_PROBE_SECONDS = Histogram "run_first_probe_seconds" []
            "Time from the request for a run to the start of its first probe.";
    }
    "Certificates" {
        RENEWAL_FORECAST = Gauge "renewal_forecast" ["namespace", "certificate", "host", "forecast", "cause"]
            "1 for how a renewal would end now, of each name of a Certificate that would be validated over HTTP: would_fail with its cause, would_pass as far as it can be known without a token, or unknown; on the aggregator that leads.";
        CERTIFICATE_RENEWAL = Gauge "certificate_renewal_timestamp_seconds" ["namespace", "certificate"]
            "When cert-manager renews a Certificate, in seconds since 1970; absent where it does not say.";
        CERTIFICATE_NOT_AFTER = Gauge "certificate_not_after_timestamp_seconds" ["namespace", "certificate"]
            "When a Certificate ends, in seconds since 1970; absent while there is none.";
        CHALLENGES_WAITING = Gauge "challenges_waiting" ["cause"]
            "Challenges of cert-manager that wait, by likeliest cause (unknown where none is named); no series where none waits.";
    }
    "Watches of the cluster" {
        WATCH_UP = Gauge "watch_up" ["resource"]
            "1 while every change of such objects is told, or the API server knows no such objects; 0 while what is known is the last that could be read.";
        WATCH_OBJECTS = Gauge "watch_objects" ["resource"]
            "Objects known, by resource.";
        WATCH_EVENTS = Counter "watch_events" ["resource"]
            "Changes told by the API server.";
        WATCH_LISTS = Counter "watch_lists" ["resource"]
            "Complete lists read: one at the start, one more after each loss of history.";
        WATCH_UNREADABLE = Counter "watch_unreadable" ["resource"]
            "Objects left out because they could not be read; the log names them.";
        WATCH_ERRORS = Counter "watch_errors" ["resource", "reason"]
            "Lists and watches that failed, by reason.";
    }
    "Recording and store" {
        RECORD_LINES = Counter "record_lines" ["result"]
            "Lines for the recording (--record), written or lost because the disk was too slow or took none.";
        RECORD_FAILING = Gauge "record_failing" []
            "1 while the recording cannot be written, else 0.";
        CHECKPOINT_WRITES = Counter "checkpoint_writes" ["result"]
            "Writes of the checkpoint, from which a restarted aggregator goes on: written, or failed.";
        STORE_UP = Gauge "store_up" []
            "1 while the store takes what it is given, 0 while it cannot be used; absent without a store.";
        STORE_BYTES = Gauge "store_bytes" []
            "Size of the store on the disk when last looked; absent without a store.";
        STORE_WRITTEN = Counter "store_written" ["what"]
            "Things written to the store, by sort.";
        STORE_DROPPED = Counter "store_dropped" ["what"]
            "Things that never reached the store because it was slow or could not be used, by sort; the least valuable go first.";
        STORE_SURPLUS = Counter "store_surplus_failures" []
            "Raw failures beyond the number that is kept of a target and hour; roll-ups count them all the same.";
    }
}
