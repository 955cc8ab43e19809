//! The folder of one run: everything it writes lives there, and goes with it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, bail};

/// Says where runs live instead of `lab/` in the build folder.
pub const VARIABLE: &str = "PARALLAX_LAB_DIR";

/// One run's folder; removed when dropped unless it is kept.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    id: String,
    keep: bool,
}

impl RunDir {
    /// Makes a folder of its own, so that labs side by side do not meet.
    pub fn create(keep: bool) -> anyhow::Result<Self> {
        let base = match std::env::var_os(VARIABLE) {
            Some(folder) => PathBuf::from(folder),
            None => default_base()?,
        };
        Self::create_in(&base, keep)
    }

    fn create_in(base: &Path, keep: bool) -> anyhow::Result<Self> {
        let advice = format!("set {VARIABLE} to a folder you may write to");
        fs::create_dir_all(base).with_context(|| format!("creating {}; {advice}", base.display()))?;
        let base = base
            .canonicalize()
            .with_context(|| format!("resolving {}", base.display()))?;
        let text = base.to_str().context("the lab's folder is no UTF-8 text")?;
        // The path becomes part of a kernel command line and of LD_PRELOAD, where these separate; inside, /run is another file
        // system.
        if text.contains(|c: char| c.is_whitespace() || [',', ':', '"'].contains(&c))
            || base.starts_with("/run")
        {
            bail!(
                "the lab cannot live in {text:?} (white space, comma, colon or quote in it, or below /run); {advice}"
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

    /// Name of the run.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Leaves it behind: somebody is pointed to a file in it.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if !self.keep {
            // A file that cannot be removed is found by the next look into the build folder.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// `lab/` beside the build profile's folder: `target/debug/parallax-lab` gives `target/lab`.
fn default_base() -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().context("finding the path of this program")?;
    let profile = exe.parent().context("this program lies in no folder")?;
    // A test's own executable lies in `deps/` below it.
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
            assert!(error.to_string().contains(VARIABLE), "{error}");
        }
    }
}
