//! Parallax itself: what comes in, what is made of it, and whether it keeps up.

use super::{Colour, Dashboard, Look, Shows, Unit, Variable, drawn, number};

#[expect(
    clippy::too_many_lines,
    reason = "a dashboard is data, read from top to bottom"
)]
pub(super) fn dashboard() -> Dashboard {
    let rate = |labels: &str, metric: &str| format!("sum by ({labels}) (rate({metric}[$__rate_interval]))");
    let late = |quantile: &str| {
        format!(
            "histogram_quantile({quantile}, sum by (le) (rate(parallax_prober_late_seconds_bucket[$__rate_interval])))"
        )
    };
    Dashboard {
        uid: "parallax-itself",
        title: "Parallax / Itself",
        description: "What comes in, what becomes of it, and whether aggregators and probers keep up. Each aggregator for itself.",
        variables: vec![Variable::Page],
        panels: vec![
            number(
                "Aggregators",
                (Unit::Count, Colour::Never),
                Shows::Level,
                "count(parallax_aggregator_leader)".to_owned(),
            ),
            number(
                "That lead",
                (Unit::Count, Colour::BelowOne),
                Shows::Level,
                "sum(parallax_aggregator_leader)".to_owned(),
            ),
            number(
                "Age of the topology",
                (Unit::Seconds, Colour::FromAMinute),
                Shows::Level,
                "max(parallax_topology_age_seconds)".to_owned(),
            ),
            number(
                "Objects that cannot be followed",
                (Unit::Count, Colour::AboveZero),
                Shows::Level,
                "max(parallax_topology_notes)".to_owned(),
            ),
            number(
                "Stores that cannot be used",
                (Unit::Count, Colour::AboveZero),
                Shows::Level,
                "count(parallax_store_up == 0) or vector(0)".to_owned(),
            ),
            number(
                "Watches that are down",
                (Unit::Count, Colour::AboveZero),
                Shows::Level,
                "count(parallax_watch_up == 0) or vector(0)".to_owned(),
            ),
            drawn(
                Look::Lines,
                "Age of the evidence",
                (Unit::Seconds, "{{instance}}"),
                Shows::Level,
                "max by (instance) (parallax_evidence_age_seconds)".to_owned(),
            )
            .about("A saw that falls once a round. A line that only rises: rounds are not judged any more."),
            drawn(
                Look::Areas,
                "Observations by what became of them",
                (Unit::PerSecond, "{{result}}"),
                Shows::Level,
                rate("result", "parallax_ingest_observations_total"),
            )
            .about("Late ones came after their round was judged: history has them, the diagnosis has not."),
            drawn(
                Look::Areas,
                "Reports, accepted or refused",
                (Unit::PerSecond, "{{result}}"),
                Shows::Level,
                rate("result", "parallax_ingest_reports_total"),
            ),
            drawn(
                Look::Areas,
                "Probers that were not let in",
                (Unit::PerSecond, "{{reason}}"),
                Shows::Level,
                rate("reason", "parallax_identity_refused_total"),
            ),
            drawn(
                Look::Areas,
                "Changes told by the API server",
                (Unit::PerSecond, "{{resource}}"),
                Shows::Cluster,
                rate("resource", "parallax_watch_events_total"),
            ),
            drawn(
                Look::Areas,
                "Watches that failed",
                (Unit::PerSecond, "{{resource}} {{reason}}"),
                Shows::Cluster,
                rate("resource, reason", "parallax_watch_errors_total"),
            ),
            drawn(
                Look::Lines,
                "How late probes start, over all probers",
                (Unit::Seconds, "median"),
                Shows::Level,
                late("0.5"),
            )
            .and("95th percentile", Shows::Level, late("0.95")),
            drawn(
                Look::Areas,
                "Probes by kind and result, over all probers",
                (Unit::PerSecond, "{{kind}} {{result}}"),
                Shows::Level,
                rate("kind, result", "parallax_prober_probes_total"),
            )
            .and(
                "passed over",
                Shows::Level,
                "sum(rate(parallax_prober_overrun_total[$__rate_interval]))".to_owned(),
            ),
            drawn(
                Look::Areas,
                "Written to the store, and lost to it",
                (Unit::PerSecond, "{{what}}"),
                Shows::Level,
                rate("what", "parallax_store_written_total"),
            )
            .and(
                "lost: {{what}}",
                Shows::Level,
                rate("what", "parallax_store_dropped_total"),
            ),
            drawn(
                Look::Lines,
                "Size of the store",
                (Unit::Bytes, "{{instance}}"),
                Shows::Level,
                "max by (instance) (parallax_store_bytes)".to_owned(),
            ),
            drawn(
                Look::Areas,
                "Notifications by receiver and result",
                (Unit::PerSecond, "{{receiver}} {{result}}"),
                Shows::Elsewhere,
                rate("receiver, result", "parallax_notifications_total"),
            )
            .about("Failed ones are tried again; refused ones never reach anybody."),
            drawn(
                Look::Lines,
                "Age of the oldest that a receiver is owed",
                (Unit::Seconds, "{{receiver}}"),
                Shows::Elsewhere,
                "max by (receiver) (parallax_notifications_oldest_seconds)".to_owned(),
            ),
            drawn(
                Look::Areas,
                "Lines of the recording",
                (Unit::PerSecond, "{{result}}"),
                Shows::Level,
                rate("result", "parallax_record_lines_total"),
            ),
        ],
    }
}
