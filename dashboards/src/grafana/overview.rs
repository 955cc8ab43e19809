//! The overview dashboard: what is wrong, where and since when.

use super::{
    Dashboard, ExpectedResult, PanelStyle, States, ThresholdColor, Unit, Variable, alert_list_panel,
    graph_panel, number_panel, severities, table_panel, timeline_panel, total,
};
use crate::promql::Leader;

#[expect(
    clippy::too_many_lines,
    reason = "a dashboard is data, read from top to bottom"
)]
pub(super) fn dashboard() -> Dashboard {
    let reporting = format!(
        "sum {} / sum {}",
        Leader::Inline.of("parallax_vantages{state=\"reporting\"}"),
        Leader::Inline.of("parallax_vantages")
    );
    let fine = format!(
        "count(sum by (target) {} == 0) / count(count by (target) {})",
        Leader::Inline.of("parallax_target_vantages{state!=\"ok\"}"),
        Leader::Inline.of("parallax_target_vantages")
    );
    Dashboard {
        uid: "parallax-overview",
        title: "Parallax / Overview",
        description: "Does everything work? If not, what fails, where, and since when?",
        variables: vec![Variable::Page],
        panels: vec![
            number_panel(
                "Open incidents",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Changes,
                format!("count({}) or vector(0)", Leader::Inline.aggregate("max", "incident", "parallax_incident")),
            ),
            number_panel(
                "Under investigation",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                total("", "parallax_unexplained_failures"),
            ),
            number_panel(
                "Targets ok from all vantages",
                (Unit::Share, ThresholdColor::BelowOne),
                ExpectedResult::Changes,
                fine,
            )
            .described("Targets that are reachable from every vantage that probes them. A target without fresh observations is not ok."),
            number_panel("Reporting vantages", (Unit::Share, ThresholdColor::BelowOne), ExpectedResult::NotEmpty, reporting),
            number_panel(
                "Hazards",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                format!("count({}) or vector(0)", Leader::Inline.of("parallax_hazard")),
            )
            .described("Configuration that would let clients fail, although nothing fails yet."),
            number_panel(
                "Evidence age",
                (Unit::Seconds, ThresholdColor::AboveAMinute),
                ExpectedResult::NotEmpty,
                format!("max {}", Leader::Inline.of("parallax_evidence_age_seconds")),
            ),
            table_panel(
                "Open incidents",
                Unit::Count,
                ExpectedResult::Changes,
                Leader::Inline.aggregate("max", "incident, cause, severity, subject, action", "parallax_incident"),
            )
            .sized(16, 6)
            .described("The id links to the page: the sentence, its evidence, what was ruled out and what to do."),
            alert_list_panel("Firing and pending alerts")
                .described("Alerts of Prometheus and of Grafana, of all installations."),
            timeline_panel(
                "Incidents over time",
                States::Severity,
                (Unit::Count, "{{cause}} {{subject}}"),
                ExpectedResult::Changes,
                severities("incident, cause, subject"),
            )
            .described("One row per incident, from its opening to its closing."),
            timeline_panel(
                "Placements over time",
                States::Reachability,
                (Unit::Share, "{{placement}}"),
                ExpectedResult::Changes,
                Leader::Inline.aggregate("min", "placement", "parallax_target_reachable_ratio"),
            )
            .described("The least reachable target of each placement of client and entry: unreachable below 50 %, unreliable below 95 %."),
            graph_panel(
                PanelStyle::Lines,
                "Reachability by placement of client and entry",
                (Unit::Share, "{{placement}}"),
                ExpectedResult::Changes,
                Leader::Inline.aggregate("avg", "placement", "parallax_target_reachable_ratio"),
            )
            .described("Averaged over all targets. If one placement falls and the others do not, it shows where to look."),
            graph_panel(
                PanelStyle::Areas,
                "Open incidents by cause",
                (Unit::Count, "{{cause}} {{severity}}"),
                ExpectedResult::Changes,
                total("cause, severity", "parallax_incident_open"),
            ),
            table_panel(
                "20 least reachable targets",
                Unit::Share,
                ExpectedResult::Changes,
                format!(
                    "bottomk(20, {} < 1)",
                    Leader::Inline.aggregate("min", "target, placement", "parallax_target_reachable_ratio")
                ),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Failures by kind",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Changes,
                Leader::Inline.aggregate(
                    "sum",
                    "result",
                    "rate(parallax_probes_total{result!~\"ok|not_asked\"}[$__rate_interval])",
                ),
            ),
            table_panel(
                "Hazards",
                Unit::Count,
                ExpectedResult::TestedElsewhere,
                Leader::Inline.aggregate("max", "hazard, subject, severity", "parallax_hazard"),
            ),
            table_panel(
                "Findings",
                Unit::Count,
                ExpectedResult::TestedElsewhere,
                format!("{} > 0", Leader::Inline.aggregate("max", "finding, catalogue, severity", "parallax_finding")),
            ),
        ],
    }
}
