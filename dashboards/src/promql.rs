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

/// How much of the probes succeeds, by target and placement, where that meets a condition. What never worked is left out: a
/// typo in a new target is shown, and calls nobody. With the incident that explains the target, if one does; what one explains
/// that somebody has dealt with is left out, too.
#[must_use]
pub fn targets_where(condition: &str) -> String {
    let ratio = once("min", "job, target, placement", "parallax_target_reachable_ratio");
    let never = once("max", "job, target", "parallax_target_never_ok");
    let explained = once("max", "job, target, incident", "parallax_target_incident");
    let open = once("max", "job, incident", "parallax_incident{handling=\"none\"}");
    format!(
        "(\n  ({ratio} {condition} unless on (job, target) {never})\n    * on (job, target) group_left (incident) topk by (job, target) (1, {explained})\n) and on (job, incident) {open}\nor\n({ratio} {condition} unless on (job, target) {never})\n  unless on (job, target) {explained}"
    )
}

/// Gauges of an aggregator that exceed so many rounds, and at least so many seconds.
#[must_use]
pub fn beyond_rounds(gauge: &str, rounds: u32, seconds: u32) -> String {
    format!(
        "({gauge} > on (job, instance) group_left () clamp_min({rounds} * parallax_round_seconds, {seconds}))"
    )
}
