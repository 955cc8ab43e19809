//! `checkpoint`: storage of the state that survives a restart.

use std::path::{Path, PathBuf};

use parallax_model::InvalidName;
use serde::Deserialize;

use crate::checkpoint::CheckpointOptions;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct RawCheckpoint {
    /// `NAMESPACE/NAME`.
    config_map: Option<String>,
    file: Option<PathBuf>,
}

/// Returns the options if exactly one storage is named; otherwise reports an error to `wrong`.
pub(super) fn validate(
    raw: RawCheckpoint,
    folder: &Path,
    wrong: &mut impl FnMut(&str, String),
) -> Option<CheckpointOptions> {
    match (raw.config_map, raw.file) {
        (Some(key), None) => key
            .parse()
            .map_err(|error: InvalidName| wrong("checkpoint.configMap", error.to_string()))
            .ok()
            .map(CheckpointOptions::ConfigMap),
        (None, Some(file)) if file.file_name().is_some() => Some(CheckpointOptions::File(folder.join(file))),
        (None, Some(_)) => {
            wrong("checkpoint.file", "expected the name of a file".to_owned());
            None
        }
        (Some(_), Some(_)) => {
            wrong("checkpoint", "expected configMap or file, found both".to_owned());
            None
        }
        (None, None) => {
            wrong(
                "checkpoint",
                "expected configMap: NAMESPACE/NAME or file: PATH".to_owned(),
            );
            None
        }
    }
}
