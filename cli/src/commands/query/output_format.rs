//! Tables for people, documents for machines.

use clap::ValueEnum;
use serde::Serialize;

use crate::{commands::print, exit::Failure};

/// How an answer is printed.
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
    /// Prints the document, where one is asked for; whether it was.
    pub(crate) fn document(output: Option<Self>, value: &impl Serialize) -> Result<bool, Failure> {
        match output {
            Some(Self::Json) => {
                let text = serde_json::to_string_pretty(value).map_err(Failure::could_not)?;
                print(&format!("{text}\n"))?;
                Ok(true)
            }
            Some(Self::Yaml) => {
                // YAML 1.1 readers take bare `on` or `0o7` for something else than text.
                let options = serde_saphyr::ser_options! { yaml_12: false };
                let text =
                    serde_saphyr::to_string_with_options(value, options).map_err(Failure::could_not)?;
                print(text.trim_start())?;
                Ok(true)
            }
            Some(Self::Wide) | None => Ok(false),
        }
    }
}

/// A table as kubectl prints them: capitals above, three spaces between.
#[derive(Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<Cell>>,
}

/// What is seen, and with which colours.
#[derive(Debug)]
struct Cell {
    width: usize,
    text: String,
}

impl Cell {
    fn plain(text: &str) -> Self {
        let text: String = text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
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

    /// A row; `painted` is the colour of its cells in order, none where absent.
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

    pub(crate) fn text(&self) -> String {
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
            table.text(),
            "NAME          STATE\na             \u{1b}[32mok\u{1b}[0m\nlonger name   failing\n"
        );
    }
}
