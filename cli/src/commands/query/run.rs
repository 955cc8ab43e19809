//! `parallax run`: ask now, from everywhere, and say what came of it.

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

/// A stream that broke off is taken up again for so long.
const AGAIN: Duration = Duration::from_secs(5);
/// How long another aggregator may take to lead after one that died, with some to spare.
const TAKEOVER: Duration = Duration::from_secs(20);
/// Time between two requests meanwhile.
const PAUSE: Duration = Duration::from_millis(500);

/// Vantages listed before the rest is counted.
const LISTED: usize = 40;

/// Ask for a target at once, from all vantages, and name the cause where it fails.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 it is reachable from everywhere, 1 it is not, 2 usage or not allowed, 3 it could not be told."
)]
pub(crate) struct Args {
    /// The target.
    #[arg(value_name = "URL")]
    url: String,
    /// From where [default: everywhere].
    #[arg(long, value_enum)]
    from: Option<RunOrigin>,
    /// How often, a second apart.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    rounds: u32,
    /// Deadline of one probe in milliseconds [default: the target's own].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=60_000))]
    timeout_ms: Option<u64>,
    /// Each result as one JSON object a line, the judged run last.
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
                // It went with the aggregator that led. Asking again costs nothing but probes.
                say("the aggregator that made the run is gone; the next one makes it again");
                let again = begin(&client, &request).await?;
                finish(&client, again, args.json).await
            }
        }
    })
}

/// Asks for the run. While one aggregator follows another nobody makes any.
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

/// For whoever watches; what is read by programs goes elsewhere.
fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    // Whoever closed it does not want to see it.
    let _ = writeln!(err, "parallax: {text}");
}

/// Follows a run to its end and says what came of it.
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

/// What became of following a run.
enum RunEnd {
    Judged(Box<PreflightRun>),
    /// Whoever answers does not know it.
    Lost(String),
}

/// Everything a run says, to its judgement. A stream that breaks off is taken up again: the aggregator may go on
/// without us.
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
            // It is there and does not know the run: no use in waiting.
            Err(Failure::Usage(said)) => {
                progress.clear();
                return Ok(RunEnd::Lost(said));
            }
            Err(failure) if broken.is_some_and(|since| since.elapsed() > AGAIN) => return Err(failure),
            Err(_) => {}
        }
        if broken.get_or_insert_with(Instant::now).elapsed() > AGAIN {
            return Err(Failure::CouldNot(
                "the aggregator breaks off each time before the run ends; see its log, then run it again"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The lines of one stream; the run, if they reach its end. A stream begins with the first line again.
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

/// A line that is written over, where a person looks.
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
        // Whoever closed it does not want to see it.
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
        |first| format!("the first after {first}"),
    );
    let lasted = run.ended.map_or(Micros(0), |ended| ended - run.asked);
    let _ = writeln!(
        out,
        "  {}: {} of {} probes came back, {first}, all within {lasted}\n",
        run.id, run.answered, run.expected
    );
    let mut table = TextTable::new(&["VANTAGE", "PLACEMENT", "FAILED", "OF", "QUICKEST", "SAID"]);
    for part in run.vantages.iter().take(LISTED) {
        let failed = part.failures.to_string();
        let colour = if part.failures > 0 { "1;31" } else { "32" };
        let (placement, of) = (part.placement.to_string(), part.planned.to_string());
        let quickest = part
            .quickest
            .map_or_else(|| "-".to_owned(), |quickest| quickest.to_string());
        let said = match &part.said {
            Some(said) => said.clone(),
            None if part.probes < part.planned => format!("{} of {} came back", part.probes, part.planned),
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
        // Its times are the run's own rounds, all of which were failing.
        let until = incident
            .since
            .plus(Micros(run.interval.0 * u64::from(run.rounds)));
        out.push_str(&parallax_terminal::incident(incident, until, style));
    }
    out
}
