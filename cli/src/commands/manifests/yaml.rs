//! Serialization of objects as YAML documents.

use std::fmt;

use k8s_openapi::Resource;
use serde::Serialize;

/// A stream of YAML documents.
#[derive(Debug, Default)]
pub(super) struct YamlStream(String);

impl YamlStream {
    /// Adds an object of a built-in type, which determines kind and version.
    pub(super) fn add<K: Resource + Serialize>(
        &mut self,
        object: &K,
    ) -> Result<(), serde_saphyr::ser::Error> {
        self.add_custom(object)
    }

    /// Adds an object of another kind.
    pub(super) fn add_custom(&mut self, object: &impl Serialize) -> Result<(), serde_saphyr::ser::Error> {
        // YAML 1.1 parsers read an unquoted `on` or `0o7` as something other than a string.
        let options = serde_saphyr::ser_options! { yaml_12: false };
        self.0.push_str("---\n");
        self.0
            .push_str(serde_saphyr::to_string_with_options(object, options)?.trim_start());
        Ok(())
    }
}

impl fmt::Display for YamlStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
