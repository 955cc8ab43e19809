//! `parallax incidents`: lists open and closed incidents.

use serde_json::Value;

use super::{ApiClient, Output, ServerArgs, block_on, output_format::TextTable};
use crate::{
    commands::{color, print},
    exit::Failure,
};

/// List incidents, one per line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Include closed incidents.
    #[arg(short = 'A', long)]
    all: bool,
    /// Maximum number of closed incidents.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// Output format: json, yaml or wide.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    let limit = args.limit.to_string();
    let answer: Value = block_on(client.get(&["v1", "incidents"], &[("limit", &limit)]))?;
    let incidents: Vec<&Value> = answer["incidents"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|incident| args.all || incident["state"] != "closed")
        .collect();
    if Output::print_document(args.output, &incidents)? {
        return Ok(());
    }
    if incidents.is_empty() {
        return print(if args.all {
            "No incidents are known.\n"
        } else {
            "No incident is open; --all includes closed ones.\n"
        });
    }
    let style = color();
    let wide = args.output == Some(Output::Wide);
    let mut columns = vec!["ID", "STATE", "SINCE", "PROBABILITY", "SUBJECT"];
    if wide {
        columns.extend(["PATTERN", "TARGETS"]);
    }
    columns.extend(["QUIET", "SUMMARY"]);
    let mut table = TextTable::new(&columns);
    let now = answer["at"].as_i64().unwrap_or_default();
    for incident in incidents {
        let state = incident["state"].as_str().unwrap_or_default();
        let colour = match state {
            "open" => "1;31",
            "recovering" => "33",
            _ => "32",
        };
        let since = now.saturating_sub(incident["since"].as_i64().unwrap_or(now));
        let since = format!(
            "{} ago",
            parallax_model::Micros(u64::try_from(since).unwrap_or(0))
        );
        let probability = incident["probability"].to_string();
        let subject = subject_name(&incident["subject"]);
        let targets = incident["targets"].as_array().map_or(0, Vec::len).to_string();
        let region = incident["region"]["region"].as_str().unwrap_or_default();
        let mut cells = vec![
            (incident["id"].as_str().unwrap_or_default(), None),
            (state, Some(style.paint(colour, state))),
            (since.as_str(), None),
            (probability.as_str(), None),
            (subject.as_str(), None),
        ];
        if wide {
            cells.extend([(region, None), (targets.as_str(), None)]);
        }
        cells.push((incident["suppressed_because"].as_str().unwrap_or("-"), None));
        cells.push((incident["sentence"].as_str().unwrap_or_default(), None));
        table.row(cells);
    }
    print(&table.render())?;
    if let Some(reason) = answer["incomplete_because"].as_str()
        && args.all
    {
        print(&format!("\nIncomplete, from memory only: {reason}\n"))?;
    }
    Ok(())
}

/// Returns the display name of a subject, also of one that another version wrote.
fn subject_name(subject: &Value) -> String {
    serde_json::from_value::<parallax_diagnosis::verdict::Subject>(subject.clone()).map_or_else(
        |_| subject["name"].as_str().unwrap_or_default().to_owned(),
        |subject| subject.to_string(),
    )
}
