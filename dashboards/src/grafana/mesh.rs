//! The dashboard of the mesh: vantages and probers. Lists end after twenty entries, whatever the number of nodes.

use super::{
    Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, graph_panel, number_panel,
    table_panel, total,
};
use crate::promql::Leader;

#[expect(
    clippy::too_many_lines,
    reason = "a dashboard is data, read from top to bottom"
)]
pub(super) fn dashboard() -> Dashboard {
    Dashboard {
        uid: "parallax-mesh",
        title: "Parallax / Mesh and nodes",
        description: "Which vantages report, which are silent, and which probers cannot keep up.",
        variables: vec![
            Variable::Label {
                name: "vantage",
                metric: "parallax_vantage_silent_seconds",
            },
            Variable::Page,
        ],
        panels: vec![
            number_panel(
                "Reporting vantages",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                total("", "parallax_vantages{state=\"reporting\"}"),
            ),
            number_panel(
                "Vantages not reporting",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                format!("sum({})", total("state", "parallax_vantages{state!=\"reporting\"}")),
            ),
            number_panel(
                "Nodes without a prober",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                total("", "parallax_nodes{prober=\"no\"}"),
            ),
            number_panel(
                "Last report of $vantage",
                (Unit::Seconds, ThresholdColor::AboveAMinute),
                ExpectedResult::NotEmpty,
                format!("max {}", Leader::Inline.of("parallax_vantage_silent_seconds{vantage=\"$vantage\"}")),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Vantages by state",
                (Unit::Count, "{{state}}"),
                ExpectedResult::NotEmpty,
                total("state", "parallax_vantages"),
            )
            .sized(8, 8),
            graph_panel(
                PanelStyle::Areas,
                "Probes between nodes by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::NotEmpty,
                Leader::Inline.aggregate(
                    "sum",
                    "result",
                    "rate(parallax_probes_total{channel=\"mesh\"}[$__rate_interval])",
                ),
            )
            .described("The control group: a failure that also occurs here is not a fault of a front.")
            .sized(8, 8),
            table_panel(
                "20 least reachable nodes",
                Unit::Share,
                ExpectedResult::TestedElsewhere,
                format!(
                    "topk(20, {} / {} > 0)",
                    Leader::Inline.aggregate(
                        "sum",
                        "target",
                        "rate(parallax_probes_total{channel=\"mesh\",result!~\"ok|not_asked\"}[$__rate_interval])",
                    ),
                    Leader::Inline.aggregate("sum", "target", "rate(parallax_probes_total{channel=\"mesh\"}[$__rate_interval])"),
                ),
            )
            .sized(8, 8)
            .described("The share of failures among the probes that other probers make to the node."),
            table_panel(
                "20 longest silent vantages",
                Unit::Seconds,
                ExpectedResult::NotEmpty,
                format!(
                    "topk(20, {})",
                    Leader::Inline.aggregate("max", "vantage", "parallax_vantage_silent_seconds")
                ),
            )
            .sized(8, 8),
            table_panel(
                "20 probers with the oldest plan",
                Unit::Seconds,
                ExpectedResult::Changes,
                "topk(20, max by (job, instance) (parallax_prober_plan_age_seconds))".to_owned(),
            )
            .sized(8, 8),
            table_panel(
                "20 probers with the longest start delay (95th percentile)",
                Unit::Seconds,
                ExpectedResult::NotEmpty,
                "topk(20, histogram_quantile(0.95, sum by (job, instance, le) (rate(parallax_prober_late_seconds_bucket[$__rate_interval]))))".to_owned(),
            )
            .sized(8, 8),
            graph_panel(
                PanelStyle::Areas,
                "Probes not made, by kind",
                (Unit::PerSecond, "{{kind}}"),
                ExpectedResult::NotEmpty,
                "sum by (kind) (rate(parallax_prober_probes_total{result=\"not_asked\"}[$__rate_interval]))".to_owned(),
            )
            .described("Faults of the prober itself: too late, over budget, no free port. They never count against a target."),
            graph_panel(
                PanelStyle::Lines,
                "Observations buffered by probers, and dropped",
                (Unit::Count, "buffered"),
                ExpectedResult::Changes,
                "sum(parallax_prober_spool_reports)".to_owned(),
            )
            .with_query(
                "dropped",
                ExpectedResult::NotEmpty,
                "sum(increase(parallax_prober_spool_dropped_total[$__rate_interval]))".to_owned(),
            ),
        ],
    }
}
