//! What serde's visitors complain of, in words of the file and with a place.

use std::fmt;

use serde::de::Unexpected;

use super::{tree::Place, words};

/// What is still to do about an error on its way up.
#[derive(Debug, Clone, Copy)]
pub(super) enum Say {
    /// Complain.
    New,
    /// Complained of in this pass; the next one reads on without it.
    Said,
    /// Follows from something that was set aside.
    Consequence,
}

/// An error on its way up; the innermost value it passes gives it its place.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) at: Option<(Option<Place>, String)>,
    pub(super) say: Say,
    pub(super) missing: Option<&'static str>,
    /// The field that an unknown one was likely meant to be: that it is missing follows.
    pub(super) meant: Option<&'static str>,
}

impl Wrong {
    /// Where it is, unless that is known more exactly already.
    pub(super) fn at(mut self, place: Option<Place>, path: &str) -> Self {
        self.at.get_or_insert_with(|| (place, path.to_owned()));
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Wrong {}

impl serde::de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            at: None,
            say: Say::New,
            missing: None,
            meant: None,
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        let expected = expected.to_string();
        Self::custom(format_args!(
            "expected {}, found {}",
            words::expected(&expected),
            words::found(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format_args!(
            "expected {}, found {found:?}",
            words::one_of(expected)
        ))
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        match words::nearest(found, expected) {
            Some(near) => Self {
                meant: Some(near),
                ..Self::custom(format_args!("unknown field {found:?}; did you mean {near:?}?"))
            },
            None => Self::custom(format_args!(
                "unknown field {found:?}; expected {}",
                words::one_of(expected)
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
