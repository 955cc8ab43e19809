//! The report for people: one HTML file that needs nothing else. Pure.

mod html;
mod section;

pub use html::page;
