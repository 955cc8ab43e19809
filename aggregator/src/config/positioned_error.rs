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
    Said,
    /// Consequence of an excluded value; not recorded.
    Consequence,
}

/// A propagating error; the innermost value that it passes sets its position.
#[derive(Debug)]
pub(super) struct PositionedError {
    pub(super) message: String,
    pub(super) at: Option<(Option<SourcePosition>, String)>,
    pub(super) say: ErrorMessage,
    pub(super) missing: Option<&'static str>,
    /// The likely intended field of a misspelt one: that it is missing is only a consequence.
    pub(super) meant: Option<&'static str>,
}

impl PositionedError {
    /// Sets the position, unless an inner value has already set it.
    pub(super) fn at(mut self, place: Option<SourcePosition>, path: &str) -> Self {
        self.at.get_or_insert_with(|| (place, path.to_owned()));
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
            at: None,
            say: ErrorMessage::New,
            missing: None,
            meant: None,
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        let expected = expected.to_string();
        Self::custom(format_args!(
            "expected {}, found {}",
            wording::expected(&expected),
            wording::found(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!(
            "expected {}, found {found:?}",
            wording::one_of(expected)
        ))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        match wording::nearest(found, expected) {
            Some(near) => Self {
                meant: Some(near),
                ..Self::custom(format_args!("unknown field {found:?}; did you mean {near:?}?"))
            },
            None => Self::custom(format_args!(
                "unknown field {found:?}; expected {}",
                wording::one_of(expected)
            )),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            missing: Some(field),
            ..Self::custom(format_args!("the field {field:?} is missing"))
        }
    }
}
