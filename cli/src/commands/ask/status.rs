//! `parallax status`: is all well?

use std::fmt::Write as _;

use parallax_diagnosis::{
    text,
    verdict::IncidentState,
    view::{VantageState, View},
};
use serde_json::Value;

use super::{Client, Output, Server, output::Table, state};
use crate::{
    commands::{print, style},
    exit::Failure,
};

/// What the mesh sees right now.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 all is well, 1 an incident is open, 2 usage or not allowed, 3 it could not be told (no aggregator, or no vantage reports)."
)]
pub(crate) struct Args {
    /// json, yaml or wide.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = Client::new(&args.server)?;
    let (state, view) = state(&client)?;
    if !Output::document(args.output, &state)? {
        print(&shown(&view, &state, args.output == Some(Output::Wide)))?;
    }
    let open = view
        .incidents
        .iter()
        .any(|i| !matches!(i.state, IncidentState::Closed { .. }));
    if open {
        return Err(Failure::No);
    }
    if !view.vantages.iter().any(|v| v.state == VantageState::Reporting) {
        return Err(Failure::CouldNot(
            "no vantage reports, so nothing is known; see the log of the probers".to_owned(),
        ));
    }
    Ok(())
}

fn shown(view: &View, state: &Value, wide: bool) -> String {
    let style = style();
    let mut out = text::summary(view, style);
    out.push('\n');
    // Writing into a string cannot fail.
    if let Some(error) = state["topology_error"].as_str() {
        let _ = writeln!(
            out,
            "{} the topology cannot be read: {error}",
            style.paint("33", "!")
        );
    }
    if let Some(reason) = state["store"]["reason"].as_str() {
        let _ = writeln!(
            out,
            "{} the store does not work: {reason}",
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
            incident.verdict.sentence
        );
    }
    for open in &view.investigating {
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
        let mut table = Table::new(&["VANTAGE", "STATE", "LAST SEEN"]);
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
        out.push_str(&table.text());
    }
    out
}
