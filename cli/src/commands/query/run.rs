//! `parallax run`: probes a target now and reports the result.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write as _},
    time::{Duration, Instant},
};

use clap::ValueEnum;
use parallax_api::runs::{PreflightRun, RunEvent, RunOutcome, RunRequest, RunVantages};
use parallax_model::{Micros, Outcome};
use parallax_terminal::ColorMode;

use super::{ApiClient, ServerArgs, client::LineStream, output_format::TextTable, wait};
use crate::{
    commands::{color, print},
    exit::Failure,
};

/// How long to retry a broken stream.
const AGAIN: Duration = Duration::from_secs(5);
/// How long to wait for another aggregator to take over the lease, with a margin.
const TAKEOVER: Duration = Duration::from_secs(20);
/// Delay between retries in the meantime.
const PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of vantages in the table; the rest is only counted.
const LISTED: usize = 40;

/// Probe a target now from every vantage, and name the cause if it fails.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 reachable from everywhere, 1 not reachable, 2 usage or not allowed, 3 unknown."
)]
pub(crate) struct Args {
    /// URL of the target, or `mesh`.
    #[arg(value_name = "URL")]
    url: String,
    /// Vantages to probe from [default: all].
    #[arg(long, value_enum)]
    from: Option<RunOrigin>,
    /// Number of probes per vantage, one second apart.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Timeout of one probe in milliseconds [default: the target's own].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=60_000))]
    timeout_ms: Option<u64>,
    /// Print each result as one JSON object per line, the judged run last.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RunOrigin {
    /// Every node of the cluster.
    Nodes,
    /// One node of each zone.
    Zones,
    /// The vantages outside the cluster.
    Outside,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    let request = RunRequest {
        url: args.url.clone(),
        from: match args.from {
            None => RunVantages::All,
            Some(RunOrigin::Nodes) => RunVantages::Nodes,
            Some(RunOrigin::Zones) => RunVantages::Zones,
            Some(RunOrigin::Outside) => RunVantages::Outside,
        },
        rounds: Some(args.rounds),
        timeout_ms: args.timeout_ms,
        challenge: None,
        names: None,
    };
    wait(async {
        let run = begin(&client, &request).await?;
        match follow(&client, &run, args.json).await? {
            RunEnd::Judged(run) => conclude(&run, args.json),
            RunEnd::Lost(_) => {
                // The run was lost with the previous leader. A new one costs nothing but probes.
                say("the aggregator that executed the run is gone; repeating the run on the new leader");
                let again = begin(&client, &request).await?;
                finish(&client, again, args.json).await
            }
        }
    })
}

/// Requests the run, and retries while no aggregator leads.
async fn begin(client: &ApiClient, request: &RunRequest) -> Result<PreflightRun, Failure> {
    let since = Instant::now();
    let mut said = false;
    loop {
        match client.post(&["v1", "runs"], request).await {
            Err(Failure::NotNow(reason)) if since.elapsed() < TAKEOVER => {
                if !std::mem::replace(&mut said, true) {
                    say(&format!("waiting: {reason}"));
                }
                tokio::time::sleep(PAUSE).await;
            }
            begun => return begun,
        }
    }
}

/// Prints a message for a person on stderr; stdout is for programs.
fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    // A closed stderr means that the message is not wanted.
    let _ = writeln!(err, "parallax: {text}");
}

/// Follows a run to its end and reports its result.
pub(super) async fn finish(client: &ApiClient, run: PreflightRun, json: bool) -> Result<(), Failure> {
    match follow(client, &run, json).await? {
        RunEnd::Judged(run) => conclude(&run, json),
        RunEnd::Lost(said) => Err(Failure::CouldNot(format!("the run is lost: {said}"))),
    }
}

fn conclude(run: &PreflightRun, json: bool) -> Result<(), Failure> {
    if !json {
        print(&report(run, color()))?;
    }
    match run.outcome {
        Some(RunOutcome::Passed) => Ok(()),
        Some(RunOutcome::Failed) => Err(Failure::No),
        Some(RunOutcome::Unknown) | None => Err(Failure::CouldNot(run.sentence.clone())),
    }
}

/// How following a run ended.
enum RunEnd {
    Judged(Box<PreflightRun>),
    /// The server does not know the run.
    Lost(String),
}

/// Follows the events of a run until it is judged. A broken stream is reopened, because the aggregator continues the
/// run.
async fn follow(client: &ApiClient, run: &PreflightRun, json: bool) -> Result<RunEnd, Failure> {
    let path = ["v1", "runs", run.id.as_str()];
    let mut progress = ProgressLine::new(run.expected, !json);
    let (mut shown, mut broken) = (0, None::<Instant>);
    loop {
        match client.lines(&path).await {
            Ok(mut lines) => {
                if let Some(run) = lines_of(&mut lines, json, &mut shown, &mut progress).await? {
                    progress.clear();
                    return Ok(RunEnd::Judged(Box::new(run)));
                }
            }
            // The aggregator is reachable and does not know the run: waiting will not help.
            Err(Failure::Usage(said)) => {
                progress.clear();
                return Ok(RunEnd::Lost(said));
            }
            Err(failure) if broken.is_some_and(|since| since.elapsed() > AGAIN) => return Err(failure),
            Err(_) => {}
        }
        if broken.get_or_insert_with(Instant::now).elapsed() > AGAIN {
            return Err(Failure::CouldNot(
                "the aggregator keeps closing the stream before the run ends; see its log, then try again"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Reads the lines of one stream, and returns the judged run if it arrives. Each stream starts at the first line.
async fn lines_of(
    lines: &mut LineStream,
    json: bool,
    shown: &mut usize,
    progress: &mut ProgressLine,
) -> Result<Option<PreflightRun>, Failure> {
    let mut number = 0;
    while let Some(line) = lines.next().await {
        number += 1;
        let event: RunEvent = serde_json::from_slice(&line).map_err(Failure::could_not)?;
        if number > *shown {
            *shown = number;
            if json {
                print(&format!("{}\n", String::from_utf8_lossy(&line)))?;
            }
            progress.see(&event);
        }
        if let RunEvent::Done { run } = event {
            return Ok(Some(*run));
        }
    }
    Ok(None)
}

/// Progress line that is overwritten in place, on terminals only.
struct ProgressLine {
    visible: bool,
    expected: u64,
    came: u64,
    failed: u64,
}

impl ProgressLine {
    fn new(expected: u64, wanted: bool) -> Self {
        Self {
            visible: wanted && std::io::stderr().is_terminal(),
            expected,
            came: 0,
            failed: 0,
        }
    }

    fn see(&mut self, event: &RunEvent) {
        let RunEvent::Result { outcome, .. } = event else {
            return;
        };
        self.came += 1;
        self.failed += u64::from(matches!(outcome, Outcome::Failed { .. }));
        if self.visible {
            Self::write(&format!(
                "\r\u{1b}[K{} of {} probes, {} failed",
                self.came, self.expected, self.failed
            ));
        }
    }

    fn clear(&self) {
        if self.visible {
            Self::write("\r\u{1b}[K");
        }
    }

    fn write(text: &str) {
        let mut err = std::io::stderr().lock();
        // A closed stderr means that the message is not wanted.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

fn report(run: &PreflightRun, style: ColorMode) -> String {
    let sign = match run.outcome {
        Some(RunOutcome::Passed) => style.paint("32", "✓"),
        Some(RunOutcome::Failed) => style.paint("1;31", "✗"),
        Some(RunOutcome::Unknown) | None => style.paint("33", "?"),
    };
    let mut out = format!("{sign} {}: {}\n", run.target, run.sentence);
    let first = run.first_probe.map_or_else(
        || "none started".to_owned(),
        |first| format!("first after {first}"),
    );
    let lasted = run.ended.map_or(Micros(0), |ended| ended - run.asked);
    let _ = writeln!(
        out,
        "  {}: {} of {} results, {first}, all within {lasted}\n",
        run.id, run.answered, run.expected
    );
    let mut table = TextTable::new(&["VANTAGE", "PLACEMENT", "FAILED", "OF", "FASTEST", "FAILURE"]);
    for part in run.vantages.iter().take(LISTED) {
        let failed = part.failures.to_string();
        let colour = if part.failures > 0 { "1;31" } else { "32" };
        let (placement, of) = (part.placement.to_string(), part.planned.to_string());
        let quickest = part
            .quickest
            .map_or_else(|| "-".to_owned(), |quickest| quickest.to_string());
        let said = match &part.said {
            Some(said) => said.clone(),
            None if part.probes < part.planned => format!("{} of {} results", part.probes, part.planned),
            None => String::new(),
        };
        table.row([
            (part.vantage.to_string().as_str(), None),
            (placement.as_str(), None),
            (failed.as_str(), Some(style.paint(colour, &failed))),
            (of.as_str(), None),
            (quickest.as_str(), None),
            (said.as_str(), None),
        ]);
    }
    out.push_str(&table.text());
    if run.vantages.len() > LISTED {
        let _ = writeln!(out, "… and {} more vantages", run.vantages.len() - LISTED);
    }
    if let Some(incident) = &run.verdict {
        out.push('\n');
        // Its times are rounds of the run, all of which were failing.
        let until = incident
            .since
            .plus(Micros(run.interval.0 * u64::from(run.rounds)));
        out.push_str(&parallax_terminal::incident(incident, until, style));
    }
    out
}
