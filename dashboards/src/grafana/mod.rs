//! The dashboards as data: panels in order, each with its queries and their expected results.

mod itself;
mod mesh;
mod model;
mod overview;
mod renewals;
mod target;

use serde_json::Value;

use crate::{
    SerializationError,
    promql::{Leader, of_chosen_installations},
};

/// A Grafana dashboard.
#[derive(Debug, Clone)]
pub struct Dashboard {
    /// Part of its address in Grafana, `/d/UID`. The aggregator's page links there.
    pub uid: &'static str,
    /// The title.
    pub title: &'static str,
    /// The purpose.
    pub description: &'static str,
    /// The variables in addition to the data source and [`INSTALLATION_VARIABLES`].
    pub variables: Vec<Variable>,
    /// The panels in order; they fill rows of [`COLUMNS`].
    pub panels: Vec<Panel>,
}

/// The variables of each dashboard, in this order, which choose installations. Each is a label of the scraper's
/// targets; all values are chosen at first.
pub const INSTALLATION_VARIABLES: [&str; 3] = ["cluster", "namespace", "job"];

/// Width of a dashboard, in columns.
pub const COLUMNS: u8 = 24;

/// A variable of a dashboard.
#[derive(Debug, Clone)]
pub enum Variable {
    /// A label of a metric, one value at a time.
    Label {
        /// Name of the variable and of the label.
        name: &'static str,
        /// The metric that supplies the values.
        metric: &'static str,
    },
    /// The address of the aggregator's page, for links back to it.
    Page,
}

/// A panel.
#[derive(Debug, Clone)]
pub struct Panel {
    /// The title.
    pub title: &'static str,
    /// How to read it.
    pub description: &'static str,
    /// The kind of visualization.
    pub style: PanelStyle,
    /// Width in columns and height in rows.
    pub size: (u8, u8),
    /// The unit of the values.
    pub unit: Unit,
    /// The queries.
    pub queries: Vec<Query>,
}

/// The kind of visualization of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelStyle {
    /// One number, coloured by a threshold.
    Number(ThresholdColor),
    /// Lines over time.
    Lines,
    /// Stacked areas over time.
    Areas,
    /// One row per series, its states over time.
    Timeline(States),
    /// The firing and pending alerts of Parallax, of every data source whose alerts Grafana shows.
    AlertList,
    /// One row per series, current values. A column `incident` links to the page, a column `target` to the target's
    /// dashboard.
    Table,
}

/// The states of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// Shares of successful probes, with the limits of the alerts `ParallaxTargetUnreachable` and
    /// `ParallaxTargetUnreliable`.
    Reachability,
    /// 1 for a warning, 2 for a critical state.
    Severity,
}

/// The threshold from which a number is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThresholdColor {
    /// No threshold.
    Never,
    /// Above zero.
    AboveZero,
    /// Below one.
    BelowOne,
    /// From 60 seconds.
    AboveAMinute,
}

/// Units of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of objects.
    Count,
    /// 0 to 1.
    Share,
    /// Seconds.
    Seconds,
    /// Events per second.
    PerSecond,
    /// Bytes.
    Bytes,
}

/// A query to Prometheus.
#[derive(Debug, Clone)]
pub struct Query {
    /// `PromQL` of all installations.
    expression: String,
    /// The legend of the series.
    pub legend: &'static str,
    /// The result that a test expects.
    pub expected: ExpectedResult,
}

/// The result that a query must have before and after the fault of the recording that tests replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedResult {
    /// Not empty after the fault, and different from before.
    Changes,
    /// Not empty both times.
    NotEmpty,
    /// Only with the watch of a cluster, which the recording lacks.
    NeedsCluster,
    /// Nothing in the recording; the alert of the same metric has its own test.
    TestedElsewhere,
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
    /// Path of the file in the repository.
    #[must_use]
    pub fn path(&self) -> String {
        format!("dashboards/{}.json", self.uid)
    }

    /// The JSON that Grafana imports.
    pub fn json(&self) -> Result<String, SerializationError> {
        serde_json::to_string_pretty(&self.model())
            .map(|text| text + "\n")
            .map_err(|error| SerializationError(error.to_string()))
    }

    /// The JSON model as a value.
    #[must_use]
    pub fn model(&self) -> Value {
        model::dashboard(self)
    }
}

impl Query {
    /// `PromQL`, restricted to the installations that are chosen; Grafana substitutes `$__rate_interval` and the
    /// dashboard's variables.
    #[must_use]
    pub fn expression(&self) -> String {
        of_chosen_installations(&self.expression)
    }
}

/// The sum over installations of a gauge that each aggregator of an installation exposes.
fn total(labels: &str, expression: &str) -> String {
    let (by, each) = if labels.is_empty() {
        (String::new(), String::new())
    } else {
        (format!(" by ({labels})"), format!(", {labels}"))
    };
    let of_each = Leader::Inline.aggregate("max", &format!("cluster, job{each}"), expression);
    format!("sum{by} ({of_each})")
}

/// A panel with one query.
fn query_panel(
    title: &'static str,
    style: PanelStyle,
    size: (u8, u8),
    (unit, legend): (Unit, &'static str),
    expected: ExpectedResult,
    expression: String,
) -> Panel {
    let empty = Panel {
        title,
        description: "",
        style,
        size,
        unit,
        queries: Vec::new(),
    };
    empty.with_query(legend, expected, expression)
}

fn number_panel(
    title: &'static str,
    (unit, colour): (Unit, ThresholdColor),
    expected: ExpectedResult,
    expression: String,
) -> Panel {
    let style = PanelStyle::Number(colour);
    query_panel(title, style, (4, 4), (unit, ""), expected, expression)
}

fn graph_panel(
    look: PanelStyle,
    title: &'static str,
    units: (Unit, &'static str),
    expected: ExpectedResult,
    expression: String,
) -> Panel {
    query_panel(title, look, (12, 8), units, expected, expression)
}

fn table_panel(title: &'static str, unit: Unit, expected: ExpectedResult, expression: String) -> Panel {
    query_panel(
        title,
        PanelStyle::Table,
        (12, 8),
        (unit, ""),
        expected,
        expression,
    )
}

fn timeline_panel(
    title: &'static str,
    states: States,
    units: (Unit, &'static str),
    expected: ExpectedResult,
    expression: String,
) -> Panel {
    let style = PanelStyle::Timeline(states);
    query_panel(title, style, (12, 8), units, expected, expression)
}

fn alert_list_panel(title: &'static str) -> Panel {
    Panel {
        title,
        description: "",
        style: PanelStyle::AlertList,
        size: (8, 6),
        unit: Unit::Count,
        queries: Vec::new(),
    }
}

/// Open incidents by labels that identify them: 1 for a warning, 2 for a critical one.
fn severities(labels: &str) -> String {
    let of = |series: &str| Leader::Inline.aggregate("max", labels, series);
    format!(
        "{} * 2 or {}",
        of("parallax_incident{severity=\"critical\"}"),
        of("parallax_incident")
    )
}

impl Panel {
    const fn described(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    const fn sized(mut self, columns: u8, lines: u8) -> Self {
        self.size = (columns, lines);
        self
    }

    fn with_query(mut self, legend: &'static str, expected: ExpectedResult, expression: String) -> Self {
        self.queries.push(Query {
            expression,
            legend,
            expected,
        });
        self
    }
}
