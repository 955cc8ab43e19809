//! Errors of serde's visitors, in terms of the file and with a position.

use std::fmt;

use serde::de::Unexpected;

use super::{tree::SourcePosition, wording};

/// Reporting state of an error that propagates.
#[derive(Debug, Clone, Copy)]
pub(super) enum ErrorMessage {
    /// Not recorded yet.
    New,
    /// Recorded in this pass; the next pass excludes the value.
    Recorded,
    /// Consequence of an excluded value; not recorded.
    Consequence,
}

/// A propagating error; the innermost value that it passes sets its position.
#[derive(Debug)]
pub(super) struct PositionedError {
    pub(super) message: String,
    pub(super) location: Option<(Option<SourcePosition>, String)>,
    pub(super) state: ErrorMessage,
    pub(super) missing_field: Option<&'static str>,
    /// The likely intended field of a misspelt one: that it is missing is only a consequence.
    pub(super) suggested_field: Option<&'static str>,
}

impl PositionedError {
    /// Sets the position, unless an inner value has already set it.
    pub(super) fn with_location(mut self, place: Option<SourcePosition>, path: &str) -> Self {
        self.location.get_or_insert_with(|| (place, path.to_owned()));
        self
    }
}

impl fmt::Display for PositionedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PositionedError {}

impl serde::de::Error for PositionedError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            location: None,
            state: ErrorMessage::New,
            missing_field: None,
            suggested_field: None,
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        let expected = expected.to_string();
        Self::custom(format_args!(
            "expected {}, found {}",
            wording::expected_type(&expected),
            wording::describe_value(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!(
            "expected {}, found {found:?}",
            wording::join_alternatives(expected)
        ))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        match wording::most_similar(found, expected) {
            Some(near) => Self {
                suggested_field: Some(near),
                ..Self::custom(format_args!("unknown field {found:?}; did you mean {near:?}?"))
            },
            None => Self::custom(format_args!(
                "unknown field {found:?}; expected {}",
                wording::join_alternatives(expected)
            )),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            missing_field: Some(field),
            ..Self::custom(format_args!("the field {field:?} is missing"))
        }
    }
}
