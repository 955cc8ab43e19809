//! Output formats: tables, JSON and YAML.

use clap::ValueEnum;
use serde::Serialize;

use crate::{
    commands::{print, server_text::replace_control_characters},
    exit::Failure,
};

/// Output format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// One JSON document.
    Json,
    /// The same as YAML.
    Yaml,
    /// A table with more columns.
    Wide,
}

impl Output {
    /// Prints the document if JSON or YAML is selected, and reports whether it did.
    pub(crate) fn print_document(output: Option<Self>, value: &impl Serialize) -> Result<bool, Failure> {
        match output {
            Some(Self::Json) => {
                let text = serde_json::to_string_pretty(value).map_err(Failure::indeterminate)?;
                print(&format!("{text}\n"))?;
                Ok(true)
            }
            Some(Self::Yaml) => {
                // YAML 1.1 parsers read an unquoted `on` or `0o7` as something other than a string.
                let options = serde_saphyr::ser_options! { yaml_12: false };
                let text =
                    serde_saphyr::to_string_with_options(value, options).map_err(Failure::indeterminate)?;
                print(text.trim_start())?;
                Ok(true)
            }
            Some(Self::Wide) | None => Ok(false),
        }
    }
}

/// A table in the style of kubectl: capitalised header, columns three spaces apart.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<Cell>>,
}

/// Text of a cell with its visible width.
#[derive(Debug)]
struct Cell {
    width: usize,
    text: String,
}

impl Cell {
    fn plain(text: &str) -> Self {
        let text = replace_control_characters(text);
        Self {
            width: text.chars().count(),
            text,
        }
    }
}

impl TextTable {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self {
            rows: vec![columns.iter().map(|column| Cell::plain(column)).collect()],
        }
    }

    /// Adds a row. The second element of a cell is its coloured text, if any.
    pub(crate) fn row<'a>(&mut self, cells: impl IntoIterator<Item = (&'a str, Option<String>)>) {
        let row = cells
            .into_iter()
            .map(|(text, painted)| {
                let plain = Cell::plain(text);
                Cell {
                    text: painted.unwrap_or(plain.text),
                    width: plain.width,
                }
            })
            .collect();
        self.rows.push(row);
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns)
            .map(|i| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(i))
                    .map(|cell| cell.width)
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&cell.text);
                line.push_str(&" ".repeat(width - cell.width + 3));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other_whatever_their_colour() {
        let mut table = TextTable::new(&["NAME", "STATE"]);
        table.row([("a", None), ("ok", Some("\u{1b}[32mok\u{1b}[0m".to_owned()))]);
        table.row([("longer\u{7}name", None), ("failing", None)]);
        assert_eq!(
            table.render(),
            "NAME          STATE\na             \u{1b}[32mok\u{1b}[0m\nlonger name   failing\n"
        );
    }
}
