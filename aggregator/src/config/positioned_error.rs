//! What serde's visitors complain of, in words of the file and with a place.

use std::fmt;

use serde::de::Unexpected;

use super::{tree::SourcePosition, wording};

/// What is still to do about an error on its way up.
#[derive(Debug, Clone, Copy)]
pub(super) enum ErrorMessage {
    /// Complain.
    New,
    /// Complained of in this pass; the next one reads on without it.
    Said,
    /// Follows from something that was set aside.
    Consequence,
}

/// An error on its way up; the innermost value it passes gives it its place.
#[derive(Debug)]
pub(super) struct PositionedError {
    pub(super) message: String,
    pub(super) at: Option<(Option<SourcePosition>, String)>,
    pub(super) say: ErrorMessage,
    pub(super) missing: Option<&'static str>,
    /// The field that an unknown one was likely meant to be: that it is missing follows.
    pub(super) meant: Option<&'static str>,
}

impl PositionedError {
    /// Where it is, unless that is known more exactly already.
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
