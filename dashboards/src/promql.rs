//! Pieces of `PromQL` that alerts and dashboards share.
//!
//! An installation is one `job` of the scraper (`NAMESPACE/NAME` with a `PodMonitor`), a replica one `instance` of it.

/// What only the aggregator says that leads: the one that stands by judges the same, but knows nothing of what people did
/// about incidents, and would count everything twice. While none leads, all are heard: no alert may end for want of a leader.
#[must_use]
pub fn speaking(expression: &str) -> String {
    format!(
        "({expression} unless on (job, instance) ((parallax_aggregator_leader == 0) and on (job) max by (job) (parallax_aggregator_leader) == 1))"
    )
}

/// As [`speaking`], aggregated over the instances.
#[must_use]
pub fn once(aggregate: &str, labels: &str, expression: &str) -> String {
    format!("{aggregate} by ({labels}) {}", speaking(expression))
}

/// How far back an alert looks for what the last ready aggregator said, and how finely.
const ABSENCE: &str = "[1h:10s]";

/// Whether an aggregator leads that has caught up with what happened before its start: only such a one may end an alert by
/// saying nothing.
#[must_use]
pub fn ready() -> String {
    "(parallax_aggregator_leader == 1 unless on (job, instance) parallax_aggregator_catching_up == 1)"
        .to_owned()
}

/// As [`once`], for series that exist while something lasts; while no ready aggregator leads, also what the last ready one
/// said when it was last scraped. `key` are the labels that say what one series is about, and `vetoed` is an expression
/// whose series end the memory of theirs.
///
/// All series of a scrape have one timestamp: a series was there at the end exactly if its newest timestamp is that of the
/// newest scrape of a ready leader. What had ended before is not remembered. An aggregator that takes over has another
/// `instance`, and `pod`, so nothing but the job joins the two.
#[must_use]
pub fn outliving(labels: &str, key: &str, expression: &str, vetoed: &str) -> String {
    let spoken = once("max", labels, expression);
    let ready = ready();
    format!(
        "{spoken}\nor on ({key})\n(\n  max by ({labels}) (\n    max_over_time(timestamp({expression}){ABSENCE})\n      == on (job) group_left () max by (job) (max_over_time((timestamp(parallax_aggregator_leader) and on (job, instance) {ready}){ABSENCE}))\n  ) * 0 + 1\n  unless on (job) {ready}\n  unless on ({key}) {vetoed}\n)"
    )
}

/// How much of the probes succeeds, by target and placement, where that meets a condition. What never worked is left out: a
/// typo in a new target is shown, and calls nobody. With the incident that explains the target, if one does; what one explains
/// that somebody has dealt with is left out, too. While no ready aggregator leads, it is as the last ones said, for ten minutes:
/// a restart in the middle of an outage resolves nothing.
#[must_use]
pub fn targets_where(condition: &str) -> String {
    let ratio = once("min", "job, target, placement", "parallax_target_reachable_ratio");
    let never = once("max", "job, target", "parallax_target_never_ok");
    let explained = once("max", "job, target, incident", "parallax_target_incident");
    let open = once("max", "job, incident", "parallax_incident{handling=\"none\"}");
    let ready = ready();
    let now = format!(
        "(\n  ({ratio} {condition} unless on (job, target) {never})\n    * on (job, target) group_left (incident) topk by (job, target) (1, {explained})\n) and on (job, incident) {open}\nor\n({ratio} {condition} unless on (job, target) {never})\n  unless on (job, target) {explained}"
    );
    format!(
        "{now}\nor on (job, target, placement)\n(\nlast_over_time((\n{now}\n)[10m:30s])\n  unless on (job) {ready}\n)"
    )
}

/// Gauges of an aggregator that exceed so many rounds, and at least so many seconds.
#[must_use]
pub fn beyond_rounds(gauge: &str, rounds: u32, seconds: u32) -> String {
    format!(
        "({gauge} > on (job, instance) group_left () clamp_min({rounds} * parallax_round_seconds, {seconds}))"
    )
}
