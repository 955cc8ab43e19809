//! Keys of watched objects, and the metadata that a watch needs even if an object cannot be parsed.

use serde_json::Value;

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Returns the key of an object that may be otherwise unreadable.
pub(super) fn key_of(value: &Value) -> Key {
    let text = |field: &str| {
        let found = value.get("metadata").and_then(|meta| meta.get(field));
        found.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    Key {
        namespace: text("namespace"),
        name: text("name"),
    }
}

/// Returns the resource version, which only the watch needs.
pub(super) fn version_of(value: &Value) -> Option<&str> {
    value.get("metadata")?.get("resourceVersion")?.as_str()
}
