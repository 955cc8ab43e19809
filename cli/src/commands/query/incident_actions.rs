//! `parallax ack`, `silence`, `verify`, `maintenance`: user actions on incidents.

use jiff::Timestamp;
use parallax_api::{
    incident_actions::{
        AcknowledgeRequest, IncidentActions, MaintenanceWindow, SilenceRequest, WindowRequest,
    },
    runs::PreflightRun,
};
use parallax_model::{EventTime, Micros, units};
use serde::Deserialize;

use super::{ApiClient, Output, ServerArgs, block_on, output_format::TextTable, run::follow_to_end};
use crate::{commands::print, exit::Failure};

/// Acknowledge an incident: it stays open, and triggers no more notifications.
#[derive(Debug, clap::Args)]
pub(crate) struct AcknowledgeArgs {
    /// Id of the incident.
    #[arg(value_name = "INCIDENT")]
    id: String,
    /// Reason, shown with the incident.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn ack(args: AcknowledgeArgs) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    let request = AcknowledgeRequest { note: args.note };
    let path = ["v1", "incidents", &args.id, "acknowledge"];
    let handling: IncidentActions = block_on(client.post(&path, &request))?;
    let by = handling.acknowledged.as_ref().map_or("", |mark| &mark.by);
    print(&format!(
        "{} acknowledged by {by}\n{}",
        args.id,
        persistence_note(handling.persisted)
    ))
}

/// Silence an incident's notifications for a time; it stays open and visible.
#[derive(Debug, clap::Args)]
pub(crate) struct SilenceArgs {
    /// Id of the incident.
    #[arg(value_name = "INCIDENT")]
    id: String,
    /// Duration, such as 30m, 8h or 2d.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, required_unless_present = "end", conflicts_with = "end")]
    duration: Option<u64>,
    /// End the silence now.
    #[arg(long)]
    end: bool,
    /// Reason, shown with the incident.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn silence(args: SilenceArgs) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    let request = SilenceRequest {
        duration_s: args.duration.unwrap_or(0),
        note: args.note,
    };
    let path = ["v1", "incidents", &args.id, "silence"];
    let handling: IncidentActions = block_on(client.post(&path, &request))?;
    let text = match &handling.silenced {
        Some(silence) if args.duration.is_some() => {
            format!(
                "{} silenced until {} by {}\n",
                args.id,
                format_time(silence.until),
                silence.author.by
            )
        }
        _ => format!("{} is not silenced\n", args.id),
    };
    print(&format!("{text}{}", persistence_note(handling.persisted)))
}

/// Repeat the probes that decided an incident, now and from every vantage, to verify a fix.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the probes pass, 1 they fail, 2 usage or not allowed, 3 unknown. The incident itself closes only on evidence from the mesh's own probes."
)]
pub(crate) struct VerifyArgs {
    /// Id of the incident.
    #[arg(value_name = "INCIDENT")]
    id: String,
    /// Print each result as one JSON object per line, the judged run last.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let client = ApiClient::new(&args.server)?;
    block_on(async {
        let path = ["v1", "incidents", &args.id, "verify"];
        let run: PreflightRun = client.post(&path, &serde_json::json!({})).await?;
        follow_to_end(&client, run, args.json).await
    })
}

/// Manage maintenance windows: failures within one trigger no notifications.
#[derive(Debug, clap::Args)]
pub(crate) struct MaintenanceArgs {
    #[command(subcommand)]
    command: MaintenanceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum MaintenanceCommand {
    /// Start a window, now or later.
    Start {
        /// Duration, such as 30m, 8h or 2d.
        #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
        span: u64,
        /// Delay before the window begins, such as 30m, 8h or 2d.
        #[arg(long = "in", value_name = "TIME", value_parser = parse_duration)]
        delay: Option<u64>,
        /// Only targets whose URL contains this text [default: all].
        #[arg(long, value_name = "TEXT")]
        targets: Option<String>,
        /// Reason, shown with the window.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the current and future windows.
    List {
        /// Output format: json or yaml.
        #[arg(short, long, value_enum)]
        output: Option<Output>,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// End a window now.
    End {
        /// Id of the window.
        #[arg(value_name = "WINDOW")]
        id: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

pub(crate) fn maintenance(args: MaintenanceArgs) -> Result<(), Failure> {
    match args.command {
        MaintenanceCommand::Start {
            span,
            delay: after,
            targets,
            note,
            server,
        } => {
            let client = ApiClient::new(&server)?;
            let now = EventTime(Timestamp::now().as_microsecond());
            let request = WindowRequest {
                from: after.map(|after| now.plus(Micros::from_secs(after))),
                duration_s: span,
                targets,
                note,
            };
            let window: MaintenanceWindow = block_on(client.post(&["v1", "maintenance"], &request))?;
            print(&format!(
                "{}: from {} until {}, {}\n{}",
                window.id,
                format_time(window.from),
                format_time(window.until),
                target_label(&window),
                persistence_note(window.persisted)
            ))
        }
        MaintenanceCommand::List { output, server } => {
            let client = ApiClient::new(&server)?;
            let answer: WindowTable = block_on(client.get(&["v1", "maintenance"], &[]))?;
            if Output::print_document(output, &answer.windows)? {
                return Ok(());
            }
            if answer.windows.is_empty() {
                return print("No maintenance windows.\n");
            }
            let mut table = TextTable::new(&["ID", "FROM", "UNTIL", "TARGETS", "BY", "NOTE"]);
            for window in &answer.windows {
                let (from, until) = (format_time(window.from), format_time(window.until));
                let targets = target_label(window);
                table.row([
                    (window.id.as_str(), None),
                    (from.as_str(), None),
                    (until.as_str(), None),
                    (targets.as_str(), None),
                    (window.author.by.as_str(), None),
                    (window.author.note.as_deref().unwrap_or_default(), None),
                ]);
            }
            print(&table.render())
        }
        MaintenanceCommand::End { id, server } => {
            let client = ApiClient::new(&server)?;
            let path = ["v1", "maintenance", &id, "end"];
            let window: MaintenanceWindow = block_on(client.post(&path, &serde_json::json!({})))?;
            print(&format!("{} ended at {}\n", window.id, format_time(window.until)))
        }
    }
}

#[derive(Debug, Deserialize)]
struct WindowTable {
    windows: Vec<MaintenanceWindow>,
}

fn target_label(window: &MaintenanceWindow) -> String {
    window
        .targets
        .as_ref()
        .map_or_else(|| "all targets".to_owned(), |text| format!("*{text}*"))
}

fn persistence_note(persisted: bool) -> &'static str {
    if persisted {
        ""
    } else {
        "kept in memory only and lost if the aggregator restarts; its log gives the reason, or set `store` in its configuration\n"
    }
}

fn format_time(at: EventTime) -> String {
    Timestamp::from_microsecond(at.0).map_or_else(
        |_| "an unknown time".to_owned(),
        |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

fn parse_duration(text: &str) -> Result<u64, String> {
    units::parse_with_unit(text, &units::SECONDS)
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| "expected a duration such as 30m, 8h or 2d".to_owned())
}
