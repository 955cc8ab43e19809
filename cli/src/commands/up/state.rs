//! Default location of the state that `parallax up` keeps across restarts.

use std::{
    env,
    path::{Path, PathBuf},
};

use ring::digest;

/// Returns a file per configuration in `$XDG_STATE_HOME/parallax/`, or `None` without a home directory.
///
/// Source: the XDG Base Directory Specification; relative paths in the variable are ignored.
pub(super) fn default_file(config: &Path) -> Option<PathBuf> {
    let folder = |name| {
        let folder = PathBuf::from(env::var_os(name)?);
        folder.is_absolute().then_some(folder)
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("parallax").join(file_name(config)))
}

/// Derives the name from the path of the configuration, so that two configurations do not share a file.
fn file_name(config: &Path) -> String {
    let path = config.canonicalize().unwrap_or_else(|_| config.to_owned());
    let hash = digest::digest(&digest::SHA256, path.as_os_str().as_encoded_bytes());
    let hash = hash
        .as_ref()
        .first_chunk()
        .map_or(0, |head| u64::from_be_bytes(*head));
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    format!("{}-{hash:016x}.json", stem.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_has_a_file_of_its_own() {
        let (a, b) = (
            file_name(Path::new("/a/parallax.yaml")),
            file_name(Path::new("/b/parallax.yaml")),
        );
        assert_ne!(a, b);
        assert!(
            a.starts_with("parallax-") && a.len() == "parallax-0123456789abcdef.json".len(),
            "{a}"
        );
    }
}
