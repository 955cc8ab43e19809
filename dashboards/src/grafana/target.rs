//! The dashboard of one target: reachability by vantage, and duration of each phase.

use super::{Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, drawn, number, table};
use crate::promql::{once, speaking};

#[expect(
    clippy::too_many_lines,
    reason = "a dashboard is data, read from top to bottom"
)]
pub(super) fn dashboard() -> Dashboard {
    let phases = |quantile: &str| {
        format!(
            "histogram_quantile({quantile}, {})",
            once(
                "sum",
                "phase, le",
                "rate(parallax_probe_phase_seconds_bucket{target=\"$target\"}[$__rate_interval])",
            )
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
            number(
                "Lowest reachability",
                (Unit::Share, ThresholdColor::BelowOne),
                ExpectedResult::Difference,
                format!("min {}", speaking(&of("parallax_target_reachable_ratio"))),
            ),
            number(
                "Failing or flaky vantages",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Difference,
                format!(
                    "sum {}",
                    speaking("parallax_target_vantages{target=\"$target\",state=~\"failing|flaky\"}")
                ),
            ),
            number(
                "Vantages without fresh observations",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                format!(
                    "sum {}",
                    speaking("parallax_target_vantages{target=\"$target\",state=\"unknown\"}")
                ),
            ),
            table(
                "Causes",
                Unit::Share,
                ExpectedResult::Difference,
                format!(
                    "{} * on (target) group_left (incident) topk by (target) (1, {})",
                    once("max", "target, cause", &of("parallax_verdict_probability")),
                    once("max", "target, incident", &of("parallax_target_incident")),
                ),
            )
            .sized(12, 4)
            .about("Causes with their probability; the incident's id links to the page."),
            drawn(
                PanelStyle::Lines,
                "Reachability by placement of client and entry",
                (Unit::Share, "{{placement}}"),
                ExpectedResult::Difference,
                once("min", "placement", &of("parallax_target_reachable_ratio")),
            ),
            drawn(
                PanelStyle::Areas,
                "Vantages by state",
                (Unit::Count, "{{state}}"),
                ExpectedResult::Difference,
                once("max", "state", &of("parallax_target_vantages")),
            ),
            drawn(
                PanelStyle::Lines,
                "Median of each phase",
                (Unit::Seconds, "{{phase}}"),
                ExpectedResult::Level,
                phases("0.5"),
            )
            .about("Successful probes that take the path of a user."),
            drawn(
                PanelStyle::Lines,
                "95th percentile of each phase",
                (Unit::Seconds, "{{phase}}"),
                ExpectedResult::Level,
                phases("0.95"),
            ),
            drawn(
                PanelStyle::Areas,
                "Probes that take the path of a user, by result",
                (Unit::PerSecond, "{{result}} {{placement}}"),
                ExpectedResult::Difference,
                once(
                    "sum",
                    "result, placement",
                    "rate(parallax_probes_total{target=\"$target\",channel=~\"vip|dns\"}[$__rate_interval])",
                ),
            ),
            drawn(
                PanelStyle::Areas,
                "Failures by channel",
                (Unit::PerSecond, "{{channel}} {{result}}"),
                ExpectedResult::Difference,
                once(
                    "sum",
                    "channel, result",
                    "rate(parallax_probes_total{target=\"$target\",result!~\"ok|not_asked\"}[$__rate_interval])",
                ),
            )
            .about("If probes through the address fail and direct probes succeed, the fault is in between; if direct probes fail, too, it is the endpoint."),
        ],
    }
}
