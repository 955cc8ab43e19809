//! Would the certificates be renewed, and what do preflights and other runs come to?

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
        description: "Would the certificates be renewed? A forecast from what can be known without an order.",
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
                "Cannot be told",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("count({}) or vector(0)", foreseen("unknown")),
            )
            .about("Unknown is not fine: `parallax forecasts` says what is open."),
            number(
                "Would pass",
                (Unit::Count, ThresholdColor::Never),
                ExpectedResult::Level,
                format!("count({}) or vector(0)", foreseen("would_pass")),
            )
            .about("As far as it can be known without a token."),
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
            .about("Below zero: it is overdue."),
            number(
                "Next end in",
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
            .about("`parallax forecasts` says what the CA would say, and what to do."),
            table(
                "The next twenty renewals",
                Unit::Seconds,
                ExpectedResult::Level,
                format!("bottomk(20, {renewal} - time())"),
            ),
            table(
                "Of which nothing is certain, at most twenty",
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
                "Time left, the ten that end first",
                (Unit::Seconds, "{{namespace}}/{{certificate}}"),
                ExpectedResult::Level,
                format!("bottomk(10, {ends} - time())"),
            ),
            drawn(
                PanelStyle::Areas,
                "Runs and preflights by what they came to",
                (Unit::PerSecond, "{{result}}"),
                ExpectedResult::Level,
                "sum by (result) (rate(parallax_runs_total[$__rate_interval]))".to_owned(),
            )
            .about("A preflight of a name is two runs or three, and one more of the name itself. Looks of the forecast are none."),
        ],
    }
}
