//! What the lab and the tests on a real cluster share: escaped HTML, a Prometheus process.

pub mod html;
pub mod prometheus;
