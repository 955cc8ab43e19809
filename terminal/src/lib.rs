//! Formats the aggregator's view as plain text for terminals, in the same order as the page.
//!
//! Symbols accompany the colors: `✓` ok, `✗` failing, `~` flaky, `·` unknown.
#![forbid(unsafe_code)]

mod color;
mod escape;
mod findings;
mod incident;
mod overview;
mod sections;

pub use color::ColorMode;
pub use escape::escape;
pub use findings::findings;
pub use incident::incident;
pub use overview::{matrix, pending_probes, summary};
