//! The overview of the mesh: a summary line, the matrix of targets and vantages, and pending follow-up
//! probes.

use std::fmt::Write as _;

use parallax_diagnosis::{
    verdict::IncidentState,
    view::{CellState, MatrixRow, VantageState, View},
};
use parallax_model::Vantage;

use crate::{color::ColorMode, sections::plural};

/// Maximum number of vantages with a column each; with more, each row shows counts.
const MAX_COLUMNS: usize = 24;
/// Maximum number of vantages named in a row of counts.
const MAX_NAMES: usize = 4;

/// Formats a one-line summary of the current state.
#[must_use]
pub fn summary(view: &View, style: ColorMode) -> String {
    let reporting = view
        .vantages
        .iter()
        .filter(|v| v.state == VantageState::Reporting)
        .count();
    let count = |state| {
        view.matrix
            .iter()
            .flat_map(|row| &row.cells)
            .filter(|c| c.state == state)
            .count()
    };
    let open = view
        .incidents
        .iter()
        .filter(|i| !matches!(i.state, IncidentState::Closed { .. }))
        .count();
    let mut line = format!("{reporting} of {} vantages report", view.vantages.len());
    for (state, word) in [
        (CellState::Ok, "ok"),
        (CellState::Failing, "failing"),
        (CellState::Flaky, "flaky"),
        (CellState::Unknown, "unknown"),
    ] {
        let n = count(state);
        if n > 0 {
            let _ = write!(line, "  {} {n} {word}", style.state_symbol(state));
        }
    }
    for (n, word) in [(view.findings.len(), "finding"), (view.hazards.len(), "hazard")] {
        if n > 0 {
            let _ = write!(
                line,
                "  {}",
                style.paint("33", &format!("{n} {word}{}", plural(n)))
            );
        }
    }
    if open > 0 {
        let _ = write!(
            line,
            "  {}",
            style.paint("1;31", &format!("{open} open incident{}", plural(open)))
        );
    } else if !view.investigations.is_empty() {
        let _ = write!(line, "  {}", style.paint("33", "failing, cause not yet known"));
    }
    line
}

/// Formats the matrix with one line per target, failing ones first, and at most `most` lines.
#[must_use]
pub fn matrix(view: &View, style: ColorMode, max_rows: usize) -> String {
    let mut rows: Vec<&MatrixRow> = view.matrix.iter().collect();
    let worst = |row: &MatrixRow| {
        row.cells
            .iter()
            .map(|c| c.state)
            .max()
            .unwrap_or(CellState::Unknown)
    };
    rows.sort_by_key(|row| (std::cmp::Reverse(worst(row)), row.target.clone()));
    let width = rows
        .iter()
        .take(max_rows)
        .map(|r| r.target.as_str().chars().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    if view.vantages.len() > MAX_COLUMNS {
        for row in rows.iter().take(max_rows) {
            let _ = writeln!(
                out,
                "{:width$}{}",
                row.target.as_str(),
                count_row(row, view, style)
            );
        }
    } else {
        let _ = write!(out, "{:width$}", "");
        for vantage in &view.vantages {
            let _ = write!(out, "  {}", short_name(&vantage.vantage));
        }
        out.push('\n');
        for row in rows.iter().take(max_rows) {
            let _ = write!(out, "{:width$}", row.target.as_str());
            let mut cells = row.cells.iter().peekable();
            for (column, vantage) in view.vantages.iter().enumerate() {
                let cell = cells.next_if(|cell| cell.vantage == column);
                // The target is not probed from this vantage.
                let sign = cell.map_or_else(|| " ".to_owned(), |cell| style.state_symbol(cell.state));
                let width = short_name(&vantage.vantage).chars().count();
                let _ = write!(out, "  {sign}{}", " ".repeat(width.saturating_sub(1)));
            }
            out.push('\n');
        }
    }
    if rows.len() > max_rows {
        let _ = writeln!(out, "… and {} more targets", rows.len() - max_rows);
    }
    out
}

/// Formats a row of counts: how many vantages are in each state, and the names of the first failing ones.
fn count_row(row: &MatrixRow, view: &View, style: ColorMode) -> String {
    let mut out = String::new();
    for state in [
        CellState::Failing,
        CellState::Flaky,
        CellState::Ok,
        CellState::Unknown,
    ] {
        let cells: Vec<_> = row.cells.iter().filter(|cell| cell.state == state).collect();
        if cells.is_empty() {
            continue;
        }
        let _ = write!(out, "  {} {}", style.state_symbol(state), cells.len());
        if matches!(state, CellState::Failing | CellState::Flaky) {
            let names = cells.iter().filter_map(|cell| view.vantages.get(cell.vantage));
            let names: Vec<String> = names.take(MAX_NAMES).map(|v| short_name(&v.vantage)).collect();
            let more = if cells.len() > MAX_NAMES { ", …" } else { "" };
            let _ = write!(out, " ({}{more})", names.join(", "));
        }
    }
    out
}

/// Formats pending follow-up probes by subject. They change from round to round, so they are not part of the
/// status itself.
#[must_use]
pub fn pending_probes(view: &View, style: ColorMode) -> String {
    let mut out = String::new();
    if !view.probe_requests.is_empty() {
        let _ = writeln!(out, "{}", style.paint("1", "pending follow-up probes"));
    }
    for ask in &view.probe_requests {
        let _ = writeln!(out, "  ? {}: {}", ask.subject, ask.purpose());
    }
    out
}

fn short_name(vantage: &Vantage) -> String {
    let text = vantage.to_string();
    text.strip_suffix("/pod").map_or(text.clone(), ToOwned::to_owned)
}
