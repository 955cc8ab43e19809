//! `parallax status`: reports whether all is well.

use std::fmt::Write as _;

use parallax_diagnosis::{
    verdict::IncidentState,
    view::{VantageState, View},
};
use serde::Deserialize;
use serde_json::Value;

use super::{ApiClient, Output, ServerArgs, fetch_state, output_format::TextTable};
use crate::{
    commands::{color, print},
    exit::Failure,
};

/// Show the current state of the mesh.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 all is well, 1 a target fails or never worked, an incident is open or a finding is critical, 2 usage or not allowed, 3 unknown (no aggregator, it is catching up after a start, its diagnosis does not advance, a vantage or target has no fresh evidence, or a target that appeared within the last minute does not work everywhere yet)."
)]
pub(crate) struct Args {
    /// Output format: json, yaml or wide.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    let (state, view) = fetch_state(&client)?;
    let summary = StatusSummary::from_state(&state)?;
    if !Output::print_document(args.output, &state)? {
        print(&render(
            &view,
            (&state, &summary),
            args.output == Some(Output::Wide),
        ))?;
    }
    match &*summary.status {
        "ok" => Ok(()),
        "failing" => Err(Failure::Negative),
        _ => {
            let complete = view
                .vantages
                .iter()
                .all(|vantage| vantage.state == VantageState::Reporting);
            let advice = if complete {
                "Try again in a minute"
            } else {
                "See the logs of the aggregator and of the missing probers"
            };
            Err(Failure::Indeterminate(format!(
                "{}: {} {advice}",
                summary.text, summary.detail
            )))
        }
    }
}

/// The aggregator's summary of its state.
#[derive(Debug, Deserialize)]
struct StatusSummary {
    /// `ok`, `failing` or `unknown`.
    status: String,
    text: String,
    detail: String,
}

impl StatusSummary {
    fn from_state(state: &Value) -> Result<Self, Failure> {
        Self::deserialize(&state["summary"]).map_err(|error| {
            Failure::Indeterminate(format!(
                "cannot read the summary in the aggregator's state: {error}; use the parallax version of the aggregator"
            ))
        })
    }
}

fn render(view: &View, (state, summary): (&Value, &StatusSummary), wide: bool) -> String {
    let style = color();
    let mut out = parallax_terminal::summary(view, style);
    out.push('\n');
    let (symbol, colour) = match &*summary.status {
        "ok" => ("✓", "32"),
        "failing" => ("✗", "1;31"),
        _ => ("?", "33"),
    };
    // Writing into a string cannot fail.
    let _ = writeln!(
        out,
        "{} {}: {}",
        style.paint(colour, symbol),
        summary.text,
        summary.detail
    );
    if let Some(error) = state["topology_error"].as_str() {
        let _ = writeln!(
            out,
            "{} cannot read the topology: {error}",
            style.paint("33", "!")
        );
    }
    if let Some(reason) = state["store"]["reason"].as_str() {
        let _ = writeln!(
            out,
            "{} the store is not working: {reason}",
            style.paint("33", "!")
        );
    }
    for incident in view
        .incidents
        .iter()
        .filter(|i| !matches!(i.state, IncidentState::Closed { .. }))
    {
        let _ = writeln!(
            out,
            "{} {}   {}",
            style.paint("1;31", "✗"),
            incident.id,
            incident.verdict.headline()
        );
    }
    for open in &view.investigations {
        let _ = writeln!(
            out,
            "{} {}: {}",
            style.paint("33", "~"),
            open.subject,
            open.sentence
        );
    }
    let quiet: Vec<_> = view
        .vantages
        .iter()
        .filter(|v| v.state != VantageState::Reporting)
        .collect();
    if wide || !quiet.is_empty() {
        let mut table = TextTable::new(&["VANTAGE", "STATE", "LAST SEEN"]);
        let rows = view
            .vantages
            .iter()
            .filter(|v| wide || v.state != VantageState::Reporting);
        for vantage in rows {
            let (word, colour) = match vantage.state {
                VantageState::Reporting => ("reporting", "32"),
                VantageState::Waiting => ("waiting", "90"),
                VantageState::Silent => ("silent", "33"),
            };
            let seen = vantage
                .last_seen
                .map_or("never".to_owned(), |at| format!("{} ago", view.at - at));
            table.row([
                (vantage.vantage.to_string().as_str(), None),
                (word, Some(style.paint(colour, word))),
                (seen.as_str(), None),
            ]);
        }
        out.push('\n');
        out.push_str(&table.render());
    }
    out
}
