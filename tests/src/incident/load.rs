//! Incident files: where they are and how they are read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Incident, InvalidIncident, lines::line_of};

/// Why an incident file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder cannot be read.
    #[error("cannot read the folder of incidents {path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no such incident.
    #[error("no incident {id:?}; known are: {known}")]
    Unknown {
        /// As asked for.
        id: String,
        /// What there is.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no incident.
    #[error("{path}:{line}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1; 0 where the parser knows none.
        line: u64,
        /// What was expected.
        message: String,
    },
    /// The file contradicts itself.
    #[error("{path}:{line}: {source}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, from 1, of the field or what it is missing from.
        line: u64,
        /// Which field, and what was expected.
        source: InvalidIncident,
    },
}

/// Reads the text of an incident; `path` is for messages only.
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

/// Ids of the incidents in a folder, sorted.
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

/// Reads one incident of a folder by its id, or a file by its path.
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
