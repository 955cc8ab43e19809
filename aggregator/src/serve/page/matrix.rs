//! Matrix of targets by vantage: failing rows first, the hosts of one front grouped. With more vantages than fit on a
//! page, the columns are placements, and a cell counts the vantages by state.

use std::collections::{BTreeMap, BTreeSet};

use parallax_diagnosis::view::{CellState, MatrixCell, MatrixRow, VantageState, VantageView, View};
use parallax_model::{EventTime, Front, Placement, Vantage};

use super::wording;

/// Number of hosts on one front from which they form a group.
const MIN_GROUP_SIZE: usize = 4;

/// Maximum number of vantages that get a column each.
const MAX_COLUMNS: usize = 64;
/// Maximum number of groups shown, worst first.
const MAX_GROUPS: usize = 300;
/// Maximum number of vantages named in the title of a cell that sums up several.
const MAX_NAMED_VANTAGES: usize = 8;

/// CSS class of a cell whose vantage does not probe the target.
const NOT_PROBED_CLASS: &str = "apart";

/// The whole table.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) columns: Vec<MatrixColumn>,
    pub(super) groups: Vec<RowGroup>,
    /// Whether some targets are not probed from every vantage.
    pub(super) has_unprobed_cells: bool,
    /// Note about omitted groups; empty if all are shown.
    pub(super) omitted_note: String,
    /// Whether column names are written vertically, for many columns or long names.
    pub(super) vertical_names: bool,
}

#[derive(Debug)]
pub(super) struct MatrixColumn {
    pub(super) name: String,
    pub(super) network: String,
    pub(super) class: &'static str,
    pub(super) title: String,
}

/// One row, or several rows under one that sums them up.
#[derive(Debug)]
pub(super) struct RowGroup {
    pub(super) key: String,
    pub(super) head: Row,
    /// Empty for a single row.
    pub(super) members: Vec<Row>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) label: String,
    pub(super) note: String,
    pub(super) never_ok: bool,
    pub(super) pending: bool,
    /// Baseline response as text; empty until known.
    pub(super) baseline: String,
    pub(super) cells: Vec<Cell>,
    rank: CellRank,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) class: &'static str,
    pub(super) symbol: String,
    pub(super) state_word: &'static str,
    pub(super) title: String,
}

/// Worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CellRank {
    Failing,
    Flaky,
    Unknown,
    Ok,
}

impl Matrix {
    pub(super) fn new(view: &View) -> Self {
        let layout = MatrixLayout::choose(view);
        let columns = layout.columns(view);
        let mut by_front: BTreeMap<Vec<Front>, Vec<&MatrixRow>> = BTreeMap::new();
        for row in &view.matrix {
            by_front.entry(row.fronts.clone()).or_default().push(row);
        }
        let mut groups = Vec::new();
        for (fronts, rows) in by_front {
            if fronts.is_empty() || rows.len() < MIN_GROUP_SIZE {
                groups.extend(rows.into_iter().map(|row| RowGroup {
                    key: format!("row {}", row.target),
                    head: Row::single(row, view, &layout),
                    members: Vec::new(),
                }));
            } else {
                groups.push(RowGroup::of(&fronts, &rows, view, &layout));
            }
        }
        groups.sort_by(|a, b| (a.head.rank, &a.head.label).cmp(&(b.head.rank, &b.head.label)));
        let left_out = groups.len().saturating_sub(MAX_GROUPS);
        groups.truncate(MAX_GROUPS);
        let shown = groups.iter().flat_map(|group| &group.head.cells);
        Self {
            has_unprobed_cells: shown.into_iter().any(|cell| cell.class == NOT_PROBED_CLASS),
            vertical_names: columns.len() > 12
                || columns.iter().any(|column| column.name.chars().count() > 10),
            columns,
            omitted_note: if left_out > 0 {
                format!(
                    "Not shown: {}, none of them worse than these.",
                    wording::format_count(left_out, "line")
                )
            } else {
                String::new()
            },
            groups,
        }
    }
}

/// Meaning of the columns.
#[derive(Debug)]
enum MatrixLayout {
    /// One column per vantage.
    Vantages,
    /// One column per placement that occurs.
    Placements(Vec<Placement>),
}

impl MatrixLayout {
    fn choose(view: &View) -> Self {
        if view.vantages.len() <= MAX_COLUMNS {
            return Self::Vantages;
        }
        let cells = view.matrix.iter().flat_map(|row| &row.cells);
        let placements: BTreeSet<Placement> = cells.map(|cell| cell.placement).collect();
        Self::Placements(placements.into_iter().collect())
    }

    fn columns(&self, view: &View) -> Vec<MatrixColumn> {
        match self {
            Self::Vantages => view
                .vantages
                .iter()
                .map(|v| MatrixColumn::of(v, view.at))
                .collect(),
            Self::Placements(placements) => placements
                .iter()
                .map(|placement| MatrixColumn {
                    name: placement.label().to_owned(),
                    network: "placement".to_owned(),
                    class: "reporting",
                    title: format!("vantages with placement {placement}"),
                })
                .collect(),
        }
    }

    /// Returns the cells of the rows, in the order of the columns.
    fn cells(&self, rows: &[&MatrixRow], view: &View) -> Vec<Cell> {
        match self {
            Self::Vantages => {
                let mut columns: Vec<Vec<&MatrixCell>> = vec![Vec::new(); view.vantages.len()];
                for cell in rows.iter().flat_map(|row| &row.cells) {
                    if let Some(column) = columns.get_mut(cell.vantage) {
                        column.push(cell);
                    }
                }
                let columns = columns.iter().zip(&view.vantages);
                columns
                    .map(|(cells, vantage)| match (cells.as_slice(), rows) {
                        ([], _) => Cell::not_probed(&vantage.vantage.to_string()),
                        ([cell], [_]) => Cell::of(cell, vantage, view.at),
                        (cells, _) => Cell::aggregate(cells, &vantage.vantage.to_string()),
                    })
                    .collect()
            }
            Self::Placements(placements) => placements
                .iter()
                .map(|placement| {
                    let cells = rows.iter().flat_map(|row| &row.cells);
                    let cells: Vec<&MatrixCell> = cells.filter(|cell| cell.placement == *placement).collect();
                    Cell::for_placement(&cells, *placement, view)
                })
                .collect(),
        }
    }
}

impl MatrixColumn {
    fn of(vantage: &VantageView, now: EventTime) -> Self {
        let (name, network) = match &vantage.vantage {
            Vantage::Cluster { node, network } => (node.to_string(), network.to_string()),
            Vantage::Outside { reach, name } => (name.to_string(), reach.to_string()),
        };
        let state = silence_reason(vantage, now);
        Self {
            title: format!("{}: {}", vantage.vantage, state.as_deref().unwrap_or("reporting")),
            class: match vantage.state {
                VantageState::Reporting => "reporting",
                VantageState::Silent => "silent",
                VantageState::Waiting => "waiting",
            },
            name,
            network,
        }
    }
}

/// Returns why a vantage does not report; `None` if it reports.
pub(super) fn silence_reason(vantage: &VantageView, now: EventTime) -> Option<String> {
    match (vantage.state, vantage.last_seen) {
        (VantageState::Reporting, _) => None,
        (VantageState::Silent, Some(last)) => Some(format!(
            "silent since {} ({}){}",
            wording::format_time(last, now),
            (now - last).humanize(),
            vantage
                .explained_by
                .as_ref()
                .map_or_else(String::new, |incident| format!(
                    ", a consequence of incident #{incident}"
                )),
        )),
        (VantageState::Silent, None) => Some("silent".to_owned()),
        (VantageState::Waiting, _) => Some("has not reported yet".to_owned()),
    }
}

impl RowGroup {
    fn of(fronts: &[Front], rows: &[&MatrixRow], view: &View, layout: &MatrixLayout) -> Self {
        let mut members: Vec<_> = rows.iter().map(|row| Row::single(row, view, layout)).collect();
        members.sort_by(|a, b| (a.rank, &a.label).cmp(&(b.rank, &b.label)));
        let fronts: Vec<_> = fronts.iter().map(ToString::to_string).collect();
        let label = fronts.join(", ");
        Self {
            key: format!("group {label}"),
            head: Row {
                note: wording::format_count(rows.len(), "host"),
                label,
                never_ok: rows.iter().all(|row| row.never_succeeded),
                pending: rows.iter().all(|row| row.pending),
                baseline: String::new(),
                cells: layout.cells(rows, view),
                rank: members
                    .iter()
                    .map(|row| row.rank)
                    .min()
                    .unwrap_or(CellRank::Unknown),
            },
            members,
        }
    }
}

impl Row {
    fn single(row: &MatrixRow, view: &View, layout: &MatrixLayout) -> Self {
        let fronts: Vec<_> = row.fronts.iter().map(ToString::to_string).collect();
        Self {
            label: row.target.to_string(),
            note: fronts.join(", "),
            never_ok: row.never_succeeded,
            pending: row.pending,
            baseline: row.usual_answers(),
            cells: layout.cells(&[row], view),
            rank: CellRank::of(row),
        }
    }
}

impl CellRank {
    /// The worst state at any vantage. Unknown ranks only if no vantage has fresh evidence.
    fn of(row: &MatrixRow) -> Self {
        let sees = |state| row.cells.iter().any(|cell| cell.state == state);
        if sees(CellState::Failing) {
            Self::Failing
        } else if sees(CellState::Flaky) {
            Self::Flaky
        } else if sees(CellState::Ok) {
            Self::Ok
        } else {
            Self::Unknown
        }
    }
}

/// CSS class, symbol and word of a state, so that colour is never the only cue.
const fn state_style(state: CellState) -> (&'static str, &'static str, &'static str) {
    match state {
        CellState::Unknown => ("unknown", "?", "unknown"),
        CellState::Ok => ("ok", "✓", "ok"),
        CellState::Flaky => ("flaky", "≈", "flaky"),
        CellState::Failing => ("failing", "✕", "failing"),
    }
}

impl Cell {
    fn of(cell: &MatrixCell, vantage: &VantageView, now: EventTime) -> Self {
        let (class, symbol, word) = state_style(cell.state);
        let mut title = format!("{}: {word}", vantage.vantage);
        if cell.state == CellState::Unknown {
            let reason = silence_reason(vantage, now).or_else(|| cell.unknown_reason());
            let reason = reason.unwrap_or_else(|| "no fresh evidence".to_owned());
            title = format!("{title}; {reason}");
        } else {
            title = format!("{title}; {} of {} probes failed", cell.failures, cell.probes);
            if let Some(failure) = &cell.last_failure {
                title = format!("{title} ({failure})");
            }
            title = format!("{title}; placement {}", cell.placement);
        }
        if let Some(last) = cell.last_probe {
            title = format!("{title}; last probe {}", wording::format_age(last, now));
        }
        Self {
            class,
            symbol: symbol.to_owned(),
            state_word: word,
            title,
        }
    }

    /// A cell without probes: a large mesh probes a target from some of its vantages only.
    fn not_probed(label: &str) -> Self {
        Self {
            class: NOT_PROBED_CLASS,
            symbol: "–".to_owned(),
            state_word: "not probed from here",
            title: format!("{label}: not probed from here"),
        }
    }

    /// Sums up the vantages of one placement and names those that are not ok.
    fn for_placement(cells: &[&MatrixCell], placement: Placement, view: &View) -> Self {
        if cells.is_empty() {
            return Self::not_probed(placement.label());
        }
        let mut cell = Self::aggregate(cells, placement.label());
        let bad = |cell: &&&MatrixCell| matches!(cell.state, CellState::Failing | CellState::Flaky);
        let vantages: BTreeSet<usize> = cells.iter().filter(bad).map(|cell| cell.vantage).collect();
        if !vantages.is_empty() {
            let names = vantages.iter().take(MAX_NAMED_VANTAGES);
            let names: Vec<String> = names
                .filter_map(|vantage| Some(view.vantages.get(*vantage)?.vantage.to_string()))
                .collect();
            let more = if vantages.len() > MAX_NAMED_VANTAGES {
                ", …"
            } else {
                ""
            };
            cell.title = format!("{}; not ok from {}{more}", cell.title, names.join(", "));
        }
        cell
    }

    fn aggregate(cells: &[&MatrixCell], title: &str) -> Self {
        let count = |state| cells.iter().filter(|cell| cell.state == state).count();
        let states = [
            CellState::Failing,
            CellState::Flaky,
            CellState::Ok,
            CellState::Unknown,
        ];
        let counts: Vec<_> = states
            .into_iter()
            .filter(|state| count(*state) > 0)
            .map(|state| format!("{} {}", count(state), state_style(state).2))
            .collect();
        let state = if count(CellState::Failing) + count(CellState::Flaky) == 0 {
            if count(CellState::Ok) > 0 {
                CellState::Ok
            } else {
                CellState::Unknown
            }
        } else if count(CellState::Failing) + count(CellState::Unknown) == cells.len() {
            CellState::Failing
        } else {
            CellState::Flaky
        };
        let (class, symbol, words) = state_style(state);
        let bad = count(CellState::Failing) + count(CellState::Flaky);
        Self {
            class,
            // Where only some fail, the count tells more than a symbol.
            symbol: if state == CellState::Flaky {
                bad.to_string()
            } else {
                symbol.to_owned()
            },
            state_word: words,
            title: format!("{title}: {}", counts.join(", ")),
        }
    }
}
