//! Where an object is, and what a watch needs of one that it cannot read.

use serde_json::Value;

/// Where an object is; the namespace is empty for those of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for an object of the whole cluster.
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

/// The key of an object that is otherwise not to be read.
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

/// Its resource version, which is of use to the watch only.
pub(super) fn version_of(value: &Value) -> Option<&str> {
    value.get("metadata")?.get("resourceVersion")?.as_str()
}
