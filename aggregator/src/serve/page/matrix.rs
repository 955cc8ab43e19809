//! Vantages × targets: failing rows first, the many hosts of one front as one group.

use std::collections::BTreeMap;

use parallax_diagnosis::view::{CellState, MatrixCell, MatrixRow, VantageState, VantageView, View};
use parallax_model::{EventTime, Front, Vantage};

use super::words;

/// Hosts of one front from which on they are one group.
const GROUP_FROM: usize = 4;

/// The whole table.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) columns: Vec<Column>,
    pub(super) groups: Vec<Group>,
    /// Names stand upright where there are many.
    pub(super) upright: bool,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) network: String,
    pub(super) class: &'static str,
    pub(super) title: String,
}

/// One row, or several behind one that sums them up.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) key: String,
    pub(super) head: Row,
    /// Empty for a row that stands alone.
    pub(super) members: Vec<Row>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) label: String,
    pub(super) note: String,
    pub(super) never_ok: bool,
    pub(super) cells: Vec<Cell>,
    rank: Rank,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) class: &'static str,
    pub(super) symbol: String,
    pub(super) words: &'static str,
    pub(super) title: String,
}

/// Worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Failing,
    Flaky,
    Unknown,
    Ok,
}

impl Matrix {
    pub(super) fn of(view: &View) -> Self {
        let now = view.at;
        let columns: Vec<_> = view
            .vantages
            .iter()
            .map(|vantage| Column::of(vantage, now))
            .collect();
        let mut by_front: BTreeMap<Vec<Front>, Vec<&MatrixRow>> = BTreeMap::new();
        for row in &view.matrix {
            by_front.entry(row.fronts.clone()).or_default().push(row);
        }
        let mut groups = Vec::new();
        for (fronts, rows) in by_front {
            if fronts.is_empty() || rows.len() < GROUP_FROM {
                groups.extend(rows.into_iter().map(|row| Group {
                    key: format!("row {}", row.target),
                    head: Row::single(row, view),
                    members: Vec::new(),
                }));
            } else {
                groups.push(Group::of(&fronts, &rows, view));
            }
        }
        groups.sort_by(|a, b| (a.head.rank, &a.head.label).cmp(&(b.head.rank, &b.head.label)));
        Self {
            upright: columns.len() > 12 || columns.iter().any(|column| column.name.chars().count() > 9),
            columns,
            groups,
        }
    }
}

impl Column {
    fn of(vantage: &VantageView, now: EventTime) -> Self {
        let (name, network) = match &vantage.vantage {
            Vantage::Cluster { node, network } => (node.to_string(), network.to_string()),
            Vantage::Outside { reach, name } => (name.to_string(), reach.to_string()),
        };
        let state = silence(vantage, now);
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

/// Why a vantage says nothing; nothing where it does.
pub(super) fn silence(vantage: &VantageView, now: EventTime) -> Option<String> {
    match (vantage.state, vantage.last_seen) {
        (VantageState::Reporting, _) => None,
        (VantageState::Silent, Some(last)) => Some(format!(
            "silent since {} ({})",
            words::clock(last, now),
            words::span(now - last)
        )),
        (VantageState::Silent, None) => Some("silent".to_owned()),
        (VantageState::Waiting, _) => Some("has not reported yet".to_owned()),
    }
}

impl Group {
    fn of(fronts: &[Front], rows: &[&MatrixRow], view: &View) -> Self {
        let mut members: Vec<_> = rows.iter().map(|row| Row::single(row, view)).collect();
        members.sort_by(|a, b| (a.rank, &a.label).cmp(&(b.rank, &b.label)));
        let fronts: Vec<_> = fronts.iter().map(ToString::to_string).collect();
        let label = fronts.join(", ");
        let columns = view.vantages.len();
        let cells = (0..columns)
            .map(|i| {
                let of_column: Vec<_> = rows.iter().filter_map(|row| row.cells.get(i)).collect();
                Cell::sum(&of_column, &view.vantages[i])
            })
            .collect();
        Self {
            key: format!("group {label}"),
            head: Row {
                note: words::count(rows.len(), "host"),
                label,
                never_ok: rows.iter().all(|row| row.never_ok),
                cells,
                rank: members.iter().map(|row| row.rank).min().unwrap_or(Rank::Unknown),
            },
            members,
        }
    }
}

impl Row {
    fn single(row: &MatrixRow, view: &View) -> Self {
        let fronts: Vec<_> = row.fronts.iter().map(ToString::to_string).collect();
        Self {
            label: row.target.to_string(),
            note: fronts.join(", "),
            never_ok: row.never_ok,
            cells: row
                .cells
                .iter()
                .zip(&view.vantages)
                .map(|(cell, vantage)| Cell::of(cell, vantage, view.at))
                .collect(),
            rank: Rank::of(row),
        }
    }
}

impl Rank {
    /// The worst that any vantage sees; one that knows decides over those that do not.
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

/// Class, symbol and word of a state: never the colour alone.
const fn shown(state: CellState) -> (&'static str, &'static str, &'static str) {
    match state {
        CellState::Unknown => ("unknown", "?", "unknown"),
        CellState::Ok => ("ok", "✓", "ok"),
        CellState::Flaky => ("flaky", "≈", "flaky"),
        CellState::Failing => ("failing", "✕", "failing"),
    }
}

impl Cell {
    fn of(cell: &MatrixCell, vantage: &VantageView, now: EventTime) -> Self {
        let (class, symbol, word) = shown(cell.state);
        let mut title = format!("{}: {word}", vantage.vantage);
        if cell.state == CellState::Unknown {
            let why = silence(vantage, now).unwrap_or_else(|| "nothing fresh is known".to_owned());
            title = format!("{title}; {why}");
        } else {
            title = format!("{title}; {} of {} probes failed", cell.failures, cell.probes);
            if let Some(failure) = &cell.failure {
                title = format!("{title} ({failure})");
            }
            title = format!("{title}; placement {}", cell.placement);
        }
        if let Some(last) = cell.last {
            title = format!("{title}; newest probe {}", words::ago(last, now));
        }
        Self {
            class,
            symbol: symbol.to_owned(),
            words: word,
            title,
        }
    }

    fn sum(cells: &[&MatrixCell], vantage: &VantageView) -> Self {
        let count = |state| cells.iter().filter(|cell| cell.state == state).count();
        let states = [
            CellState::Failing,
            CellState::Flaky,
            CellState::Ok,
            CellState::Unknown,
        ];
        let told: Vec<_> = states
            .into_iter()
            .filter(|state| count(*state) > 0)
            .map(|state| format!("{} {}", count(state), shown(state).2))
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
        let (class, symbol, words) = shown(state);
        let bad = count(CellState::Failing) + count(CellState::Flaky);
        Self {
            class,
            // Some hosts fail and some do not: the number says more than a sign.
            symbol: if state == CellState::Flaky {
                bad.to_string()
            } else {
                symbol.to_owned()
            },
            words,
            title: format!("{}: {}", vantage.vantage, told.join(", ")),
        }
    }
}
