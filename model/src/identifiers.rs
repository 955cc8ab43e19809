//! Newtypes for identifiers, so that a swapped argument does not compile.
//!
//! Names of Kubernetes objects come from the API server and are not validated against its rules again.
//! Rejected are only values that would break a table, a label or a terminal: empty, too long, or with control
//! characters. A name is reference-counted text, so a clone copies nothing.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// Maximum length of a name in bytes. A DNS name has at most 253; a target id contains a URL.
const MAX_LENGTH: usize = 2048;

/// Why a string is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// The string is empty.
    #[error("a {kind} must not be empty")]
    Empty {
        /// The kind of name.
        kind: &'static str,
    },
    /// The string exceeds the maximum length.
    #[error("a {kind} must not be longer than {MAX_LENGTH} bytes, got {len}")]
    TooLong {
        /// The kind of name.
        kind: &'static str,
        /// Length in bytes.
        len: usize,
    },
    /// White space and control characters would break tables, labels and terminals.
    #[error("a {kind} must not contain white space or control characters, got {value:?}")]
    Unprintable {
        /// The kind of name.
        kind: &'static str,
        /// The string, as given.
        value: String,
    },
    /// A slash ends the namespace in `namespace/name`.
    #[error("a namespace must not contain a slash, got {value:?}")]
    Slash {
        /// The string, as given.
        value: String,
    },
    /// A namespaced name lacks its slash.
    #[error("expected namespace/name, got {value:?}")]
    NoSlash {
        /// The string, as given.
        value: String,
    },
}

fn validate(kind: &'static str, value: &str) -> Result<(), InvalidName> {
    if value.is_empty() {
        return Err(InvalidName::Empty { kind });
    }
    if value.len() > MAX_LENGTH {
        return Err(InvalidName::TooLong {
            kind,
            len: value.len(),
        });
    }
    if value.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(InvalidName::Unprintable {
            kind,
            value: value.to_owned(),
        });
    }
    if kind == NAMESPACE && value.contains('/') {
        return Err(InvalidName::Slash {
            value: value.to_owned(),
        });
    }
    Ok(())
}

/// The kind of [`Namespace`] in messages.
const NAMESPACE: &str = "namespace";

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Validates the string and creates the name.
            pub fn new(value: impl AsRef<str>) -> Result<Self, InvalidName> {
                let value = value.as_ref();
                validate($kind, value)?;
                Ok(Self(value.into()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(value: String) -> Result<Self, InvalidName> {
                Self::new(value)
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;
            fn from_str(value: &str) -> Result<Self, InvalidName> {
                Self::new(value)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.as_str().to_owned()
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // A visitor, because an intermediate `String` would be a second allocation for each name of a report.
                struct NameVisitor;

                impl Visitor<'_> for NameVisitor {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: de::Error>(self, value: &str) -> Result<$type, E> {
                        $type::new(value).map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(NameVisitor)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($type)).field(&&*self.0).finish()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name!(
    /// A Node of the cluster (`metadata.name`).
    NodeName,
    "node name"
);
name!(
    /// A Pod, or another process that responds as one endpoint.
    PodName,
    "pod name"
);
name!(
    /// A zone (`topology.kubernetes.io/zone`).
    ZoneName,
    "zone name"
);
name!(
    /// A Namespace of the cluster.
    Namespace,
    NAMESPACE
);
name!(
    /// The name of a namespaced object without its namespace.
    ObjectName,
    "object name"
);
name!(
    /// A vantage outside the cluster, as enrolled.
    VantageName,
    "vantage name"
);
name!(
    /// A host name as a client requests it, without a port.
    HostName,
    "host name"
);
name!(
    /// A target, identified by its URL (`http://shop.example.test/`, `tcp://10.0.0.1:5432`,
    /// `dns://kubernetes.default.svc.cluster.local`). Stable across restarts and used as a metric label.
    TargetId,
    "target id"
);
name!(
    /// One probe of one node's plan.
    AssignmentId,
    "assignment id"
);
name!(
    /// One on-demand run.
    RunId,
    "run id"
);
name!(
    /// One process lifetime of a prober. A restarted prober starts a new incarnation, with sequence numbers
    /// from 0.
    Incarnation,
    "incarnation"
);

/// `namespace/name` of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceKey {
    /// The Service's namespace.
    pub namespace: Namespace,
    /// The Service's name.
    pub name: ObjectName,
}

impl FromStr for ServiceKey {
    type Err = InvalidName;
    fn from_str(value: &str) -> Result<Self, InvalidName> {
        let (namespace, name) = value.split_once('/').ok_or_else(|| InvalidName::NoSlash {
            value: value.to_owned(),
        })?;
        Ok(Self {
            namespace: namespace.parse()?,
            name: name.parse()?,
        })
    }
}

impl TryFrom<String> for ServiceKey {
    type Error = InvalidName;
    fn try_from(value: String) -> Result<Self, InvalidName> {
        value.parse()
    }
}

impl From<ServiceKey> for String {
    fn from(key: ServiceKey) -> Self {
        key.to_string()
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_control_character_is_refused_because_it_would_reach_terminals() {
        assert!(matches!(
            NodeName::new("n1\u{1b}[31m"),
            Err(InvalidName::Unprintable { .. })
        ));
        assert!(matches!(NodeName::new(""), Err(InvalidName::Empty { .. })));
        assert!(matches!(
            NodeName::new("x".repeat(5000)),
            Err(InvalidName::TooLong { .. })
        ));
    }

    #[test]
    fn a_namespace_with_a_slash_is_refused_because_the_key_of_a_service_would_denote_another_one() {
        assert!(matches!(Namespace::new("a/b"), Err(InvalidName::Slash { .. })));
        let key: ServiceKey = "a/b/c".parse().unwrap();
        assert_eq!((key.namespace.as_str(), key.name.as_str()), ("a", "b/c"));
    }

    #[test]
    fn a_service_key_reads_and_prints_as_namespace_slash_name() {
        let key: ServiceKey = "ingress/nginx".parse().unwrap();
        assert_eq!(key.namespace.as_str(), "ingress");
        assert_eq!(key.to_string(), "ingress/nginx");
        assert!(matches!(
            "nginx".parse::<ServiceKey>(),
            Err(InvalidName::NoSlash { .. })
        ));
    }
}
