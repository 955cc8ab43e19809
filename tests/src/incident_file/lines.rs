//! Maps a field to its line in a file: checks that the types cannot express run after parsing, without positions.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{Location, Spanned};

/// Returns the line (from 1) of a path like `topology.services[0].endpoints[1].node`, or of the nearest field above it.
pub(super) fn line_of(text: &str, path: &str) -> Option<u64> {
    let root: Spanned<DocumentTree> = serde_saphyr::from_str(text).ok()?;
    let mut node = &root;
    let mut line = None;
    for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
        let next = match &node.value {
            DocumentTree::Map(entries) => entries.iter().find(|(key, _)| key == step).map(|(_, v)| v),
            DocumentTree::List(items) => step.parse::<usize>().ok().and_then(|i| items.get(i)),
            DocumentTree::Scalar => None,
        };
        let Some(next) = next else { break };
        node = next;
        if node.referenced != Location::UNKNOWN {
            line = Some(node.referenced.line());
        }
    }
    line
}

/// Structure of a document without its values.
enum DocumentTree {
    Map(Vec<(String, Spanned<Self>)>),
    List(Vec<Spanned<Self>>),
    Scalar,
}

impl<'de> Deserialize<'de> for DocumentTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = DocumentTree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any YAML")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<DocumentTree, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    all.push(entry);
                }
                Ok(DocumentTree::Map(all))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<DocumentTree, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(DocumentTree::List(all))
            }

            fn visit_unit<E>(self) -> Result<DocumentTree, E> {
                Ok(DocumentTree::Scalar)
            }

            fn visit_bool<E>(self, _: bool) -> Result<DocumentTree, E> {
                Ok(DocumentTree::Scalar)
            }

            fn visit_u64<E>(self, _: u64) -> Result<DocumentTree, E> {
                Ok(DocumentTree::Scalar)
            }

            fn visit_i64<E>(self, _: i64) -> Result<DocumentTree, E> {
                Ok(DocumentTree::Scalar)
            }

            fn visit_f64<E>(self, _: f64) -> Result<DocumentTree, E> {
                Ok(DocumentTree::Scalar)
            }

            fn visit_str<E>(self, _: &str) -> Result<DocumentTree, E> {
                Ok(DocumentTree::Scalar)
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_its_line_and_one_that_ends_early_to_the_nearest() {
        let text = "a: 1\nlist:\n- {x: 1}\n- x: 2\n  y: 3\n";
        assert_eq!(line_of(text, "a"), Some(1));
        assert_eq!(line_of(text, "list[1].y"), Some(5));
        assert_eq!(line_of(text, "list[0].missing"), Some(3));
        assert_eq!(line_of(text, "nothing"), None);
    }
}
