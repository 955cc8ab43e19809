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

use super::{ApiClient, ServerArgs, block_on, client::LineStream, output_format::TextTable};
use crate::{
    commands::{color, print},
    exit::Failure,
};

/// How long to retry a broken stream.
const STREAM_RETRY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for another aggregator to take over the lease, with a margin.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(20);
/// Delay between retries in the meantime.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Maximum number of vantages in the table; the rest is only counted.
const MAX_LISTED_VANTAGES: usize = 40;

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
    block_on(async {
        let run = start_run(&client, &request).await?;
        match follow(&client, &run, args.json).await? {
            FollowedRun::Judged(run) => print_result(&run, args.json),
            FollowedRun::Lost(_) => {
                // The run was lost with the previous leader. A new one costs nothing but probes.
                print_status(
                    "the aggregator that executed the run is gone; repeating the run on the new leader",
                );
                let again = start_run(&client, &request).await?;
                follow_to_end(&client, again, args.json).await
            }
        }
    })
}

/// Requests the run, and retries while no aggregator leads.
async fn start_run(client: &ApiClient, request: &RunRequest) -> Result<PreflightRun, Failure> {
    let since = Instant::now();
    let mut announced = false;
    loop {
        match client.post(&["v1", "runs"], request).await {
            Err(Failure::Unavailable(reason)) if since.elapsed() < TAKEOVER_TIMEOUT => {
                if !std::mem::replace(&mut announced, true) {
                    print_status(&format!("waiting: {reason}"));
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
            begun => return begun,
        }
    }
}

/// Prints a message for a person on stderr; stdout is for programs.
fn print_status(text: &str) {
    let mut err = std::io::stderr().lock();
    // A closed stderr means that the message is not wanted.
    let _ = writeln!(err, "parallax: {text}");
}

/// Follows a run to its end and reports its result.
pub(super) async fn follow_to_end(client: &ApiClient, run: PreflightRun, json: bool) -> Result<(), Failure> {
    match follow(client, &run, json).await? {
        FollowedRun::Judged(run) => print_result(&run, json),
        FollowedRun::Lost(reason) => Err(Failure::Indeterminate(format!("the run is lost: {reason}"))),
    }
}

fn print_result(run: &PreflightRun, json: bool) -> Result<(), Failure> {
    if !json {
        print(&render(run, color()))?;
    }
    match run.outcome {
        Some(RunOutcome::Passed) => Ok(()),
        Some(RunOutcome::Failed) => Err(Failure::Negative),
        Some(RunOutcome::Unknown) | None => Err(Failure::Indeterminate(run.sentence.clone())),
    }
}

/// How following a run ended.
enum FollowedRun {
    Judged(Box<PreflightRun>),
    /// The server does not know the run.
    Lost(String),
}

/// Follows the events of a run until it is judged. A broken stream is reopened, because the aggregator continues the
/// run.
async fn follow(client: &ApiClient, run: &PreflightRun, json: bool) -> Result<FollowedRun, Failure> {
    let path = ["v1", "runs", run.id.as_str()];
    let mut progress = ProgressLine::new(run.expected, !json);
    let (mut shown, mut broken) = (0, None::<Instant>);
    loop {
        match client.lines(&path).await {
            Ok(mut lines) => {
                if let Some(run) = read_stream(&mut lines, json, &mut shown, &mut progress).await? {
                    progress.clear();
                    return Ok(FollowedRun::Judged(Box::new(run)));
                }
            }
            // The aggregator is reachable and does not know the run: waiting will not help.
            Err(Failure::Usage(message)) => {
                progress.clear();
                return Ok(FollowedRun::Lost(message));
            }
            Err(failure) if broken.is_some_and(|since| since.elapsed() > STREAM_RETRY_TIMEOUT) => {
                return Err(failure);
            }
            Err(_) => {}
        }
        if broken.get_or_insert_with(Instant::now).elapsed() > STREAM_RETRY_TIMEOUT {
            return Err(Failure::Indeterminate(
                "the aggregator keeps closing the stream before the run ends; see its log, then try again"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Reads the lines of one stream, and returns the judged run if it arrives. Each stream starts at the first line.
async fn read_stream(
    lines: &mut LineStream,
    json: bool,
    shown: &mut usize,
    progress: &mut ProgressLine,
) -> Result<Option<PreflightRun>, Failure> {
    let mut number = 0;
    while let Some(line) = lines.next().await {
        number += 1;
        let event: RunEvent = serde_json::from_slice(&line).map_err(Failure::indeterminate)?;
        if number > *shown {
            *shown = number;
            if json {
                print(&format!("{}\n", String::from_utf8_lossy(&line)))?;
            }
            progress.record(&event);
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
    received: u64,
    failed: u64,
}

impl ProgressLine {
    fn new(expected: u64, wanted: bool) -> Self {
        Self {
            visible: wanted && std::io::stderr().is_terminal(),
            expected,
            received: 0,
            failed: 0,
        }
    }

    fn record(&mut self, event: &RunEvent) {
        let RunEvent::Result { outcome, .. } = event else {
            return;
        };
        self.received += 1;
        self.failed += u64::from(matches!(outcome, Outcome::Failed { .. }));
        if self.visible {
            Self::write(&format!(
                "\r\u{1b}[K{} of {} probes, {} failed",
                self.received, self.expected, self.failed
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

fn render(run: &PreflightRun, style: ColorMode) -> String {
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
    let lasted = run.ended.map_or(Micros(0), |ended| ended - run.requested_at);
    let _ = writeln!(
        out,
        "  {}: {} of {} results, {first}, all within {lasted}\n",
        run.id, run.completed, run.expected
    );
    let mut table = TextTable::new(&["VANTAGE", "PLACEMENT", "FAILED", "OF", "FASTEST", "FAILURE"]);
    for part in run.vantages.iter().take(MAX_LISTED_VANTAGES) {
        let failed = part.failures.to_string();
        let colour = if part.failures > 0 { "1;31" } else { "32" };
        let (placement, of) = (part.placement.to_string(), part.planned.to_string());
        let quickest = part
            .fastest
            .map_or_else(|| "-".to_owned(), |quickest| quickest.to_string());
        let detail = match &part.detail {
            Some(detail) => detail.clone(),
            None if part.probes < part.planned => format!("{} of {} results", part.probes, part.planned),
            None => String::new(),
        };
        table.row([
            (part.vantage.to_string().as_str(), None),
            (placement.as_str(), None),
            (failed.as_str(), Some(style.paint(colour, &failed))),
            (of.as_str(), None),
            (quickest.as_str(), None),
            (detail.as_str(), None),
        ]);
    }
    out.push_str(&table.render());
    if run.vantages.len() > MAX_LISTED_VANTAGES {
        let _ = writeln!(
            out,
            "… and {} more vantages",
            run.vantages.len() - MAX_LISTED_VANTAGES
        );
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
