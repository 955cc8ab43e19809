//! The overview dashboard: what is wrong, where and since when.

use super::{Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, drawn, number, table};
use crate::promql::{once, speaking};

#[expect(
    clippy::too_many_lines,
    reason = "a dashboard is data, read from top to bottom"
)]
pub(super) fn dashboard() -> Dashboard {
    let reporting = format!(
        "sum {} / sum {}",
        speaking("parallax_vantages{state=\"reporting\"}"),
        speaking("parallax_vantages")
    );
    let fine = format!(
        "count(sum by (target) {} == 0) / count(count by (target) {})",
        speaking("parallax_target_vantages{state!=\"ok\"}"),
        speaking("parallax_target_vantages")
    );
    Dashboard {
        uid: "parallax-overview",
        title: "Parallax / Overview",
        description: "Does everything work? If not, what fails, where, and since when?",
        variables: vec![Variable::Page],
        panels: vec![
            number(
                "Open incidents",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Difference,
                format!("count({}) or vector(0)", once("max", "incident", "parallax_incident")),
            ),
            number(
                "Under investigation",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("max {}", speaking("parallax_investigating")),
            ),
            number(
                "Targets ok from all vantages",
                (Unit::Share, ThresholdColor::BelowOne),
                ExpectedResult::Difference,
                fine,
            )
            .about("Targets that are reachable from every vantage that probes them. A target without fresh observations is not ok."),
            number("Reporting vantages", (Unit::Share, ThresholdColor::BelowOne), ExpectedResult::Level, reporting),
            number(
                "Hazards",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                format!("count({}) or vector(0)", speaking("parallax_hazard")),
            )
            .about("Configuration that would let clients fail, although nothing fails yet."),
            number(
                "Evidence age",
                (Unit::Seconds, ThresholdColor::FromAMinute),
                ExpectedResult::Level,
                format!("max {}", speaking("parallax_evidence_age_seconds")),
            ),
            table(
                "Open incidents",
                Unit::Count,
                ExpectedResult::Difference,
                once("max", "incident, cause, severity, subject, handling", "parallax_incident"),
            )
            .sized(24, 6)
            .about("The id links to the page: the sentence, its evidence, what was ruled out and what to do."),
            drawn(
                PanelStyle::Lines,
                "Reachability by placement of client and entry",
                (Unit::Share, "{{placement}}"),
                ExpectedResult::Difference,
                once("avg", "placement", "parallax_target_reachable_ratio"),
            )
            .about("Averaged over all targets. If one placement falls and the others do not, it shows where to look."),
            drawn(
                PanelStyle::Areas,
                "Open incidents by cause",
                (Unit::Count, "{{cause}} {{severity}}"),
                ExpectedResult::Difference,
                once("max", "cause, severity", "parallax_incident_open"),
            ),
            table(
                "20 least reachable targets",
                Unit::Share,
                ExpectedResult::Difference,
                format!(
                    "bottomk(20, {} < 1)",
                    once("min", "target, placement", "parallax_target_reachable_ratio")
                ),
            ),
            drawn(
                PanelStyle::Areas,
                "Failures by kind",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Difference,
                once(
                    "sum",
                    "result",
                    "rate(parallax_probes_total{result!~\"ok|not_asked\"}[$__rate_interval])",
                ),
            ),
            table(
                "Hazards",
                Unit::Count,
                ExpectedResult::Elsewhere,
                once("max", "hazard, subject, severity", "parallax_hazard"),
            ),
            table(
                "Findings",
                Unit::Count,
                ExpectedResult::Elsewhere,
                format!("{} > 0", once("max", "finding, catalogue, severity", "parallax_finding")),
            ),
        ],
    }
}
