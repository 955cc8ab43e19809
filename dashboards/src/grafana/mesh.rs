//! The dashboard of the mesh: vantages and probers. Lists end after twenty entries, whatever the number of nodes.

use super::{Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, drawn, number, table};
use crate::promql::{once, speaking};

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
            number(
                "Reporting vantages",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("max {}", speaking("parallax_vantages{state=\"reporting\"}")),
            ),
            number(
                "Vantages not reporting",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                format!("sum {}", speaking("parallax_vantages{state!=\"reporting\"}")),
            ),
            number(
                "Nodes without a prober",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                format!("max {}", speaking("parallax_nodes{prober=\"no\"}")),
            ),
            number(
                "Last report of $vantage",
                (Unit::Seconds, ThresholdColor::FromAMinute),
                ExpectedResult::Level,
                format!("max {}", speaking("parallax_vantage_silent_seconds{vantage=\"$vantage\"}")),
            ),
            drawn(
                PanelStyle::Areas,
                "Vantages by state",
                (Unit::Count, "{{state}}"),
                ExpectedResult::Level,
                once("max", "state", "parallax_vantages"),
            )
            .sized(8, 8),
            drawn(
                PanelStyle::Areas,
                "Probes between nodes by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                once(
                    "sum",
                    "result",
                    "rate(parallax_probes_total{channel=\"mesh\"}[$__rate_interval])",
                ),
            )
            .about("The control group: a failure that also occurs here is not a fault of a front.")
            .sized(8, 8),
            table(
                "20 least reachable nodes",
                Unit::Share,
                ExpectedResult::Elsewhere,
                format!(
                    "topk(20, {} / {} > 0)",
                    once(
                        "sum",
                        "target",
                        "rate(parallax_probes_total{channel=\"mesh\",result!~\"ok|not_asked\"}[$__rate_interval])",
                    ),
                    once("sum", "target", "rate(parallax_probes_total{channel=\"mesh\"}[$__rate_interval])"),
                ),
            )
            .sized(8, 8)
            .about("The share of failures among the probes that other probers make to the node."),
            table(
                "20 longest silent vantages",
                Unit::Seconds,
                ExpectedResult::Level,
                format!(
                    "topk(20, {})",
                    once("max", "vantage", "parallax_vantage_silent_seconds")
                ),
            )
            .sized(8, 8),
            table(
                "20 probers with the oldest plan",
                Unit::Seconds,
                ExpectedResult::Difference,
                "topk(20, max by (job, instance) (parallax_prober_plan_age_seconds))".to_owned(),
            )
            .sized(8, 8),
            table(
                "20 probers with the longest start delay (95th percentile)",
                Unit::Seconds,
                ExpectedResult::Level,
                "topk(20, histogram_quantile(0.95, sum by (job, instance, le) (rate(parallax_prober_late_seconds_bucket[$__rate_interval]))))".to_owned(),
            )
            .sized(8, 8),
            drawn(
                PanelStyle::Areas,
                "Probes not made, by kind",
                (Unit::PerSecond, "{{kind}}"),
                ExpectedResult::Level,
                "sum by (kind) (rate(parallax_prober_probes_total{result=\"not_asked\"}[$__rate_interval]))".to_owned(),
            )
            .about("Faults of the prober itself: too late, over budget, no free port. They never count against a target."),
            drawn(
                PanelStyle::Lines,
                "Observations buffered by probers, and dropped",
                (Unit::Count, "buffered"),
                ExpectedResult::Difference,
                "sum(parallax_prober_spool_reports)".to_owned(),
            )
            .and(
                "dropped",
                ExpectedResult::Level,
                "sum(increase(parallax_prober_spool_dropped_total[$__rate_interval]))".to_owned(),
            ),
        ],
    }
}
