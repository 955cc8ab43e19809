//! Where `parallax up` keeps what must survive a restart.

use std::{
    env,
    path::{Path, PathBuf},
};

use ring::digest;

/// `$XDG_STATE_HOME/parallax/`, and a file for each configuration. None without a home.
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

/// Of the path of the configuration, so that two of them do not share one.
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
