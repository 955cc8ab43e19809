//! Inputs of a replay: files, directories of segments, and standard input; plain or gzipped.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;

use crate::exit::Failure;

/// Magic number of a gzip member (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One input of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    Stdin,
    File(PathBuf),
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Input {
    /// Expands the given paths, in order; a directory stands for the recordings in it, oldest first.
    pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<Self>, Failure> {
        let mut inputs = Vec::new();
        for path in paths {
            if path == Path::new("-") {
                inputs.push(Self::Stdin);
                continue;
            }
            let refused =
                |error: io::Error| Failure::Usage(format!("cannot open {}: {error}", path.display()));
            if !std::fs::metadata(path).map_err(refused)?.is_dir() {
                inputs.push(Self::File(path.clone()));
                continue;
            }
            let mut segments = Vec::new();
            for entry in std::fs::read_dir(path).map_err(refused)? {
                let file = entry.map_err(refused)?.path();
                let name = file
                    .file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or_default();
                if name.ends_with(".ndjson") || name.ends_with(".ndjson.gz") {
                    segments.push(Self::File(file));
                }
            }
            if segments.is_empty() {
                return Err(Failure::Usage(format!(
                    "{} contains no recording (no file that ends in .ndjson or .ndjson.gz)",
                    path.display()
                )));
            }
            // Segment names sort by time.
            segments.sort_by_key(ToString::to_string);
            inputs.append(&mut segments);
        }
        Ok(inputs)
    }

    /// Opens the input and decompresses it if necessary.
    pub(super) fn open(&self) -> io::Result<Box<dyn BufRead>> {
        let raw: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin().lock()),
            Self::File(path) => Box::new(File::open(path)?),
        };
        let mut reader = BufReader::new(raw);
        if reader.fill_buf()?.starts_with(&GZIP_MAGIC) {
            Ok(Box::new(BufReader::new(MultiGzDecoder::new(reader))))
        } else {
            Ok(Box::new(reader))
        }
    }
}
