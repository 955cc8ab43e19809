//! What the suites share: escaped HTML, a Prometheus process, and Helm with the chart.

pub mod helm;
pub mod html;
pub mod prometheus;
