//! What the suites share: ports that refuse, escaped HTML, a Prometheus process, and Helm with the chart.

pub mod closed_port;
pub mod helm;
pub mod html;
pub mod prometheus;
