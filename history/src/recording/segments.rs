//! The files of a recording: numbered, gzip-compressed NDJSON; the oldest are deleted when the total size exceeds the
//! limit.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use parallax_model::EventTime;

/// Prefix and suffix of a segment's file name.
const FILE_PREFIX: &str = "record-";
const FILE_SUFFIX: &str = ".ndjson.gz";

/// A recording has at least this many segments at its size limit, so that deleting the oldest loses little.
const MIN_SEGMENTS: u64 = 8;
/// Maximum size of a segment: small enough to attach to a mail or an issue.
const MAX_SEGMENT_BYTES: u64 = 16 << 20;

/// The common part of a recording's file names. Names sort by time.
pub(super) fn recording_name(start: EventTime) -> String {
    format!("{FILE_PREFIX}{:016}", start.0)
}

/// Counts the bytes written to the file.
#[derive(Debug)]
struct CountingWriter {
    file: File,
    written: u64,
}

impl Write for CountingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The folder and the open segment.
#[derive(Debug)]
pub(super) struct SegmentFolder {
    dir: PathBuf,
    name: String,
    max_bytes: u64,
    next_number: u64,
    open: Option<(PathBuf, GzEncoder<CountingWriter>)>,
    /// Finished segments of this and of earlier recordings, oldest first.
    finished: VecDeque<(PathBuf, u64)>,
}

impl SegmentFolder {
    pub(super) fn open(dir: &Path, name: String, limit: u64) -> io::Result<Self> {
        if !dir.is_dir() {
            fs::create_dir(dir)?;
        }
        let mut kept = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let file = entry.file_name();
            let is_segment = file
                .to_str()
                .is_some_and(|file| file.starts_with(FILE_PREFIX) && file.ends_with(FILE_SUFFIX));
            if is_segment {
                kept.push((entry.path(), entry.metadata()?.len()));
            }
        }
        kept.sort();
        Ok(Self {
            dir: dir.to_owned(),
            name,
            max_bytes: limit,
            next_number: 0,
            open: None,
            finished: kept.into(),
        })
    }

    const fn segment_bytes(&self) -> u64 {
        let share = self.max_bytes / MIN_SEGMENTS;
        if share < MAX_SEGMENT_BYTES {
            share
        } else {
            MAX_SEGMENT_BYTES
        }
    }

    /// Starts the next segment and returns its number.
    pub(super) fn begin(&mut self) -> io::Result<u64> {
        self.finish()?;
        let mut total: u64 = self.finished.iter().map(|(_, bytes)| bytes).sum();
        while total + self.segment_bytes() > self.max_bytes {
            let Some((oldest, bytes)) = self.finished.pop_front() else {
                break;
            };
            match fs::remove_file(&oldest) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total -= bytes,
            }
        }
        let number = self.next_number;
        let path = self.dir.join(format!("{}-{number:06}{FILE_SUFFIX}", self.name));
        let file = File::options().write(true).create_new(true).open(&path)?;
        let counted = CountingWriter { file, written: 0 };
        self.open = Some((path, GzEncoder::new(counted, Compression::fast())));
        self.next_number += 1;
        Ok(number)
    }

    pub(super) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.open {
            Some((_, out)) => out.write_all(line),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether the segment has reached its size.
    pub(super) fn is_full(&self) -> bool {
        self.open
            .as_ref()
            .is_some_and(|(_, out)| out.get_ref().written >= self.segment_bytes())
    }

    /// Makes the lines written so far readable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |(_, out)| out.flush())
    }

    /// Closes the segment.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let Some((path, out)) = self.open.take() else {
            return Ok(());
        };
        let written = out.get_ref().written;
        let finished = out.finish();
        let bytes = finished.as_ref().map_or(written, |out| out.written);
        self.finished.push_back((path, bytes));
        finished.map(drop)
    }
}
