//! The directory of one run, with everything that it writes. Deleted at its end.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};

/// Environment variable that overrides `lab/` in the build directory.
pub const DIRECTORY_VARIABLE: &str = "PARALLAX_LAB_DIR";

/// One run's directory; deleted on drop unless it is kept.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    id: String,
    keep: bool,
}

impl RunDir {
    /// Creates a unique directory, so that concurrent labs do not interfere.
    pub fn create(keep: bool) -> anyhow::Result<Self> {
        let base = match std::env::var_os(DIRECTORY_VARIABLE) {
            Some(folder) => PathBuf::from(folder),
            None => default_base()?,
        };
        Self::create_in(&base, keep)
    }

    fn create_in(base: &Path, keep: bool) -> anyhow::Result<Self> {
        let advice = format!("set {DIRECTORY_VARIABLE} to a writable directory");
        fs::create_dir_all(base).with_context(|| format!("creating {}; {advice}", base.display()))?;
        let base = base
            .canonicalize()
            .with_context(|| format!("resolving {}", base.display()))?;
        let text = base.to_str().context("the lab's directory is not valid UTF-8")?;
        // The path becomes part of a kernel command line and of LD_PRELOAD, where these characters are separators;
        // inside the machine, /run is another file system.
        if text.contains(|c: char| c.is_whitespace() || [',', ':', '"'].contains(&c))
            || base.starts_with("/run")
        {
            bail!(
                "the lab cannot use the directory {text:?} (it contains white space, comma, colon or quote, or is below /run); {advice}"
            );
        }
        let nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        let id = format!("{}-{nanos:x}", std::process::id());
        let path = base.join(&id);
        fs::create_dir(&path).with_context(|| format!("creating {}; {advice}", path.display()))?;
        Ok(Self { path, id, keep })
    }

    /// Returns the name of the run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Keeps the directory, because a message refers to a file in it.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if !self.keep {
            // A file that cannot be deleted stays in the build directory.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns `lab/` next to the build profile's directory: `target/lab` for `target/debug/parallax-lab`.
fn default_base() -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().context("finding the path of this program")?;
    let profile = exe
        .parent()
        .context("this program's path has no parent directory")?;
    // A test's own executable is in `deps/` below it.
    let profile = if profile.ends_with("deps") {
        profile.parent().unwrap_or(profile)
    } else {
        profile
    };
    Ok(profile.parent().unwrap_or(profile).join("lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_leaves_nothing_behind_unless_kept() {
        let base = tempfile::tempdir().unwrap();
        let mut kept = RunDir::create_in(base.path(), false).unwrap();
        let gone = RunDir::create_in(base.path(), false).unwrap();
        assert_ne!(kept.path(), gone.path());
        kept.keep();
        let (kept_path, gone_path) = (kept.path().to_owned(), gone.path().to_owned());
        drop((kept, gone));
        assert!(kept_path.exists());
        assert!(!gone_path.exists());
    }

    #[test]
    fn a_path_that_would_break_the_kernels_command_line_is_refused_with_the_way_out() {
        let base = tempfile::tempdir().unwrap();
        for name in ["a b", "a,b", "a:b", "a\"b"] {
            let error = RunDir::create_in(&base.path().join(name), false).unwrap_err();
            assert!(error.to_string().contains(DIRECTORY_VARIABLE), "{error}");
        }
    }
}
