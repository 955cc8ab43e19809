//! The dashboard of renewals: forecasts for certificates, and results of preflights and other runs.

use super::{
    Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, graph_panel, number_panel,
    table_panel,
};
use crate::promql::{Leader, with_own_namespace};

/// Series of a Certificate, of the leader. Their label `namespace` is the Certificate's: the namespace of the installation
/// is that of its aggregator.
fn own(series: &str) -> String {
    let of_leader = Leader::Inline.of(series);
    let of_installation = format!("({of_leader} and on (cluster, job, instance) parallax_aggregator_leader)");
    with_own_namespace(&of_installation)
}

pub(super) fn dashboard() -> Dashboard {
    let foreseen = |forecast: &str| {
        let series = format!("parallax_renewal_forecast{{forecast=\"{forecast}\"}}");
        format!("max by (namespace, certificate, host, cause) ({})", own(&series))
    };
    let times = |metric: &str| format!("min by (namespace, certificate) ({})", own(metric));
    let renewal = times("parallax_certificate_renewal_timestamp_seconds");
    let ends = times("parallax_certificate_not_after_timestamp_seconds");
    Dashboard {
        uid: "parallax-renewals",
        title: "Parallax / Preflight and renewals",
        description: "Would the certificates be renewed? A forecast from what is known without an order.",
        variables: vec![Variable::Page],
        panels: vec![
            number_panel(
                "Would fail",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::NotEmpty,
                format!("count({}) or vector(0)", foreseen("would_fail")),
            )
            .described("Names whose renewal would fail for a cause that is certain."),
            number_panel(
                "Unknown",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                format!("count({}) or vector(0)", foreseen("unknown")),
            )
            .described("Unknown is not ok: `parallax forecasts` shows what could not be determined."),
            number_panel(
                "Would pass",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                format!("count({}) or vector(0)", foreseen("would_pass")),
            )
            .described("As far as is known without a token."),
            number_panel(
                "Certificates",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                format!("count({ends})"),
            ),
            number_panel(
                "Next renewal in",
                (Unit::Seconds, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                format!("min({renewal}) - time()"),
            )
            .described("Below zero, a renewal is overdue."),
            number_panel(
                "Next expiry in",
                (Unit::Seconds, ThresholdColor::Never),
                ExpectedResult::NotEmpty,
                format!("min({ends}) - time()"),
            ),
            table_panel(
                "Renewals that would fail",
                Unit::Count,
                ExpectedResult::NotEmpty,
                foreseen("would_fail"),
            )
            .sized(24, 6)
            .described("`parallax forecasts` shows the CA's error and what to do."),
            table_panel(
                "Next 20 renewals",
                Unit::Seconds,
                ExpectedResult::NotEmpty,
                format!("bottomk(20, {renewal} - time())"),
            ),
            table_panel(
                "Unknown forecasts, up to 20",
                Unit::Count,
                ExpectedResult::NotEmpty,
                format!("topk(20, {})", foreseen("unknown")),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Forecasts",
                (Unit::Count, "{{forecast}}"),
                ExpectedResult::NotEmpty,
                format!("count by (forecast) ({})", own("parallax_renewal_forecast")),
            ),
            graph_panel(
                PanelStyle::Lines,
                "Time to expiry, next 10 certificates",
                (Unit::Seconds, "{{namespace}}/{{certificate}}"),
                ExpectedResult::NotEmpty,
                format!("bottomk(10, {ends} - time())"),
            ),
            graph_panel(
                PanelStyle::Areas,
                "Runs and preflights by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::NotEmpty,
                "sum by (result) (rate(parallax_runs_total[$__rate_interval]))".to_owned(),
            )
            .described("A preflight of a name is two or three runs, and one more for the name itself. Checks of the forecast are not runs."),
        ],
    }
}
