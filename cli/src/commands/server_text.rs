//! Texts of servers and errors, for one line of output.

use std::error::Error;

/// Replaces control characters: servers choose the text, and it must not control the terminal.
pub(crate) fn replace_control_characters(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Returns the innermost error: the outer ones only say that a request failed.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
