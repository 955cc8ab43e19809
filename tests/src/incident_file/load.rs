//! Finds and parses incident files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{InvalidIncident, lines::line_of};
use crate::incident::Incident;

/// Error of loading an incident file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory cannot be read.
    #[error("cannot read the directory of incidents {path}: {source}")]
    Folder {
        /// The directory.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// Unknown incident.
    #[error("unknown incident {id:?}; known incidents: {known}")]
    Unknown {
        /// The given id.
        id: String,
        /// The known ids.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file is not a valid incident.
    #[error("{path}:{line}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1; 0 if the parser has none.
        line: u64,
        /// The expectation.
        message: String,
    },
    /// The file is inconsistent.
    #[error("{path}:{line}: {source}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, from 1, of the field or its nearest parent.
        line: u64,
        /// The field and the expectation.
        source: InvalidIncident,
    },
}

/// Parses the text of an incident; `path` is used in messages only.
pub fn parse(path: &Path, text: &str) -> Result<Incident, LoadError> {
    let incident: Incident = serde_saphyr::from_str(text).map_err(|error| {
        let plain = error.without_snippet();
        LoadError::Syntax {
            path: path.to_owned(),
            line: plain.location().map_or(0, |location| location.line()),
            message: plain.to_string(),
        }
    })?;
    incident.check().map_err(|source| LoadError::Invalid {
        path: path.to_owned(),
        line: line_of(text, source.field()).unwrap_or(1),
        source,
    })?;
    Ok(incident)
}

/// Returns the ids of the incidents in a directory, sorted.
pub fn list(folder: &Path) -> Result<Vec<String>, LoadError> {
    let failed = |source| LoadError::Folder {
        path: folder.to_owned(),
        source,
    };
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            ids.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    ids.sort();
    Ok(ids)
}

/// Loads an incident by id from a directory, or from a file by path.
pub fn load(folder: &Path, id: &str) -> Result<Incident, LoadError> {
    let path = if id.contains('/') || Path::new(id).extension().is_some() {
        PathBuf::from(id)
    } else {
        let known = list(folder)?;
        if !known.iter().any(|name| name == id) {
            return Err(LoadError::Unknown {
                id: id.to_owned(),
                known: known.join(", "),
            });
        }
        folder.join(format!("{id}.yaml"))
    };
    let text = fs::read_to_string(&path).map_err(|source| LoadError::Read {
        path: path.clone(),
        source,
    })?;
    let incident = parse(&path, &text)?;
    if path
        .file_stem()
        .is_none_or(|stem| stem.to_string_lossy() != incident.id)
    {
        return Err(LoadError::Invalid {
            path,
            line: line_of(&text, "id").unwrap_or(1),
            source: InvalidIncident::new("id", format!("expected the file's name, got {:?}", incident.id)),
        });
    }
    Ok(incident)
}
