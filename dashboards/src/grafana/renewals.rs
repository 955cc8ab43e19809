//! The dashboard of renewals: forecasts for certificates, and results of preflights and other runs.

use super::{Dashboard, ExpectedResult, PanelStyle, ThresholdColor, Unit, Variable, drawn, number, table};
use crate::promql::{once, speaking};

pub(super) fn dashboard() -> Dashboard {
    let foreseen = |forecast: &str| {
        let series = format!("parallax_renewal_forecast{{forecast=\"{forecast}\"}}");
        once("max", "namespace, certificate, host, cause", &series)
    };
    let times = |metric: &str| once("min", "namespace, certificate", metric);
    let renewal = times("parallax_certificate_renewal_timestamp_seconds");
    let ends = times("parallax_certificate_not_after_timestamp_seconds");
    Dashboard {
        uid: "parallax-renewals",
        title: "Parallax / Preflight and renewals",
        description: "Would the certificates be renewed? A forecast from what is known without an order.",
        variables: vec![Variable::Page],
        panels: vec![
            number(
                "Would fail",
                (Unit::Count, ThresholdColor::AboveZero),
                ExpectedResult::Level,
                format!("count({}) or vector(0)", foreseen("would_fail")),
            )
            .about("Names whose renewal would fail for a cause that is certain."),
            number(
                "Unknown",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("count({}) or vector(0)", foreseen("unknown")),
            )
            .about("Unknown is not ok: `parallax forecasts` shows what could not be determined."),
            number(
                "Would pass",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("count({}) or vector(0)", foreseen("would_pass")),
            )
            .about("As far as is known without a token."),
            number(
                "Certificates",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("count({ends})"),
            ),
            number(
                "Next renewal in",
                (Unit::Seconds, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("min({renewal}) - time()"),
            )
            .about("Below zero, a renewal is overdue."),
            number(
                "Next expiry in",
                (Unit::Seconds, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("min({ends}) - time()"),
            ),
            table(
                "Renewals that would fail",
                Unit::Count,
                ExpectedResult::Level,
                foreseen("would_fail"),
            )
            .sized(24, 6)
            .about("`parallax forecasts` shows the CA's error and what to do."),
            table(
                "Next 20 renewals",
                Unit::Seconds,
                ExpectedResult::Level,
                format!("bottomk(20, {renewal} - time())"),
            ),
            table(
                "Unknown forecasts, up to 20",
                Unit::Count,
                ExpectedResult::Level,
                format!("topk(20, {})", foreseen("unknown")),
            ),
            drawn(
                PanelStyle::Areas,
                "Forecasts",
                (Unit::Count, "{{forecast}}"),
                ExpectedResult::Level,
                format!("count by (forecast) {}", speaking("parallax_renewal_forecast")),
            ),
            drawn(
                PanelStyle::Lines,
                "Time to expiry, next 10 certificates",
                (Unit::Seconds, "{{namespace}}/{{certificate}}"),
                ExpectedResult::Level,
                format!("bottomk(10, {ends} - time())"),
            ),
            drawn(
                PanelStyle::Areas,
                "Runs and preflights by result",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                "sum by (result) (rate(parallax_runs_total[$__rate_interval]))".to_owned(),
            )
            .about("A preflight of a name is two or three runs, and one more for the name itself. Checks of the forecast are not runs."),
        ],
    }
}
