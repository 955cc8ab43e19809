//! The library that user-mode Linux needs on CPUs whose XSAVE area is larger than its buffer (see [`uml_xstate`]).

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::Context;
use uml_xstate::{LIBRARY, UML_AREA, host_area};

use crate::run_dir::RunDir;

/// Whether to preload the library: `always` or `never`; if unset, only where it is needed.
const PRELOAD_VARIABLE: &str = "PARALLAX_LAB_XSTATE";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreloadLibrary {
    WhereNeeded,
    Always,
    Never,
}

/// Invalid value of the environment variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{PRELOAD_VARIABLE} is {0:?}: expected always or never, or unset it")]
pub struct InvalidSetting(String);

impl PreloadLibrary {
    fn from_setting(text: Option<&str>) -> Result<Self, InvalidSetting> {
        match text {
            None | Some("") => Ok(Self::WhereNeeded),
            Some("always") => Ok(Self::Always),
            Some("never") => Ok(Self::Never),
            Some(other) => Err(InvalidSetting(other.to_owned())),
        }
    }

    /// Reports whether to preload it on a machine with an area of that size.
    const fn is_needed(self, host_area: usize) -> bool {
        match self {
            Self::WhereNeeded => host_area > UML_AREA,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Returns `LD_PRELOAD` for `linux.uml`, if it is needed; `program` is this crate's binary.
pub(super) fn preload(program: &Path, run: &RunDir) -> anyhow::Result<Option<OsString>> {
    let setting = env::var_os(PRELOAD_VARIABLE);
    let setting = setting.as_ref().map(|text| text.to_string_lossy());
    if !PreloadLibrary::from_setting(setting.as_deref())?.is_needed(host_area()) {
        return Ok(None);
    }
    let library = find(program).with_context(|| {
        format!(
            "user-mode Linux needs {LIBRARY} here (an XSAVE area has {} bytes, its buffer {UML_AREA}), which is not next to \
             {}; build it with: cargo build --workspace",
            host_area(),
            program.display()
        )
    })?;
    // Paths in the variable are separated by white space and colons, which a run's path does not contain.
    let link = run.file(LIBRARY);
    symlink(&library, &link)
        .with_context(|| format!("linking {} to {}", link.display(), library.display()))?;
    Ok(Some(prepend(&link, env::var_os("LD_PRELOAD").as_deref())))
}

/// Returns advice if a machine's log shows that it needed the library.
pub(super) fn hint(log: &[u8]) -> Option<String> {
    const REFUSED: &[u8] = b"ptrace set fp regs failed, errno = 14";
    log.windows(REFUSED.len()).any(|line| line == REFUSED).then(|| {
        format!(
            "the kernel of this machine refuses its XSAVE area, which is too short ({UML_AREA} of {} bytes); run it with \
             {PRELOAD_VARIABLE}=always",
            host_area()
        )
    })
}

/// Finds it in `deps/`, where cargo builds it with every build of this crate's binary, or next to the binary.
fn find(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let library = [folder.join("deps").join(LIBRARY), folder.join(LIBRARY)];
    library.into_iter().find(|file| file.is_file())
}

/// Puts the library before what is preloaded already.
fn prepend(library: &Path, already: Option<&OsStr>) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(already) = already.filter(|already| !already.is_empty()) {
        list.push(":");
        list.push(already);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_preloaded_where_an_area_is_larger_than_the_buffer_unless_the_setting_says_otherwise() {
        let wanted = |text, area| PreloadLibrary::from_setting(text).unwrap().is_needed(area);
        assert!(wanted(None, 11_008));
        assert!(!wanted(None, UML_AREA));
        assert!(!wanted(Some(""), 832));
        assert!(wanted(Some("always"), 832));
        assert!(!wanted(Some("never"), 11_008));
        let error = PreloadLibrary::from_setting(Some("yes")).unwrap_err().to_string();
        assert!(
            error.contains(PRELOAD_VARIABLE) && error.contains("always or never"),
            "{error}"
        );
    }

    #[test]
    fn the_library_is_taken_from_where_cargo_always_builds_it_or_from_beside_the_binary() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("parallax-lab");
        assert_eq!(find(&program), None);
        std::fs::write(folder.path().join(LIBRARY), "").unwrap();
        assert_eq!(find(&program), Some(folder.path().join(LIBRARY)));
        std::fs::create_dir(folder.path().join("deps")).unwrap();
        std::fs::write(folder.path().join("deps").join(LIBRARY), "").unwrap();
        assert_eq!(find(&program), Some(folder.path().join("deps").join(LIBRARY)));
    }

    #[test]
    fn a_machine_that_died_of_its_xsave_area_says_so() {
        let log = b"\xff boot\nuserspace - ptrace set fp regs failed, errno = 14\nKernel panic";
        assert!(hint(log).unwrap().contains("PARALLAX_LAB_XSTATE=always"));
        assert_eq!(hint(b"userspace - ptrace set fp regs failed, errno = 3"), None);
    }

    #[test]
    fn what_is_preloaded_already_stays_behind_it() {
        let library = Path::new("/lab/x.so");
        assert_eq!(prepend(library, None), "/lab/x.so");
        assert_eq!(prepend(library, Some(OsStr::new(""))), "/lab/x.so");
        assert_eq!(
            prepend(library, Some(OsStr::new("/a.so /b.so"))),
            "/lab/x.so:/a.so /b.so"
        );
    }
}
