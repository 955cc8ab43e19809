//! `parallax forecasts`: predicts whether certificates will be renewed.

use std::fmt::Write as _;

use parallax_api::forecasts::{RenewalForecast, RenewalForecastList, RenewalOutlook};

use super::{ApiClient, Output, ServerArgs, TextTable, block_on};
use crate::{
    commands::{color, print, server_text::replace_control_characters},
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
    filter: Option<String>,
    /// Output format: json, yaml or wide.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    let mut known: RenewalForecastList = block_on(client.get(&["v1", "forecasts"], &[]))?;
    if let Some(text) = &args.filter {
        known
            .forecasts
            .retain(|forecast| forecast.host.contains(text.as_str()));
    }
    known.forecasts.sort_by(|a, b| {
        let key =
            |forecast: &RenewalForecast| (forecast.outlook, forecast.renewal.map_or(i64::MAX, |at| at.0));
        key(a).cmp(&key(b))
    });
    if !Output::print_document(args.output, &known)? {
        print(&render(&known, args.output == Some(Output::Wide)))?;
    }
    exit_status(&known)
}

fn render(known: &RenewalForecastList, wide: bool) -> String {
    let mut text = String::new();
    if let Some(missing) = &known.unavailable_because {
        let _ = writeln!(text, "No forecast: {}", replace_control_characters(missing));
    }
    if known.forecasts.is_empty() {
        if known.unavailable_because.is_none() {
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
        let renewal = forecast.renewal.map_or_else(|| "-".to_owned(), format_time);
        table.row([
            (word, Some(style.paint(colour, word))),
            (forecast.host.as_str(), None),
            (certificate.as_str(), None),
            (renewal.as_str(), None),
            (forecast.sentence.as_str(), None),
        ]);
    }
    text.push_str(&table.render());
    for forecast in known
        .forecasts
        .iter()
        .filter(|forecast| wide || forecast.cause.is_some())
    {
        let mut lines = Vec::new();
        lines.extend(
            forecast
                .ca_error
                .iter()
                .map(|message| format!("expected CA error: {message}")),
        );
        lines.extend(forecast.remedy.iter().map(|remedy| format!("remedy: {remedy}")));
        if wide {
            lines.push(format!("{}, {}", forecast.issuer, forecast.solver));
            lines.extend(forecast.notes.iter().cloned());
        }
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{}", forecast.host);
            for line in lines {
                let _ = writeln!(text, "  {}", replace_control_characters(&line));
            }
        }
    }
    if known.skipped > 0 {
        let _ = writeln!(text, "\n{} more names are not examined.", known.skipped);
    }
    let _ = writeln!(text, "\n{}", known.note);
    text
}

fn format_time(at: parallax_model::EventTime) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(
        |_| "-".to_owned(),
        |stamp| stamp.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

fn exit_status(known: &RenewalForecastList) -> Result<(), Failure> {
    let any = |outlook| known.forecasts.iter().any(|forecast| forecast.outlook == outlook);
    if any(RenewalOutlook::WouldFail) {
        return Err(Failure::Negative);
    }
    if let Some(missing) = &known.unavailable_because {
        return Err(Failure::Indeterminate(format!("no forecast: {missing}")));
    }
    if any(RenewalOutlook::Unknown) || known.skipped > 0 {
        return Err(Failure::Indeterminate(
            "the forecast of some names is unknown".to_owned(),
        ));
    }
    Ok(())
}
