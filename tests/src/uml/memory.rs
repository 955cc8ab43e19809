//! Location of a machine's memory: an unnamed file, which user-mode Linux also maps as executable.
//!
//! User-mode Linux uses `TMPDIR` or, if that is not set, `/dev/shm` if it is a tmpfs. It exits at once if that is
//! mounted `noexec`, and with a bus error when it is full (`arch/um/os-Linux/mem.c`). In containers, `/dev/shm` is
//! often both: mounted `noexec`, and limited to 64 MiB.

use std::{
    env,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

/// Properties of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FolderMemory {
    /// Free space in bytes for this user.
    free_bytes: u64,
    /// Whether its files may be mapped as executable.
    allows_exec: bool,
}

impl FolderMemory {
    /// Returns `None` if the directory is absent or not writable.
    fn of(folder: &Path) -> Option<Self> {
        access(folder, Access::WRITE_OK | Access::EXEC_OK).ok()?;
        let about = statvfs(folder).ok()?;
        Some(Self {
            free_bytes: about.f_bavail.saturating_mul(about.f_frsize),
            allows_exec: !about.f_flag.contains(StatVfsMountFlags::NOEXEC),
        })
    }
}

/// Selects a directory for a machine of that size: `TMPDIR`, `/dev/shm` or `/tmp`, or else `last`, the run's directory.
pub(super) fn folder(last: &Path, bytes: u64) -> PathBuf {
    choose(
        env::var_os("TMPDIR").map(PathBuf::from),
        last,
        bytes,
        FolderMemory::of,
    )
}

fn choose(
    set: Option<PathBuf>,
    last: &Path,
    bytes: u64,
    offer: impl Fn(&Path) -> Option<FolderMemory>,
) -> PathBuf {
    let usual = ["/dev/shm", "/tmp"].map(PathBuf::from);
    let will_do =
        |folder: &PathBuf| offer(folder).is_some_and(|offer| offer.allows_exec && offer.free_bytes >= bytes);
    let mut all = set.into_iter().chain(usual);
    all.find(will_do).unwrap_or_else(|| last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn chosen(set: Option<&str>, shm: Option<FolderMemory>, tmp: Option<FolderMemory>) -> PathBuf {
        let offer = |folder: &Path| match folder.to_str().unwrap() {
            "/dev/shm" => shm,
            "/tmp" => tmp,
            "/good" => Some(offer(1024, true)),
            _ => None,
        };
        choose(set.map(PathBuf::from), Path::new("/run"), 512 * MIB, offer)
    }

    const fn offer(mib: u64, code: bool) -> FolderMemory {
        FolderMemory {
            free_bytes: mib * MIB,
            allows_exec: code,
        }
    }

    #[test]
    fn the_memory_goes_to_the_first_folder_that_has_room_for_it_and_may_hold_code() {
        let (good, small, data) = (offer(512, true), offer(64, true), offer(1024, false));
        assert_eq!(chosen(None, Some(good), Some(good)), Path::new("/dev/shm"));
        assert_eq!(chosen(None, Some(small), Some(good)), Path::new("/tmp"));
        assert_eq!(chosen(None, Some(data), Some(good)), Path::new("/tmp"));
        assert_eq!(chosen(None, None, Some(small)), Path::new("/run"));
    }

    #[test]
    fn a_folder_that_is_set_goes_first_if_it_will_do() {
        let good = Some(offer(512, true));
        assert_eq!(chosen(Some("/good"), good, good), Path::new("/good"));
        assert_eq!(chosen(Some("/absent"), good, good), Path::new("/dev/shm"));
    }

    #[test]
    fn a_folder_that_is_absent_offers_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(FolderMemory::of(folder.path()).is_some_and(|offer| offer.free_bytes > 0));
        assert_eq!(FolderMemory::of(&folder.path().join("absent")), None);
    }
}
