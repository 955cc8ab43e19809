//! `parallax replay`: diagnoses a recorded stream.

use std::{
    io::{BufRead, Read, Write},
    path::PathBuf,
};

use parallax_diagnosis::replay::Replay;

use super::recording::Input;
use crate::exit::Failure;

/// Longest accepted line; the longest line of a recording is the topology of the largest cluster.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// Diagnose a recorded stream.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recordings, one JSON object per line, gzipped or not: files or directories of segments, in the given order; `-`
    /// reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object per event instead of sentences.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = Input::expand(&args.files)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match replay(&inputs, &mut out, args) {
        // A closed pipe, as with `head`, is not an error.
        Err(ReplayError::Write(e)) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::Indeterminate(error.to_string())),
        Ok(()) => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
enum ReplayError {
    #[error("cannot open {input}: {source}")]
    Open { input: String, source: std::io::Error },
    #[error("cannot read line {line} of {input}: {source}")]
    Read {
        input: String,
        line: usize,
        source: std::io::Error,
    },
    #[error("line {line} of {input} is longer than {MAX_LINE_BYTES} bytes; the input is not a recording")]
    LineTooLong { input: String, line: usize },
    #[error("no line of the input belongs to a recording")]
    NoRecording,
    #[error("cannot write the verdicts: {0}")]
    Write(#[from] std::io::Error),
}

fn replay(inputs: &[Input], out: &mut impl Write, args: &Args) -> Result<(), ReplayError> {
    let mut replay = Replay::new();
    let mut recordings = 0_u64;
    let mut print_events = |events: Vec<String>| -> std::io::Result<()> {
        for event in &events {
            recordings += u64::from(event.starts_with(TRIAL_EVENT_PREFIX));
            print(event, out, args)?;
        }
        Ok(())
    };
    for input in inputs {
        for_each_line(input, |number, line| print_events(replay.read_line(number, line)))?;
    }
    print_events(replay.finish())?;
    out.flush()?;
    if recordings == 0 {
        Err(ReplayError::NoRecording)
    } else {
        Ok(())
    }
}

/// Passes each line of an input to `take`, with its number.
fn for_each_line(
    input: &Input,
    mut take: impl FnMut(usize, &str) -> std::io::Result<()>,
) -> Result<(), ReplayError> {
    let name = || input.to_string();
    let mut reader = input.open().map_err(|source| ReplayError::Open {
        input: name(),
        source,
    })?;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = match (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(read) => read,
            // A recorder that was killed leaves its file truncated; the lines before the end are still valid.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                tracing::warn!(input = %input, line = number, "the recording is truncated here; using the lines before");
                line.len()
            }
            Err(source) => {
                return Err(ReplayError::Read {
                    input: name(),
                    line: number,
                    source,
                });
            }
        };
        if read == 0 {
            break;
        }
        if !line.ends_with(b"\n") && read as u64 == MAX_LINE_BYTES {
            return Err(ReplayError::LineTooLong {
                input: name(),
                line: number,
            });
        }
        take(number, String::from_utf8_lossy(&line).trim_end())?;
    }
    Ok(())
}

/// Prefix of the event that ends each trial.
const TRIAL_EVENT_PREFIX: &str = r#"{"type":"trial""#;

/// Prints an event as JSON or as a sentence.
fn print(event: &str, out: &mut impl Write, args: &Args) -> std::io::Result<()> {
    if args.json {
        writeln!(out, "{event}")
    } else {
        writeln!(out, "{}", sentence(event))
    }
}

/// Renders one event as a sentence. An unknown kind of event is printed as it is, so that it does not vanish.
fn sentence(event: &str) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(event) else {
        return event.to_owned();
    };
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let at = format!(
        "trial {}  {:>8.1} s",
        value["trial"],
        value["t"].as_f64().unwrap_or_default()
    );
    let members = |value: &serde_json::Value| -> String {
        let names: Vec<_> = value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|m| m.as_str())
            .collect();
        names.join(" → ")
    };
    let region = |region: &serde_json::Value| -> String {
        let name = region[0].as_str().unwrap_or_default();
        format!("{name} {}", members(&region[1])).trim().to_owned()
    };
    match value["type"].as_str() {
        Some("verdict") if !value["closed_t"].is_null() => {
            format!("{at}  closed: {} {}", text("region"), members(&value["members"]))
        }
        Some("verdict") => {
            let class: Vec<_> = value["class"]
                .as_array()
                .into_iter()
                .flatten()
                .map(region)
                .collect();
            let causes = members(&value["causes"]).replace(" → ", ", ");
            let tie = if class.len() > 1 {
                format!("  indistinguishable: {}", class.join(", "))
            } else {
                String::new()
            };
            format!(
                "{at}  {} {}  {:.4}  [{causes}]{tie}",
                text("region"),
                members(&value["members"]),
                value["probability"].as_f64().unwrap_or_default(),
            )
        }
        Some("next_probe") => {
            let to = ["backend", "dst_node", "name"]
                .iter()
                .find_map(|field| value[field].as_str());
            let to = to.map_or_else(String::new, |to| format!(" to {to}"));
            let regions: Vec<_> = value["separates"]
                .as_array()
                .into_iter()
                .flatten()
                .map(region)
                .collect();
            let purpose = match regions.as_slice() {
                [] => text("reason"),
                [one] => format!("would confirm {one} or rule it out"),
                [one, rest @ ..] => format!("would separate {one} from {}", rest.join(" and ")),
            };
            format!(
                "{at}  next probe: {} from {}{to}, {purpose}",
                text("channel"),
                text("node")
            )
        }
        Some("unexplained") => format!("{at}  no single cause explains this: {}", value["cells"]),
        Some("malformed") => format!("line {}: {}; skipped", value["line"], text("reason")),
        Some("gap") => format!(
            "trial {}  {} lines are missing here: the recorder could not write them in time",
            value["trial"], value["lines"]
        ),
        Some("engine") => engine_sentence(&value),
        Some("trial") => {
            let likeliest = value["likeliest"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|leaning| {
                    format!(
                        "; too little evidence for a verdict, likeliest: {} {:.4}",
                        join_words(leaning["class"].as_array().into_iter().flatten().map(region)),
                        leaning["probability"].as_f64().unwrap_or_default()
                    )
                });
            format!(
                "trial {}  {} observations, {} malformed, {} verdicts{}",
                value["trial"],
                value["observations"],
                value["malformed"],
                value["verdicts"],
                likeliest.collect::<String>()
            )
        }
        _ => event.to_owned(),
    }
}

/// Says which engine judged the recording, and which one when it was made.
fn engine_sentence(value: &serde_json::Value) -> String {
    let recorded = value["recorded"].as_u64().map_or_else(
        || "a version that the recording does not state".to_owned(),
        |version| format!("version {version}"),
    );
    format!(
        "trial {}  judged by version {} of the engine; while it was recorded, by {recorded}",
        value["trial"], value["judged"]
    )
}

fn join_words(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
