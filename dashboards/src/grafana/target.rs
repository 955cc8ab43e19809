//! The dashboard of one target: reachability by vantage, and duration of each phase.

use super::{
    Dashboard, ExpectedResult, PanelStyle, States, ThresholdColor, Unit, Variable, graph_panel, number_panel,
    severities, table_panel, timeline_panel, total,
};
use crate::promql::Leader;

#[expect(
    clippy::too_many_lines,
    reason = "a dashboard is data, read from top to bottom"
)]
pub(super) fn dashboard() -> Dashboard {
    // From classic buckets if Prometheus has them, otherwise from native histograms.
    let phases = |quantile: &str| {
        let of = |series: &str, labels: &str| {
            let rate = format!("rate({series}{{target=\"$target\"}}[$__rate_interval])");
            format!(
                "histogram_quantile({quantile}, {})",
                Leader::Inline.aggregate("sum", labels, &rate)
            )
        };
        format!(
            "{} or {}",
            of("parallax_probe_phase_seconds_bucket", "phase, le"),
            of("parallax_probe_phase_seconds", "phase")
        )
    };
    let of = |metric: &str| format!("{metric}{{target=\"$target\"}}");
    Dashboard {
        uid: "parallax-target",
        title: "Parallax / Target",
        description: "From where a target is reachable, from where it is not, and how long each phase takes.",
        variables: vec![
            Variable::Label {
                name: "target",
                metric: "parallax_target_vantages",
            },
            Variable::Page,
        ],
        panels: vec![
            number_panel(
                "Lowest reachability",
                (Unit::Share, ThresholdColor::BelowOne),
                ExpectedResult::Changes,
                format!("min {}", Leader::Inline.of(&of("parallax_target_reachable_ratio"))),
            ),
            number_panel(
                "Failing or flaky vantages",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Changes,
                format!(
                    "sum({})",
                    total("state", "parallax_target_vantages{target=\"$target\",state=~\"failing|flaky\"}")
                ),
            ),
            number_panel(
                "Vantages without fresh observations",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                total("", "parallax_target_vantages{target=\"$target\",state=\"unknown\"}"),
            ),
            table_panel(
                "Causes",
                Unit::Share,
                ExpectedResult::Changes,
                format!(
                    "{} * on (target) group_left (incident) topk by (target) (1, {})",
                    Leader::Inline.aggregate("max", "target, cause", &of("parallax_verdict_probability")),
                    Leader::Inline.aggregate("max", "target, incident", &of("parallax_target_incident")),
                ),
            )
            .sized(12, 4)
            .described("Causes with their probability; the incident's id links to the page."),
            timeline_panel(
                "Placements over time",
                States::Reachability,
                (Unit::Share, "{{placement}}"),
                ExpectedResult::Changes,
                Leader::Inline.aggregate("min", "placement", &of("parallax_target_reachable_ratio")),
            )
            .described("Unreachable below 50 %, unreliable below 95 %."),
            timeline_panel(
                "Incidents over time",
                States::Severity,
                (Unit::Count, "{{cause}} {{subject}}"),
                ExpectedResult::Changes,
                format!(
                    "({}) and on (incident) {}",
                    severities("incident, cause, subject"),
                    Leader::Inline.of(&of("parallax_target_incident")),
                ),
            )
            .described("The incidents that explain the failures of this target."),
            graph_panel(
                PanelStyle::Lines,
                "Reachability by placement of client and entry",
                (Unit::Share, "{{placement}}"),
                ExpectedResult::Changes,
                Leader::Inline.aggregate("min", "placement", &of("parallax_target_reachable_ratio")),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Vantages by state",
                (Unit::Count, "{{state}}"),
                ExpectedResult::Changes,
                total("state", &of("parallax_target_vantages")),
            ),
            graph_panel(
                PanelStyle::Lines,
                "Median of each phase",
                (Unit::Seconds, "{{phase}}"),
                ExpectedResult::NotEmpty,
                phases("0.5"),
            )
            .described("Successful probes that take the path of a user."),
            graph_panel(
                PanelStyle::Lines,
                "95th percentile of each phase",
                (Unit::Seconds, "{{phase}}"),
                ExpectedResult::NotEmpty,
                phases("0.95"),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Probes that take the path of a user, by result",
                (Unit::PerSecond, "{{result}} {{placement}}"),
                ExpectedResult::Changes,
                Leader::Inline.aggregate(
                    "sum",
                    "result, placement",
                    "rate(parallax_probes_total{target=\"$target\",channel=~\"vip|dns\"}[$__rate_interval])",
                ),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Failures by channel",
                (Unit::PerSecond, "{{channel}} {{result}}"),
                ExpectedResult::Changes,
                Leader::Inline.aggregate(
                    "sum",
                    "channel, result",
                    "rate(parallax_probes_total{target=\"$target\",result!~\"ok|not_asked\"}[$__rate_interval])",
                ),
            )
            .described("If probes through the address fail and direct probes succeed, the fault is in between; if direct probes fail, too, it is the endpoint."),
        ],
    }
}
