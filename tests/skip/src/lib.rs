//! Reports tests that cannot run on this machine, so that a skipped test is never mistaken for a passed one.
//!
//! With `PARALLAX_STRICT=1` a skip is a failure. Otherwise it is appended as a line `name<TAB>reason<TAB>command` to
//! the file in `PARALLAX_SKIPPED`, which `tests/run-suites` prints at the end. Without such a file the line is written
//! to stderr, bypassing the capture of the test harness.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
};

/// Maximum length of a name, reason or command, in characters.
const MAX_PART_CHARS: usize = 300;
/// Maximum size of the file in bytes; `tests/run-suites` fails when it is full.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Reports that a test, or part of it, does not run.
///
/// # Panics
/// With `PARALLAX_STRICT=1`, and if the file cannot be written.
pub fn skip(name: &str, reason: &str, command: &str) {
    assert!(
        env::var_os("PARALLAX_STRICT").is_none_or(|strict| strict != "1"),
        "PARALLAX_STRICT=1 and {name} cannot run: {reason}; run it with: {command}"
    );
    let line = line(name, reason, command);
    let written = match env::var_os("PARALLAX_SKIPPED") {
        Some(file) => append(Path::new(&file), &line),
        None => io::stderr().write_all(format!("SKIPPED: {line}").as_bytes()),
    };
    if let Err(error) = written {
        panic!("{name} cannot run ({reason}), and the skip cannot be reported: {error}");
    }
}

/// Reports whether an environment variable disables a test: `skip` does and is reported; `later` does without a report,
/// because `tests/run-suites` runs the test in a separate suite.
///
/// # Panics
/// Like [`skip`].
#[must_use]
pub fn is_skipped(name: &str, variable: &str, command: &str) -> bool {
    match env::var(variable).as_deref() {
        Ok("skip") => {
            skip(name, &format!("{variable}=skip"), command);
            true
        }
        Ok("later") => true,
        _ => false,
    }
}

/// Builds a single line, whatever the parts contain.
fn line(name: &str, reason: &str, command: &str) -> String {
    let parts = [name, reason, command].map(|part| {
        part.chars()
            .take(MAX_PART_CHARS)
            .map(|character| if character.is_control() { ' ' } else { character })
            .collect::<String>()
    });
    parts.join("\t") + "\n"
}

/// Appends in a single write, because several test processes share the file.
fn append(file: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    if file.metadata()?.len() + line.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("the file is full"));
    }
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_line_of_three_fields_whatever_it_contains() {
        let long = "x".repeat(MAX_PART_CHARS + 1);
        let line = line("a\tname", "two\nlines", &long);
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(line.trim_end().split('\t').count(), 3);
        assert!(line.starts_with("a name\ttwo lines\t"));
        assert!(line.len() < 2 * MAX_PART_CHARS);
    }

    #[test]
    fn reports_are_appended_until_the_file_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skipped");
        append(&file, "one\n").unwrap();
        append(&file, "two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        let rest = usize::try_from(MAX_FILE_BYTES).unwrap();
        assert!(append(&file, &"x".repeat(rest)).is_err());
    }
}
