//! The mesh: who looks, who is silent, whose prober is short of something. Lists end after twenty, whatever the number of nodes.

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
        description: "Who looks, who is silent, and whose prober is short of something.",
        variables: vec![
            Variable::Label {
                name: "vantage",
                metric: "parallax_vantage_silent_seconds",
            },
            Variable::Page,
        ],
        panels: vec![
            number(
                "Vantages that report",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("max {}", speaking("parallax_vantages{state=\"reporting\"}")),
            ),
            number(
                "Vantages that do not",
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
                "$vantage was last heard of",
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
            .about("The control group: what fails here, too, is no fault of a front.")
            .sized(8, 8),
            table(
                "Nodes that others reach worst, twenty",
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
            .about("The share of failures among the probes of other probers."),
            table(
                "The longest silent vantages, twenty",
                Unit::Seconds,
                ExpectedResult::Level,
                format!(
                    "topk(20, {})",
                    once("max", "vantage", "parallax_vantage_silent_seconds")
                ),
            )
            .sized(8, 8),
            table(
                "Probers longest without a plan, twenty",
                Unit::Seconds,
                ExpectedResult::Difference,
                "topk(20, max by (job, instance) (parallax_prober_plan_age_seconds))".to_owned(),
            )
            .sized(8, 8),
            table(
                "Probers that start latest (95th percentile), twenty",
                Unit::Seconds,
                ExpectedResult::Level,
                "topk(20, histogram_quantile(0.95, sum by (job, instance, le) (rate(parallax_prober_late_seconds_bucket[$__rate_interval]))))".to_owned(),
            )
            .sized(8, 8),
            drawn(
                PanelStyle::Areas,
                "Probes that were not made, by kind",
                (Unit::PerSecond, "{{kind}}"),
                ExpectedResult::Level,
                "sum by (kind) (rate(parallax_prober_probes_total{result=\"not_asked\"}[$__rate_interval]))".to_owned(),
            )
            .about("The prober's own fault: too late, over budget, no free port. Never held against a target."),
            drawn(
                PanelStyle::Lines,
                "Observations that wait for an aggregator, and that were given up",
                (Unit::Count, "waiting"),
                ExpectedResult::Difference,
                "sum(parallax_prober_spool_reports)".to_owned(),
            )
            .and(
                "given up",
                ExpectedResult::Level,
                "sum(increase(parallax_prober_spool_dropped_total[$__rate_interval]))".to_owned(),
            ),
        ],
    }
}
