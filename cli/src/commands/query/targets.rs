//! `parallax targets`: lists targets and whether they are reachable.

use parallax_diagnosis::view::{CellState, MatrixCell, MatrixRow};
use serde_json::Value;

use super::{ApiClient, Output, ServerArgs, fetch_state, output_format::TextTable};
use crate::{
    commands::{color, print},
    exit::Failure,
};

/// List all targets, failing ones first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only targets whose URL contains this text.
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
    let (state, view) = fetch_state(&client)?;
    let named: Vec<&str> = state["targets"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let wanted = |target: &str| args.filter.as_deref().is_none_or(|text| target.contains(text));
    let mut rows: Vec<&MatrixRow> = view
        .matrix
        .iter()
        .filter(|row| wanted(row.target.as_str()))
        .collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(worst_state(row)), row.target.clone()));
    if Output::print_document(args.output, &rows)? {
        return Ok(());
    }
    let style = color();
    let wide = args.output == Some(Output::Wide);
    let mut columns = vec!["TARGET", "STATE", "OK", "VANTAGES"];
    if wide {
        columns.extend(["FRONTS", "BASELINE", "NEWEST FAILURE"]);
    }
    let mut table = TextTable::new(&columns);
    for row in &rows {
        let (word, colour) = match worst_state(row) {
            _ if row.never_succeeded && row.pending => ("pending", "90"),
            _ if row.never_succeeded => ("never ok", "1;31"),
            CellState::Failing => ("failing", "1;31"),
            CellState::Flaky => ("flaky", "33"),
            CellState::Ok => ("ok", "32"),
            CellState::Unknown => ("unknown", "90"),
        };
        let ok = row
            .cells
            .iter()
            .filter(|cell| cell.state == CellState::Ok)
            .count()
            .to_string();
        let probes = row
            .cells
            .iter()
            .filter(|cell| cell.last_probe.is_some())
            .count()
            .to_string();
        let fronts: Vec<String> = row.fronts.iter().map(ToString::to_string).collect();
        let fronts = fronts.join(",");
        let failed = row
            .cells
            .iter()
            .filter(|cell| cell.last_failure.is_some())
            .max_by_key(|cell| cell.last_probe)
            .and_then(|cell| cell.last_failure.clone());
        let not_probed = || row.cells.iter().find_map(MatrixCell::unknown_reason);
        let failed = failed.or_else(not_probed).unwrap_or_default();
        let baseline = row.usual_answers();
        let mut cells = vec![
            (row.target.as_str(), None),
            (word, Some(style.paint(colour, word))),
            (ok.as_str(), None),
            (probes.as_str(), None),
        ];
        if wide {
            cells.extend([
                (fronts.as_str(), None),
                (baseline.as_str(), None),
                (failed.as_str(), None),
            ]);
        }
        table.row(cells);
    }
    // List targets without results too, so that they do not seem to be missing.
    for target in named.iter().filter(|target| wanted(target)) {
        if !view.matrix.iter().any(|row| row.target.as_str() == *target) {
            let mut cells = vec![(*target, None), ("unknown", None), ("0", None), ("0", None)];
            if wide {
                cells.extend([("", None), ("", None), ("", None)]);
            }
            table.row(cells);
        }
    }
    print(&table.render())
}

fn worst_state(row: &MatrixRow) -> CellState {
    row.cells
        .iter()
        .map(|cell| cell.state)
        .max()
        .unwrap_or(CellState::Unknown)
}
