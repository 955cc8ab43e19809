//! The dashboard of Parallax itself: input, processing, and whether it keeps up.

use super::{
    Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, graph_panel, number_panel,
};

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
            number_panel(
                "Aggregators",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                "count(parallax_aggregator_leader)".to_owned(),
            ),
            number_panel(
                "Leaders",
                (Unit::Count, ThresholdColor::BelowOne),
                ExpectedResult::NotEmpty,
                "sum(parallax_aggregator_leader)".to_owned(),
            ),
            number_panel(
                "Topology age",
                (Unit::Seconds, ThresholdColor::AboveAMinute),
                ExpectedResult::NotEmpty,
                "max(parallax_topology_age_seconds)".to_owned(),
            ),
            number_panel(
                "Warnings about cluster objects",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                "max(parallax_topology_problems)".to_owned(),
            ),
            number_panel(
                "Unavailable stores",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                "count(parallax_store_up == 0) or vector(0)".to_owned(),
            ),
            number_panel(
                "Watches down",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                "count(parallax_watch_up == 0) or vector(0)".to_owned(),
            ),
            graph_panel(
                PanelStyle::Lines,
                "Evidence age",
                (Unit::Seconds, "{{instance}}"),
                ExpectedResult::NotEmpty,
                "max by (instance) (parallax_evidence_age_seconds)".to_owned(),
            )
            .described("A sawtooth that falls once per round. If it only rises, rounds are no longer judged."),
            graph_panel(
                PanelStyle::Areas,
                "Observations by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::NotEmpty,
                rate("result", "parallax_ingest_observations_total"),
            )
            .described("Late observations arrived after their round was judged: they are in the history, but not in the diagnosis."),
            graph_panel(
                PanelStyle::Areas,
                "Reports by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::NotEmpty,
                rate("result", "parallax_ingest_reports_total"),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Rejected probers by reason",
                (Unit::PerSecond, "{{reason}}"),
                ExpectedResult::NotEmpty,
                rate("reason", "parallax_identity_refused_total"),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Watch events by resource",
                (Unit::PerSecond, "{{resource}}"),
                ExpectedResult::NeedsCluster,
                rate("resource", "parallax_watch_events_total"),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Watch errors by resource and reason",
                (Unit::PerSecond, "{{resource}} {{reason}}"),
                ExpectedResult::NeedsCluster,
                rate("resource, reason", "parallax_watch_errors_total"),
            ),
            graph_panel(
                PanelStyle::Lines,
                "Start delay of probes, all probers",
                (Unit::Seconds, "median"),
                ExpectedResult::NotEmpty,
                late("0.5"),
            )
            .with_query("95th percentile", ExpectedResult::NotEmpty, late("0.95")),
            graph_panel(
                PanelStyle::Areas,
                "Probes by kind and result, all probers",
                (Unit::PerSecond, "{{kind}} {{result}}"),
                ExpectedResult::NotEmpty,
                rate("kind, result", "parallax_prober_probes_total"),
            )
            .with_query(
                "skipped",
                ExpectedResult::NotEmpty,
                "sum(rate(parallax_prober_overrun_total[$__rate_interval]))".to_owned(),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Rows written to the store, and dropped",
                (Unit::PerSecond, "{{what}}"),
                ExpectedResult::NotEmpty,
                rate("what", "parallax_store_written_total"),
            )
            .with_query(
                "dropped: {{what}}",
                ExpectedResult::NotEmpty,
                rate("what", "parallax_store_dropped_total"),
            ),
            graph_panel(
                PanelStyle::Lines,
                "Store size",
                (Unit::Bytes, "{{instance}}"),
                ExpectedResult::NotEmpty,
                "max by (instance) (parallax_store_bytes)".to_owned(),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Notifications by receiver and result",
                (Unit::PerSecond, "{{receiver}} {{result}}"),
                ExpectedResult::TestedElsewhere,
                rate("receiver, result", "parallax_notifications_total"),
            )
            .described("Failed deliveries are retried; refused ones are permanent."),
            graph_panel(
                PanelStyle::Lines,
                "Oldest pending notification by receiver",
                (Unit::Seconds, "{{receiver}}"),
                ExpectedResult::TestedElsewhere,
                "max by (receiver) (parallax_notifications_oldest_seconds)".to_owned(),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Recording lines by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::NotEmpty,
                rate("result", "parallax_recording_lines_total"),
            ),
        ],
    }
}
