//! A YAML document as a tree in which every value knows its line and column.
//!
//! Serde alone stops at the first complaint and forgets positions once a value is built. Keeping the tree lets a file
//! be refused with everything that is wrong in it, and lets checks that come later (a node that does not exist) still
//! point at the line.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{Location, Spanned};

/// A place in a file, both numbers from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column, in characters.
    pub column: u64,
}

impl Place {
    pub(super) fn of(location: Location) -> Option<Self> {
        (location != Location::UNKNOWN).then(|| Self {
            line: location.line(),
            column: location.column(),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One value of the document and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) place: Option<Place>,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    /// A scalar, with its text as written: `expectStatus: 200` is a number to YAML and meant as text.
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
    pub(super) place: Option<Place>,
    pub(super) name: String,
}

/// Reads a document. The error is the parser's: syntax, a duplicate key, a bomb of aliases.
pub(super) fn parse(source: &str) -> Result<Node, serde_saphyr::Error> {
    let options = serde_saphyr::options! { with_snippet: false };
    let bare: Option<Spanned<Bare>> = serde_saphyr::from_str_with_options(source, options)?;
    Ok(bare.map_or(
        Node {
            place: None,
            value: Value::Map(Vec::new()),
        },
        |bare| Node::dress(bare, source),
    ))
}

impl Node {
    /// The place that a path like `services[2].endpoints[0].node` leads to, or the nearest one above it.
    pub(super) fn locate(&self, path: &str) -> Option<Place> {
        let mut here = self;
        let mut place = self.place;
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            let next = match &here.value {
                Value::Map(entries) => entries.iter().find(|(key, _)| key.name == step).map(|(_, v)| v),
                Value::List(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
                _ => None,
            };
            let Some(next) = next else { break };
            here = next;
            place = here.place.or(place);
        }
        place
    }

    fn dress(bare: Spanned<Bare>, source: &str) -> Self {
        let written = || written(bare.referenced, source);
        let value = match bare.value {
            Bare::Null => Value::Null,
            Bare::Bool(value) => Value::Bool(value, written()),
            Bare::Unsigned(value) => Value::Unsigned(value, written()),
            Bare::Signed(value) => Value::Signed(value, written()),
            Bare::Float(value) => Value::Float(value, written()),
            Bare::Text(text) => Value::Text(text),
            Bare::List(items) => Value::List(items.into_iter().map(|i| Self::dress(i, source)).collect()),
            Bare::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let key = Key {
                            place: Place::of(key.referenced),
                            name: key.value,
                        };
                        (key, Self::dress(value, source))
                    })
                    .collect(),
            ),
        };
        Self {
            place: Place::of(bare.referenced),
            value,
        }
    }
}

/// The scalar as it stands in the file.
fn written(location: Location, source: &str) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    let text = source.get(start..start.checked_add(length)?)?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The tree as the YAML library hands it out.
enum Bare {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Bare>>),
    Map(Vec<(Spanned<String>, Spanned<Bare>)>),
}

impl<'de> Deserialize<'de> for Bare {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BareVisitor)
    }
}

struct BareVisitor;

impl<'de> Visitor<'de> for BareVisitor {
    type Value = Bare;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Bare, E> {
        Ok(Bare::Null)
    }

    fn visit_none<E>(self) -> Result<Bare, E> {
        Ok(Bare::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Bare, E> {
        Ok(Bare::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Bare, E> {
        Ok(Bare::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Bare, E> {
        Ok(u64::try_from(value).map_or(Bare::Signed(value), Bare::Unsigned))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Bare, E> {
        Ok(Bare::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Bare, E> {
        Ok(Bare::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Bare, E> {
        Ok(Bare::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Bare, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Bare::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Bare, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Bare::Map(map))
    }
}
