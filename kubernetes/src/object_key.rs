//! The key of a namespaced object.

use std::{fmt, str::FromStr};

use parallax_model::{InvalidName, Namespace, ObjectName};

/// `namespace/name` of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: Namespace,
    /// The name within the namespace.
    pub name: ObjectName,
}

impl FromStr for ObjectKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| InvalidName::NoSlash {
            value: text.to_owned(),
        })?;
        Ok(Self {
            namespace: namespace.parse()?,
            name: name.parse()?,
        })
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
