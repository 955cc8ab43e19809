//! The dashboard of Parallax itself: input, processing, and whether it keeps up.

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
        description: "Reports, their processing, and whether aggregators and probers keep up. Each aggregator on its own.",
        variables: vec![Variable::Page],
        panels: vec![
            number(
                "Aggregators",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                "count(parallax_aggregator_leader)".to_owned(),
            ),
            number(
                "Leaders",
                (Unit::Count, ThresholdColor::BelowOne),
                ExpectedResult::Level,
                "sum(parallax_aggregator_leader)".to_owned(),
            ),
            number(
                "Topology age",
                (Unit::Seconds, ThresholdColor::FromAMinute),
                ExpectedResult::Level,
                "max(parallax_topology_age_seconds)".to_owned(),
            ),
            number(
                "Warnings about cluster objects",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                "max(parallax_topology_notes)".to_owned(),
            ),
            number(
                "Unavailable stores",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                "count(parallax_store_up == 0) or vector(0)".to_owned(),
            ),
            number(
                "Watches down",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                "count(parallax_watch_up == 0) or vector(0)".to_owned(),
            ),
            drawn(
                PanelStyle::Lines,
                "Evidence age",
                (Unit::Seconds, "{{instance}}"),
                ExpectedResult::Level,
                "max by (instance) (parallax_evidence_age_seconds)".to_owned(),
            )
            .about("A sawtooth that falls once per round. If it only rises, rounds are no longer judged."),
            drawn(
                PanelStyle::Areas,
                "Observations by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                rate("result", "parallax_ingest_observations_total"),
            )
            .about("Late observations arrived after their round was judged: they are in the history, but not in the diagnosis."),
            drawn(
                PanelStyle::Areas,
                "Reports by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                rate("result", "parallax_ingest_reports_total"),
            ),
            drawn(
                PanelStyle::Areas,
                "Rejected probers by reason",
                (Unit::PerSecond, "{{reason}}"),
                ExpectedResult::Level,
                rate("reason", "parallax_identity_refused_total"),
            ),
            drawn(
                PanelStyle::Areas,
                "Watch events by resource",
                (Unit::PerSecond, "{{resource}}"),
                ExpectedResult::Cluster,
                rate("resource", "parallax_watch_events_total"),
            ),
            drawn(
                PanelStyle::Areas,
                "Watch errors by resource and reason",
                (Unit::PerSecond, "{{resource}} {{reason}}"),
                ExpectedResult::Cluster,
                rate("resource, reason", "parallax_watch_errors_total"),
            ),
            drawn(
                PanelStyle::Lines,
                "Start delay of probes, all probers",
                (Unit::Seconds, "median"),
                ExpectedResult::Level,
                late("0.5"),
            )
            .and("95th percentile", ExpectedResult::Level, late("0.95")),
            drawn(
                PanelStyle::Areas,
                "Probes by kind and result, all probers",
                (Unit::PerSecond, "{{kind}} {{result}}"),
                ExpectedResult::Level,
                rate("kind, result", "parallax_prober_probes_total"),
            )
            .and(
                "skipped",
                ExpectedResult::Level,
                "sum(rate(parallax_prober_overrun_total[$__rate_interval]))".to_owned(),
            ),
            drawn(
                PanelStyle::Areas,
                "Rows written to the store, and dropped",
                (Unit::PerSecond, "{{what}}"),
                ExpectedResult::Level,
                rate("what", "parallax_store_written_total"),
            )
            .and(
                "dropped: {{what}}",
                ExpectedResult::Level,
                rate("what", "parallax_store_dropped_total"),
            ),
            drawn(
                PanelStyle::Lines,
                "Store size",
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
            .about("Failed deliveries are retried; refused ones are permanent."),
            drawn(
                PanelStyle::Lines,
                "Oldest pending notification by receiver",
                (Unit::Seconds, "{{receiver}}"),
                ExpectedResult::Elsewhere,
                "max by (receiver) (parallax_notifications_oldest_seconds)".to_owned(),
            ),
            drawn(
                PanelStyle::Areas,
                "Recording lines by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                rate("result", "parallax_record_lines_total"),
            ),
        ],
    }
}
