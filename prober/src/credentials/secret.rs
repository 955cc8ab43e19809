//! Bytes of a secret: overwritten when dropped, and never printed.

use std::{fmt, fs::File, io::Read, path::Path};

use zeroize::Zeroizing;

/// Maximum size of a file. A chain of certificates has a few thousand bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// The content of a file with a secret.
pub(super) struct Secret(Zeroizing<Vec<u8>>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

impl Secret {
    /// Reads a file without its final newline. The error names the file, never its content.
    ///
    /// A local file of a few bytes: reading it takes less time than handing it to another thread.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        // Checked before it is opened, because opening a pipe waits for its writer.
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(format!("expected {} to be a file", path.display()));
        }
        let file = File::open(path).map_err(failed)?;
        // Large enough from the start: a buffer that grows leaves copies behind.
        let capacity = usize::try_from(metadata.len().min(MAX_BYTES)).unwrap_or_default() + 1;
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(format!(
                "expected {} to have at most {MAX_BYTES} bytes",
                path.display()
            ));
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        Ok(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_without_its_final_newline_and_not_printed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for (content, expected) in [
            ("s3cret", "s3cret"),
            ("s3cret\n", "s3cret"),
            ("s3cret\r\n", "s3cret"),
            ("a\n\n", "a\n"),
        ] {
            std::fs::write(&path, content).unwrap();
            let secret = Secret::read(&path).unwrap();
            assert_eq!(secret.bytes(), expected.as_bytes());
            assert_eq!(format!("{secret:?}"), "Secret(redacted)");
        }
    }

    #[test]
    fn what_is_no_small_file_is_refused_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        std::fs::write(&large, vec![b'x'; 70_000]).unwrap();
        for (path, expected) in [
            (folder.path(), "to be a file"),
            (&large, "at most 65536 bytes"),
            (&folder.path().join("none"), "No such file"),
        ] {
            let error = Secret::read(path).unwrap_err();
            assert!(
                error.contains(expected) && error.contains(&path.display().to_string()),
                "{error}"
            );
        }
    }
}
