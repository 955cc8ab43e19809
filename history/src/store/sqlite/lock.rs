//! One writer per file. SQLite would let two aggregators alternate, each with half of the history and both deleting.

use std::{
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    path::Path,
};

use super::{StoreError, StoreErrorKind, with_suffix};

/// A lock on the file, released on drop; the system releases it when the process ends.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
}

impl Drop for FileLock {
    /// Unlocks explicitly: a child process inherits every open file for a moment (between `fork` and `exec`), and
    /// closing our descriptor alone would leave the lock to it.
    fn drop(&mut self) {
        // If unlocking fails, the lock ends when the last descriptor is closed.
        let _ = self.file.unlock();
    }
}

impl FileLock {
    pub(super) fn acquire(path: &Path) -> Result<Self, StoreError> {
        let name = with_suffix(path, ".lock");
        let unusable = |error: std::io::Error| {
            let (sort, advice) = match error.kind() {
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => (
                    StoreErrorKind::ReadOnly,
                    "make its folder writable for this user, or name another store.path",
                ),
                std::io::ErrorKind::StorageFull => (
                    StoreErrorKind::Full,
                    "free space on its disk; the store resumes by itself",
                ),
                _ => (
                    StoreErrorKind::Unavailable,
                    "check that its volume is mounted and its folder exists",
                ),
            };
            StoreError::new(
                sort,
                format!(
                    "cannot open the store {}: {}: {error}; {advice}",
                    path.display(),
                    name.display()
                ),
            )
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name)
            .map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder's name is only for the message; a lock without a name is a lock, too.
                let _ = Read::by_ref(&mut file).take(200).read_to_string(&mut holder);
                let holder: String = holder.chars().filter(|c| !c.is_control()).collect();
                let holder = if holder.is_empty() {
                    "another process"
                } else {
                    &holder
                };
                return Err(StoreError::new(
                    StoreErrorKind::Locked,
                    format!(
                        "cannot open the store {}: {holder} has it open; give each aggregator a store.path of its own",
                        path.display()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        // The name is optional, and a full disk must not prevent reading the history.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", process_description()));
        Ok(Self { file })
    }
}

fn process_description() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| {
        std::fs::read_to_string("/proc/sys/kernel/hostname")
            .ok()
            .map(|name| name.trim().to_owned())
    });
    match host {
        Some(host) => format!("process {} on {host}", std::process::id()),
        None => format!("process {}", std::process::id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_given_up_is_free_at_once_even_where_a_child_still_holds_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let lock = FileLock::acquire(&path).unwrap();
        let held_by_a_child = lock.file.try_clone().unwrap();
        assert!(FileLock::acquire(&path).is_err());
        drop(lock);
        FileLock::acquire(&path).unwrap();
        drop(held_by_a_child);
    }
}
