//! The HTML report: a self-contained file. Pure.

mod html;
mod section;

pub use html::page;
