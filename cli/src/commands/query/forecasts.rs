//! `parallax forecasts`: predicts whether certificates will be renewed.

use std::fmt::Write as _;

use parallax_api::forecasts::{RenewalForecast, RenewalForecastList, RenewalOutlook};

use super::{ApiClient, Output, ServerArgs, TextTable, wait};
use crate::{
    commands::{color, print},
    exit::Failure,
};

/// Predict whether certificates will be renewed, as far as this is known without an order, from the aggregator's last
/// forecast.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 all would pass as far as known, 1 at least one would fail, 2 usage, 3 at least one is unknown, or the aggregator cannot be reached."
)]
pub(crate) struct Args {
    /// Only names that contain this text.
    #[arg(value_name = "TEXT")]
    holding: Option<String>,
    /// Output format: json, yaml or wide.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    let mut known: RenewalForecastList = wait(client.get(&["v1", "forecasts"], &[]))?;
    if let Some(text) = &args.holding {
        known
            .forecasts
            .retain(|forecast| forecast.host.contains(text.as_str()));
    }
    known.forecasts.sort_by(|a, b| {
        let key =
            |forecast: &RenewalForecast| (forecast.outlook, forecast.renewal.map_or(i64::MAX, |at| at.0));
        key(a).cmp(&key(b))
    });
    if !Output::document(args.output, &known)? {
        print(&text(&known, args.output == Some(Output::Wide)))?;
    }
    outcome(&known)
}

fn text(known: &RenewalForecastList, wide: bool) -> String {
    let mut text = String::new();
    if let Some(missing) = &known.missing {
        let _ = writeln!(text, "No forecast: {}", plain(missing));
    }
    if known.forecasts.is_empty() {
        if known.missing.is_none() {
            text.push_str("No Certificate has a name that would be validated over HTTP.\n");
        }
        return text;
    }
    let style = color();
    let mut table = TextTable::new(&["FORECAST", "HOST", "CERTIFICATE", "RENEWAL", "REASON"]);
    for forecast in &known.forecasts {
        let (word, colour) = match forecast.outlook {
            RenewalOutlook::WouldFail => ("would fail", "1;31"),
            RenewalOutlook::Unknown => ("unknown", "33"),
            RenewalOutlook::WouldPass => ("would pass", "32"),
        };
        let certificate = format!("{}/{}", forecast.namespace, forecast.certificate);
        let renewal = forecast.renewal.map_or_else(|| "-".to_owned(), day);
        table.row([
            (word, Some(style.paint(colour, word))),
            (forecast.host.as_str(), None),
            (certificate.as_str(), None),
            (renewal.as_str(), None),
            (forecast.sentence.as_str(), None),
        ]);
    }
    text.push_str(&table.text());
    for forecast in known
        .forecasts
        .iter()
        .filter(|forecast| wide || forecast.cause.is_some())
    {
        let mut lines = Vec::new();
        lines.extend(
            forecast
                .theirs
                .iter()
                .map(|theirs| format!("expected CA error: {theirs}")),
        );
        lines.extend(forecast.remedy.iter().map(|remedy| format!("remedy: {remedy}")));
        if wide {
            lines.push(format!("{}, {}", forecast.issuer, forecast.solver));
            lines.extend(forecast.notes.iter().cloned());
        }
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{}", forecast.host);
            for line in lines {
                let _ = writeln!(text, "  {}", plain(&line));
            }
        }
    }
    if known.left_out > 0 {
        let _ = writeln!(text, "\n{} more names are not examined.", known.left_out);
    }
    let _ = writeln!(text, "\n{}", known.note);
    text
}

fn day(at: parallax_model::EventTime) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(
        |_| "-".to_owned(),
        |stamp| stamp.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// Replaces control characters: the owner of a zone controls parts of this text.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn outcome(known: &RenewalForecastList) -> Result<(), Failure> {
    let any = |outlook| known.forecasts.iter().any(|forecast| forecast.outlook == outlook);
    if any(RenewalOutlook::WouldFail) {
        return Err(Failure::No);
    }
    if let Some(missing) = &known.missing {
        return Err(Failure::CouldNot(format!("no forecast: {missing}")));
    }
    if any(RenewalOutlook::Unknown) || known.left_out > 0 {
        return Err(Failure::CouldNot(
            "the forecast of some names is unknown".to_owned(),
        ));
    }
    Ok(())
}
