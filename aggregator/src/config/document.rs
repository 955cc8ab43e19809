//! One YAML file: its name, its tree, and errors that point into it.

use std::{io::Read, path::Path};

use serde::de::DeserializeOwned;

use super::{
    error::{ConfigError, ConfigProblem},
    read,
    tree::{self, Node, SourcePosition, Value},
};

/// Maximum file size; a wrong path may lead to any file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A parsed YAML file. Errors about its values have line and column.
#[derive(Debug, Clone)]
pub(super) struct YamlDocument {
    file: String,
    root: Node,
}

impl YamlDocument {
    /// Reads a file. `description` names it in errors (`the configuration`).
    ///
    /// # Errors
    /// The file cannot be read, is too large, or is not YAML.
    pub(super) fn open(path: &Path, description: &str) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let unreadable = |reason: String| {
            ConfigError::new(vec![ConfigProblem {
                file: file.clone(),
                position: None,
                path: String::new(),
                message: format!("cannot read {description}: {reason}"),
            }])
        };
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|opened| opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(unreadable(format!(
                "the file is larger than {MAX_FILE_BYTES} bytes"
            )));
        }
        Self::parse(file, &text)
    }

    pub(super) fn parse(file: String, text: &str) -> Result<Self, ConfigError> {
        match tree::parse(text) {
            Ok(root) => Ok(Self { file, root }),
            Err(error) => Err(ConfigError::new(vec![ConfigProblem {
                file,
                position: error.location().and_then(SourcePosition::from_location),
                path: String::new(),
                message: format!("not valid YAML: {}", parser_message(&error)),
            }])),
        }
    }

    /// Deserializes the content.
    ///
    /// # Errors
    /// Returns everything that does not fit the type, each with its position.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        read::deserialize(&self.root).map_err(|found| {
            let complaints = found
                .into_iter()
                .map(|complaint| ConfigProblem {
                    file: self.file.clone(),
                    position: complaint.position,
                    path: complaint.path,
                    message: complaint.message,
                })
                .collect();
            ConfigError::new(complaints)
        })
    }

    /// Reports whether the file has no content but comments.
    pub(super) const fn is_empty(&self) -> bool {
        self.root.position.is_none()
    }

    /// Reports whether a path of keys exists, even if its value is null.
    pub(super) fn contains_path(&self, path: &[&str]) -> bool {
        let mut node = &self.root;
        for key in path {
            let Value::Map(entries) = &node.value else {
                return false;
            };
            let Some((_, value)) = entries.iter().find(|(k, _)| k.name == *key) else {
                return false;
            };
            node = value;
        }
        true
    }

    /// Creates an error about the value at a path.
    pub(super) fn problem(&self, path: &str, message: String) -> ConfigProblem {
        ConfigProblem {
            file: self.file.clone(),
            position: self.root.position_of(path),
            path: path.to_owned(),
            message,
        }
    }
}

/// Returns the parser's message in one line, without the position that it appends.
fn parser_message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    let bare = first.split(" at line ").next().unwrap_or(first);
    bare.trim_end_matches([':', ',', '.', ' ']).to_owned()
}
