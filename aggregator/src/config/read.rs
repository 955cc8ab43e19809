//! Deserializes a tree into typed values and collects every error instead of only the first.
//!
//! A serde visitor stops at its first error. Therefore the tree is read repeatedly: each pass records the error,
//! excludes its value and reads the rest again, until no new error appears. The value is used only if there was no error.

use std::{cell::RefCell, collections::BTreeSet};

use serde::{
    de::{
        DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, SeqAccess,
        Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

use super::{
    positioned_error::{ErrorMessage, PositionedError},
    tree::{Key, Node, SourcePosition, Value},
    wording,
};

/// Maximum number of errors; each of them costs a pass.
const MAX_PROBLEMS: usize = 50;

/// An error and its position.
#[derive(Debug)]
pub(super) struct ReadProblem {
    pub(super) position: Option<SourcePosition>,
    pub(super) path: String,
    pub(super) message: String,
}

/// Reads a value of type `T`, or returns all errors.
pub(super) fn deserialize<T: DeserializeOwned>(root: &Node) -> Result<T, Vec<ReadProblem>> {
    let findings = RefCell::new(ReadProblems::default());
    let reader = ValueReader {
        node: root,
        path: String::new(),
        problems: &findings,
    };
    loop {
        let before = findings.borrow().excluded.len();
        let read = T::deserialize(reader.clone());
        if let Err(error) = &read
            && matches!(error.state, ErrorMessage::New)
        {
            reader.record(error);
        }
        let mut found = findings.borrow_mut();
        if found.problems.is_empty()
            && let Ok(value) = read
        {
            return Ok(value);
        }
        if found.excluded.len() == before || found.problems.len() >= MAX_PROBLEMS {
            return Err(std::mem::take(&mut found.problems));
        }
    }
}

#[derive(Default)]
struct ReadProblems {
    problems: Vec<ReadProblem>,
    /// Paths that later passes exclude.
    excluded: BTreeSet<String>,
}

/// Deserializer of one value of the tree.
#[derive(Clone)]
struct ValueReader<'a> {
    node: &'a Node,
    path: String,
    problems: &'a RefCell<ReadProblems>,
}

impl<'a> ValueReader<'a> {
    fn item(&self, i: usize, node: &'a Node) -> Self {
        Self {
            node,
            path: format!("{}[{i}]", self.path),
            problems: self.problems,
        }
    }

    fn entry(&self, key: &Key, node: &'a Node) -> Self {
        Self {
            node,
            path: self.child_path(&key.name),
            problems: self.problems,
        }
    }

    fn record(&self, error: &PositionedError) {
        let (place, path) = error
            .location
            .clone()
            .unwrap_or_else(|| (self.node.position, self.path.clone()));
        self.problems.borrow_mut().problems.push(ReadProblem {
            position: place.or(self.node.position),
            path,
            message: error.message.clone(),
        });
    }

    fn is_excluded(&self) -> bool {
        self.problems.borrow().excluded.contains(&self.path)
    }

    /// Records the error of a child, and excludes the child from the next passes.
    fn exclude(&self, error: PositionedError) -> PositionedError {
        if matches!(error.state, ErrorMessage::New) {
            self.record(&error);
        }
        if !matches!(error.state, ErrorMessage::Recorded) {
            self.problems.borrow_mut().excluded.insert(self.path.clone());
        }
        PositionedError {
            state: ErrorMessage::Recorded,
            ..error
        }
    }

    fn child_path(&self, name: &str) -> String {
        let dot = if self.path.is_empty() { "" } else { "." };
        format!("{}{dot}{name}", self.path)
    }

    /// Suppresses the error about a missing field that an earlier pass excluded.
    fn suppress_missing(&self, error: PositionedError) -> PositionedError {
        let known = error
            .missing_field
            .is_some_and(|field| self.problems.borrow().excluded.contains(&self.child_path(field)));
        PositionedError {
            state: if known {
                ErrorMessage::Consequence
            } else {
                error.state
            },
            missing_field: None,
            ..error
        }
    }
}

impl<'de> Deserializer<'de> for ValueReader<'de> {
    type Error = PositionedError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PositionedError> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value, _) => visitor.visit_bool(*value),
            Value::Unsigned(value, _) => visitor.visit_u64(*value),
            Value::Signed(value, _) => visitor.visit_i64(*value),
            Value::Float(value, _) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(ItemReader {
                list: &self,
                items: items.iter().enumerate(),
            }),
            Value::Map(entries) => visitor
                .visit_map(EntryReader {
                    map: &self,
                    entries: entries.iter(),
                    value: None,
                })
                .map_err(|error| self.suppress_missing(error)),
        }
        .map_err(|error| error.with_location(self.node.position, &self.path))
    }

    /// Accepts numbers and booleans as text, as written: `expectStatus: 200` means "200".
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PositionedError> {
        match &self.node.value {
            Value::Bool(_, Some(written))
            | Value::Unsigned(_, Some(written))
            | Value::Signed(_, Some(written))
            | Value::Float(_, Some(written)) => visitor
                .visit_str(written)
                .map_err(|error: PositionedError| error.with_location(self.node.position, &self.path)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PositionedError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PositionedError> {
        match &self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// `services:` without a value is an empty list.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PositionedError> {
        match &self.node.value {
            Value::Null => visitor.visit_seq(ItemReader {
                list: &self,
                items: [].iter().enumerate(),
            }),
            _ => self.deserialize_any(visitor),
        }
    }

    /// Rejects a list, which serde would accept as the fields of a struct in order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PositionedError> {
        match &self.node.value {
            Value::List(_) => Err(PositionedError::custom("expected a mapping, found a list")
                .with_location(self.node.position, &self.path)),
            // An empty file, or one with comments only.
            Value::Null if self.path.is_empty() => visitor.visit_map(EntryReader {
                map: &self,
                entries: [].iter(),
                value: None,
            }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, PositionedError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PositionedError> {
        match &self.node.value {
            Value::Text(text) => {
                let text: StrDeserializer<'_, PositionedError> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            // YAML parses `off` as a boolean; accept it if it is a variant.
            Value::Bool(_, Some(text)) if variants.contains(&text.as_str()) => {
                let text: StrDeserializer<'_, PositionedError> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            _ => Err(PositionedError::custom(format_args!(
                "expected {}",
                wording::join_alternatives(variants)
            ))),
        }
        .map_err(|error| error.with_location(self.node.position, &self.path))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf
        unit unit_struct tuple tuple_struct map identifier ignored_any
    }
}

struct ItemReader<'a, 'de> {
    list: &'a ValueReader<'de>,
    items: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> SeqAccess<'de> for ItemReader<'_, 'de> {
    type Error = PositionedError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, PositionedError> {
        for (i, node) in self.items.by_ref() {
            let item = self.list.item(i, node);
            if !item.is_excluded() {
                return seed
                    .deserialize(item.clone())
                    .map(Some)
                    .map_err(|error| item.exclude(error));
            }
        }
        Ok(None)
    }
}

struct EntryReader<'a, 'de> {
    map: &'a ValueReader<'de>,
    entries: std::slice::Iter<'de, (Key, Node)>,
    value: Option<ValueReader<'de>>,
}

impl<'de> MapAccess<'de> for EntryReader<'_, 'de> {
    type Error = PositionedError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, PositionedError> {
        for (key, node) in self.entries.by_ref() {
            let value = self.map.entry(key, node);
            if value.is_excluded() {
                continue;
            }
            let name: StrDeserializer<'_, PositionedError> = key.name.as_str().into_deserializer();
            let read = seed.deserialize(name).map_err(|error| {
                if let Some(meant) = error.suggested_field {
                    let meant = self.map.child_path(meant);
                    self.map.problems.borrow_mut().excluded.insert(meant);
                }
                value.exclude(error.with_location(key.position, &value.path))
            })?;
            self.value = Some(value);
            return Ok(Some(read));
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, PositionedError> {
        let value = self
            .value
            .take()
            .ok_or_else(|| PositionedError::custom("a value before its key"))?;
        seed.deserialize(value.clone())
            .map_err(|error| value.exclude(error))
    }
}
