//! The current state in one line that fits a terminal.

use crate::{api_client::AggregatorState, packets::sanitize};

/// Maximum line length in characters: redrawing in place works on one line only, and 8 columns precede it.
const MAX_LINE_CHARS: usize = 100;

/// Renders each vantage with its worst cells, and the ids of the named causes.
pub(super) fn line(state: &AggregatorState) -> String {
    let vantages = state.vantages.iter().enumerate().map(|(i, vantage)| {
        let name = vantage.vantage.strip_suffix("/pod").unwrap_or(&vantage.vantage);
        if vantage.state != "reporting" {
            return format!("{name} {}", vantage.state);
        }
        let cells: Vec<&str> = state
            .matrix
            .iter()
            .filter_map(|row| row.cells.get(i))
            .map(|cell| cell.state.as_str())
            .collect();
        let worst = ["failing", "flaky", "unknown"]
            .into_iter()
            .map(|word| (word, cells.iter().filter(|cell| **cell == word).count()))
            .find(|(_, count)| *count > 0);
        match worst {
            Some((word, count)) => format!("{name} {count}/{} {word}", cells.len()),
            None => format!("{name} ok"),
        }
    });
    let named: Vec<&str> = state
        .open()
        .map(|named| named.causes.first().map_or("unknown", |cause| cause.id.as_str()))
        .collect();
    let named = if named.is_empty() {
        "no cause named".to_owned()
    } else {
        format!("cause: {}", named.join(", "))
    };
    let line: Vec<String> = vantages.chain([named]).collect();
    let line = sanitize(&line.join(" · "));
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(vantages: usize) -> AggregatorState {
        let names: Vec<_> = (1..=vantages)
            .map(|n| serde_json::json!({"vantage": format!("n{n}/pod"), "state": if n == 2 { "silent" } else { "reporting" }}))
            .collect();
        let row = |third: &str| serde_json::json!({"cells": [{"state": "ok"}, {"state": "unknown"}, {"state": third}]});
        serde_json::from_value(serde_json::json!({
            "vantages": names,
            "matrix": [row("failing"), row("ok"), row("flaky")],
            "incidents": [{"state": "open", "region": {"region": "nolocal"}, "causes": [{"id": "F1"}]}],
        }))
        .unwrap()
    }

    #[test]
    fn every_vantage_shows_its_worst_cells() {
        assert_eq!(line(&state(3)), "n1 ok · n2 silent · n3 1/3 failing · cause: F1");
    }

    #[test]
    fn a_line_of_many_vantages_is_cut_so_that_it_can_be_redrawn() {
        let line = line(&state(16));
        assert_eq!(line.chars().count(), MAX_LINE_CHARS + 1);
        assert!(line.ends_with('…'));
    }
}
