//! The dashboards. Each is data: panels in order, each with its queries and what those show.

mod itself;
mod mesh;
mod model;
mod overview;
mod renewals;
mod target;

use serde_json::Value;

use crate::SerializationError;

/// A dashboard.
#[derive(Debug, Clone)]
pub struct Dashboard {
    /// Part of its address in Grafana, `/d/UID`. The page of the aggregator links there.
    pub uid: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// What one looks at it for.
    pub description: &'static str,
    /// What one can choose besides the data source.
    pub variables: Vec<Variable>,
    /// In the order in which they fill lines of [`COLUMNS`].
    pub panels: Vec<Panel>,
}

/// Width of a dashboard.
pub const COLUMNS: u8 = 24;

/// Something to choose.
#[derive(Debug, Clone)]
pub enum Variable {
    /// A label of a metric, one value at a time.
    Label {
        /// Its name, and the label's.
        name: &'static str,
        /// The metric whose values of the label there are to choose from.
        metric: &'static str,
    },
    /// Where the page of the aggregator is, for links back to it.
    Page,
}

/// A part of a dashboard.
#[derive(Debug, Clone)]
pub struct Panel {
    /// What it shows.
    pub title: &'static str,
    /// How to read it.
    pub description: &'static str,
    /// How it shows it.
    pub look: PanelStyle,
    /// Columns and lines.
    pub size: (u8, u8),
    /// What the numbers are.
    pub unit: Unit,
    /// What is asked.
    pub queries: Vec<Query>,
}

/// How a panel shows what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelStyle {
    /// One number, coloured from a value on that is worth a look (`true`), or never.
    Number(ThresholdColor),
    /// Lines over time.
    Lines,
    /// Areas over time, one above the other.
    Areas,
    /// One row a series, as it is now. A column `incident` links to the page, a column `target` to its dashboard.
    Table,
}

/// When a number is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdColor {
    /// It is only told.
    Never,
    /// As soon as there is one.
    AboveZero,
    /// Where it is not whole.
    BelowOne,
    /// From a minute on.
    FromAMinute,
}

/// What numbers are, in Grafana's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// 0 to 1.
    Share,
    /// Time.
    Seconds,
    /// Things a second.
    PerSecond,
    /// Size.
    Bytes,
}

/// A question to Prometheus.
#[derive(Debug, Clone)]
pub struct Query {
    /// `PromQL`; `$__rate_interval` and the dashboard's variables are Grafana's to fill in.
    pub expression: String,
    /// What a line is called.
    pub legend: &'static str,
    /// What the test of all expressions holds it to.
    pub shows: ExpectedResult,
}

/// What a query must answer with, before and after the fault of the recording that tests play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedResult {
    /// Something, and something else afterwards.
    Difference,
    /// Something, both times.
    Level,
    /// Only what the watch of a cluster tells, which there is none of in the recording.
    Cluster,
    /// What the recording has none of; the alert of the same metric has its own test.
    Elsewhere,
}

/// All dashboards.
#[must_use]
pub fn dashboards() -> Vec<Dashboard> {
    vec![
        overview::dashboard(),
        target::dashboard(),
        mesh::dashboard(),
        renewals::dashboard(),
        itself::dashboard(),
    ]
}

impl Dashboard {
    /// Where it is committed.
    #[must_use]
    pub fn path(&self) -> String {
        format!("dashboards/{}.json", self.uid)
    }

    /// As Grafana imports it.
    pub fn json(&self) -> Result<String, SerializationError> {
        serde_json::to_string_pretty(&self.model())
            .map(|text| text + "\n")
            .map_err(|error| SerializationError(error.to_string()))
    }

    /// The same, to look into.
    #[must_use]
    pub fn model(&self) -> Value {
        model::dashboard(self)
    }
}

fn number(
    title: &'static str,
    (unit, colour): (Unit, ThresholdColor),
    shows: ExpectedResult,
    expression: String,
) -> Panel {
    Panel {
        title,
        description: "",
        look: PanelStyle::Number(colour),
        size: (4, 4),
        unit,
        queries: vec![Query {
            expression,
            legend: "",
            shows,
        }],
    }
}

fn drawn(
    look: PanelStyle,
    title: &'static str,
    (unit, legend): (Unit, &'static str),
    shows: ExpectedResult,
    expression: String,
) -> Panel {
    Panel {
        title,
        description: "",
        look,
        size: (12, 8),
        unit,
        queries: vec![Query {
            expression,
            legend,
            shows,
        }],
    }
}

fn table(title: &'static str, unit: Unit, shows: ExpectedResult, expression: String) -> Panel {
    Panel {
        title,
        description: "",
        look: PanelStyle::Table,
        size: (12, 8),
        unit,
        queries: vec![Query {
            expression,
            legend: "",
            shows,
        }],
    }
}

impl Panel {
    const fn about(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    const fn sized(mut self, columns: u8, lines: u8) -> Self {
        self.size = (columns, lines);
        self
    }

    fn and(mut self, legend: &'static str, shows: ExpectedResult, expression: String) -> Self {
        self.queries.push(Query {
            expression,
            legend,
            shows,
        });
        self
    }
}
