//! `PromQL` expressions that alerts and dashboards share.
//!
//! An installation is one `job` of the scraper (`NAMESPACE/NAME` with a `PodMonitor`) in one `cluster`, a replica one `instance` of it.
//! A Prometheus of a single cluster sets no label `cluster`; what evaluates rules over several does.

/// The series recorded by the rules: 1 for each aggregator whose series count, 0 for the others.
pub const LEADER_RECORD: &str = "cluster_job_instance:parallax_aggregator_leader:is_max";

/// The expression behind [`LEADER_RECORD`]. An aggregator counts if no other one of its installation has a greater
/// `parallax_aggregator_leader`: the leader, and all of them while none leads.
#[must_use]
pub fn leader_record_expression() -> String {
    "max by (cluster, job, instance) (\n  parallax_aggregator_leader == bool on (cluster, job) group_left () max by (cluster, job) (parallax_aggregator_leader)\n)"
        .to_owned()
}

/// How an expression finds out which aggregators count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leader {
    /// From [`LEADER_RECORD`], for rules that are evaluated after it in the same group.
    Recorded,
    /// From the metric itself, for Grafana, in which our rules may not be loaded.
    Inline,
}

impl Leader {
    /// Restricts an expression to the leader: a standby judges the same, but does not know the actions of users on
    /// incidents, and would count everything twice. While no replica leads, all count: no alert may resolve for lack of
    /// a leader. For the same reason the expression excludes standbys instead of selecting leaders: an aggregator
    /// without the recorded series counts.
    #[must_use]
    pub fn of(self, expression: &str) -> String {
        let standby = match self {
            Self::Recorded => format!("({LEADER_RECORD} == 0)"),
            Self::Inline => "(parallax_aggregator_leader < on (cluster, job) group_left () max by (cluster, job) (parallax_aggregator_leader))".to_owned(),
        };
        format!("({expression} unless on (cluster, job, instance) {standby})")
    }

    /// [`Leader::of`], aggregated over the instances.
    #[must_use]
    pub fn aggregate(self, aggregate: &str, labels: &str, expression: &str) -> String {
        format!("{aggregate} by ({labels}) {}", self.of(expression))
    }
}

/// Range and resolution of the lookback for series of the last ready aggregator.
const LOOKBACK: &str = "[1h:10s]";

/// The leaders that have caught up with what happened before their start: only the absence of a series from such a
/// leader may resolve an alert. Never recorded: lookbacks compare it with the timestamps of scrapes, and a recorded
/// series changes only with the next evaluation.
#[must_use]
pub fn ready_leader() -> String {
    "(parallax_aggregator_leader == 1 unless on (cluster, job, instance) parallax_aggregator_catching_up == 1)"
        .to_owned()
}

/// [`Leader::aggregate`], for series that exist while a state lasts; while no ready aggregator leads, also the series that the last
/// ready one had at its last scrape. `key` are the labels that identify a series. `vetoed` is an expression whose
/// series remove the remembered ones with the same key.
///
/// All series of a scrape have one timestamp: a series existed at the end exactly if its newest timestamp is that of
/// the newest scrape of a ready leader. Series that had ended before are not remembered. An aggregator that takes over
/// has another `instance` and `pod`, so the two have only `job` in common.
#[must_use]
pub fn surviving_restarts(leader: Leader, labels: &str, key: &str, expression: &str, vetoed: &str) -> String {
    let series = leader.aggregate("max", labels, expression);
    let ready = ready_leader();
    format!(
        "{series}\nor on ({key})\n(\n  max by ({labels}) (\n    max_over_time(timestamp({expression}){LOOKBACK})\n      == on (cluster, job) group_left () max by (cluster, job) (max_over_time((timestamp(parallax_aggregator_leader) and on (cluster, job, instance) {ready}){LOOKBACK}))\n  ) * 0 + 1\n  unless on (cluster, job) {ready}\n  unless on ({key}) {vetoed}\n)"
    )
}

/// The share of probes that succeed, by target and placement, where it meets a condition. Targets that never worked are
/// left out: a typo in a new target is shown, but raises no alert of this kind. The series have the id of the incident
/// that explains the target, if any; targets of a handled incident are left out, too. While no ready aggregator leads,
/// the series that the last one reported at its end stay for ten minutes: a restart in the middle of an outage resolves
/// nothing, and a restart after an outage does not raise its alerts again.
#[must_use]
pub fn targets_with_ratio(leader: Leader, condition: &str) -> String {
    let ratio = leader.aggregate(
        "min",
        "cluster, job, target, placement",
        "parallax_target_reachable_ratio",
    );
    let never = leader.aggregate("max", "cluster, job, target", "parallax_target_never_ok");
    let explained = leader.aggregate(
        "max",
        "cluster, job, target, incident",
        "parallax_target_incident",
    );
    let open = leader.aggregate(
        "max",
        "cluster, job, incident",
        "parallax_incident{action=\"none\"}",
    );
    let ready = ready_leader();
    let now = format!(
        "(\n  ({ratio} {condition} unless on (cluster, job, target) {never})\n    * on (cluster, job, target) group_left (incident) topk by (cluster, job, target) (1, {explained})\n) and on (cluster, job, incident) {open}\nor\n({ratio} {condition} unless on (cluster, job, target) {never})\n  unless on (cluster, job, target) {explained}"
    );
    let last_ready = format!("max by (cluster, job) (max_over_time(({ready} * 0 + time())[10m:30s]))");
    format!(
        "{now}\nor on (cluster, job, target, placement)\n(\n  (\nlast_over_time((\n{now}\n)[10m:30s])\n    and\n    max_over_time(((\n{now}\n) * 0 + time())[10m:30s]) >= on (cluster, job) group_left () {last_ready}\n  )\n  unless on (cluster, job) {ready}\n)"
    )
}

/// Gauges of an aggregator that exceed a number of rounds, and at least a number of seconds.
#[must_use]
pub fn exceeding_rounds(gauge: &str, rounds: u32, seconds: u32) -> String {
    format!(
        "({gauge} > on (cluster, job, instance) group_left () clamp_min({rounds} * parallax_round_seconds, {seconds}))"
    )
}

/// The metrics with a label `namespace` of their own, that of a Certificate.
pub const OWN_NAMESPACE: [&str; 3] = [
    "parallax_renewal_forecast",
    "parallax_certificate_renewal_timestamp_seconds",
    "parallax_certificate_not_after_timestamp_seconds",
];

/// Series of [`OWN_NAMESPACE`] with their own namespace as `namespace`: a scraper without `honorLabels` keeps it as
/// `exported_namespace`.
#[must_use]
pub fn with_own_namespace(series: &str) -> String {
    format!("label_replace({series}, \"namespace\", \"$1\", \"exported_namespace\", \"(.+)\")")
}

/// Restricts every selector of our metrics in an expression to the installations that are chosen on a dashboard, by its
/// variables [`INSTALLATION_VARIABLES`](crate::grafana::INSTALLATION_VARIABLES). `namespace` is that of the aggregator
/// or prober, which the Prometheus operator adds to its series; the series of [`OWN_NAMESPACE`] have another one.
#[must_use]
pub fn of_chosen_installations(expression: &str) -> String {
    let name_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut parts = expression.split("parallax_");
    let mut restricted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !name_part(c)).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let metric = format!("parallax_{name}");
        restricted += &metric;
        restricted += "{cluster=~\"$cluster\"";
        if !OWN_NAMESPACE.contains(&metric.as_str()) {
            restricted += ",namespace=~\"$namespace\"";
        }
        restricted += ",job=~\"$job\"";
        match rest.strip_prefix('{') {
            Some(matchers) => restricted.extend([",", matchers]),
            None => restricted.extend(["}", rest]),
        }
    }
    restricted
}
