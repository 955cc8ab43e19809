//! Parallax itself: what comes in, what is made of it, and whether it keeps up.

use super::{Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, drawn, number};

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
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                "count(parallax_aggregator_leader)".to_owned(),
            ),
            number(
                "That lead",
                (Unit::Count, ThresholdColor::BelowOne),
                ExpectedResult::Level,
                "sum(parallax_aggregator_leader)".to_owned(),
            ),
            number(
                "Age of the topology",
                (Unit::Seconds, ThresholdColor::FromAMinute),
                ExpectedResult::Level,
                "max(parallax_topology_age_seconds)".to_owned(),
            ),
            number(
                "Objects that cannot be followed",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                "max(parallax_topology_notes)".to_owned(),
            ),
            number(
                "Stores that cannot be used",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                "count(parallax_store_up == 0) or vector(0)".to_owned(),
            ),
            number(
                "Watches that are down",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                "count(parallax_watch_up == 0) or vector(0)".to_owned(),
            ),
            drawn(
                PanelStyle::Lines,
                "Age of the evidence",
                (Unit::Seconds, "{{instance}}"),
                ExpectedResult::Level,
                "max by (instance) (parallax_evidence_age_seconds)".to_owned(),
            )
            .about("A saw that falls once a round. A line that only rises: rounds are not judged any more."),
            drawn(
                PanelStyle::Areas,
                "Observations by what became of them",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                rate("result", "parallax_ingest_observations_total"),
            )
            .about("Late ones came after their round was judged: history has them, the diagnosis has not."),
            drawn(
                PanelStyle::Areas,
                "Reports, accepted or refused",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                rate("result", "parallax_ingest_reports_total"),
            ),
            drawn(
                PanelStyle::Areas,
                "Probers that were not let in",
                (Unit::PerSecond, "{{reason}}"),
                ExpectedResult::Level,
                rate("reason", "parallax_identity_refused_total"),
            ),
            drawn(
                PanelStyle::Areas,
                "Changes told by the API server",
                (Unit::PerSecond, "{{resource}}"),
                ExpectedResult::Cluster,
                rate("resource", "parallax_watch_events_total"),
            ),
            drawn(
                PanelStyle::Areas,
                "Watches that failed",
                (Unit::PerSecond, "{{resource}} {{reason}}"),
                ExpectedResult::Cluster,
                rate("resource, reason", "parallax_watch_errors_total"),
            ),
            drawn(
                PanelStyle::Lines,
                "How late probes start, over all probers",
                (Unit::Seconds, "median"),
                ExpectedResult::Level,
                late("0.5"),
            )
            .and("95th percentile", ExpectedResult::Level, late("0.95")),
            drawn(
                PanelStyle::Areas,
                "Probes by kind and result, over all probers",
                (Unit::PerSecond, "{{kind}} {{result}}"),
                ExpectedResult::Level,
                rate("kind, result", "parallax_prober_probes_total"),
            )
            .and(
                "passed over",
                ExpectedResult::Level,
                "sum(rate(parallax_prober_overrun_total[$__rate_interval]))".to_owned(),
            ),
            drawn(
                PanelStyle::Areas,
                "Written to the store, and lost to it",
                (Unit::PerSecond, "{{what}}"),
                ExpectedResult::Level,
                rate("what", "parallax_store_written_total"),
            )
            .and(
                "lost: {{what}}",
                ExpectedResult::Level,
                rate("what", "parallax_store_dropped_total"),
            ),
            drawn(
                PanelStyle::Lines,
                "Size of the store",
                (Unit::Bytes, "{{instance}}"),
                ExpectedResult::Level,
                "max by (instance) (parallax_store_bytes)".to_owned(),
            ),
            drawn(
                PanelStyle::Areas,
                "Notifications by receiver and result",
                (Unit::PerSecond, "{{receiver}} {{result}}"),
                ExpectedResult::Elsewhere,
                rate("receiver, result", "parallax_notifications_total"),
            )
            .about("Failed ones are tried again; refused ones never reach anybody."),
            drawn(
                PanelStyle::Lines,
                "Age of the oldest that a receiver is owed",
                (Unit::Seconds, "{{receiver}}"),
                ExpectedResult::Elsewhere,
                "max by (receiver) (parallax_notifications_oldest_seconds)".to_owned(),
            ),
            drawn(
                PanelStyle::Areas,
                "Lines of the recording",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                rate("result", "parallax_record_lines_total"),
            ),
        ],
    }
}
