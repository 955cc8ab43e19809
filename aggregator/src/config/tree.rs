//! A YAML document as a tree whose values have line and column.
//!
//! Serde alone stops at the first error and loses positions once a value is built. The tree makes it possible to report
//! all errors at once, and lets later checks (such as a reference to a missing node) still point at the line.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{Location, Spanned};

/// A position in a file; both numbers start at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition {
    /// Line.
    pub line: u64,
    /// Column, in characters.
    pub column: u64,
}

impl SourcePosition {
    pub(super) fn from_location(location: Location) -> Option<Self> {
        (location != Location::UNKNOWN).then(|| Self {
            line: location.line(),
            column: location.column(),
        })
    }
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One value of the document and its position.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Absent for a document without content.
    pub(super) position: Option<SourcePosition>,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    /// Scalars keep their source text: `expectStatus: 200` is a number in YAML but meant as text.
    Bool(bool, Option<String>),
    Unsigned(u64, Option<String>),
    Signed(i64, Option<String>),
    Float(f64, Option<String>),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) position: Option<SourcePosition>,
    pub(super) name: String,
}

/// Parses a document. Errors come from the parser: syntax, duplicate keys, alias bombs.
pub(super) fn parse(source: &str) -> Result<Node, serde_saphyr::Error> {
    let options = serde_saphyr::options! { with_snippet: false };
    let bare: Option<Spanned<RawValue>> = serde_saphyr::from_str_with_options(source, options)?;
    Ok(bare.map_or(
        Node {
            position: None,
            value: Value::Map(Vec::new()),
        },
        |bare| Node::from_raw(bare, source),
    ))
}

impl Node {
    /// Returns the position of a path such as `services[2].endpoints[0].node`, or of its nearest existing parent.
    pub(super) fn position_of(&self, path: &str) -> Option<SourcePosition> {
        let mut node = self;
        let mut place = self.position;
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            let next = match &node.value {
                Value::Map(entries) => entries.iter().find(|(key, _)| key.name == step).map(|(_, v)| v),
                Value::List(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
                _ => None,
            };
            let Some(next) = next else { break };
            node = next;
            place = node.position.or(place);
        }
        place
    }

    fn from_raw(bare: Spanned<RawValue>, source: &str) -> Self {
        let written = || source_text(bare.referenced, source);
        let value = match bare.value {
            RawValue::Null => Value::Null,
            RawValue::Bool(value) => Value::Bool(value, written()),
            RawValue::Unsigned(value) => Value::Unsigned(value, written()),
            RawValue::Signed(value) => Value::Signed(value, written()),
            RawValue::Float(value) => Value::Float(value, written()),
            RawValue::Text(text) => Value::Text(text),
            RawValue::List(items) => {
                Value::List(items.into_iter().map(|i| Self::from_raw(i, source)).collect())
            }
            RawValue::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let key = Key {
                            position: SourcePosition::from_location(key.referenced),
                            name: key.value,
                        };
                        (key, Self::from_raw(value, source))
                    })
                    .collect(),
            ),
        };
        Self {
            position: SourcePosition::from_location(bare.referenced),
            value,
        }
    }
}

/// Returns the source text of a scalar.
fn source_text(location: Location, source: &str) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    let text = source.get(start..start.checked_add(length)?)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The tree as deserialized by the YAML library.
enum RawValue {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<RawValue>>),
    Map(Vec<(Spanned<String>, Spanned<RawValue>)>),
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawValueVisitor)
    }
}

struct RawValueVisitor;

impl<'de> Visitor<'de> for RawValueVisitor {
    type Value = RawValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_none<E>(self) -> Result<RawValue, E> {
        Ok(RawValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<RawValue, E> {
        Ok(RawValue::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<RawValue, E> {
        Ok(RawValue::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<RawValue, E> {
        Ok(u64::try_from(value).map_or(RawValue::Signed(value), RawValue::Unsigned))
    }

    fn visit_f64<E>(self, value: f64) -> Result<RawValue, E> {
        Ok(RawValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<RawValue, E> {
        Ok(RawValue::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<RawValue, E> {
        Ok(RawValue::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawValue, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(RawValue::Map(map))
    }
}
