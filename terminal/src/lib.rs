//! What a mesh sees as plain text for terminals: the facts of the page, in the same order.
//!
//! State is written in signs as well as color: `✓` ok, `✗` failing, `~` flaky, `·` unknown.
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
