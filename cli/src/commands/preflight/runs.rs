//! Makes the runs of a host: one by each client's rules, from all vantages at once.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use parallax_api::runs::{PreflightRun, RunEvent, RunRequest};
use parallax_model::ChallengeClient;
use parallax_preflight::{
    CertManagerPlacement, FetchCollector, FetchOutcome, FetchRequest, FetchResult, NameAnswer,
};

use super::{args::Request, route_plan::PlannedName};
use crate::{commands::query::ApiClient, exit::Failure};

/// How long to retry a run while the aggregator is at its limit: many hosts require more runs than one user has per
/// minute.
const CAPACITY_TIMEOUT: Duration = Duration::from_mins(5);

/// How long to resume an interrupted stream.
const STREAM_RETRY_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the fetch of a host, without token and key.
pub(super) fn fetch_request(
    request: &Request,
    planned: &PlannedName,
    placement: &CertManagerPlacement,
) -> FetchRequest {
    FetchRequest {
        host: planned.host.clone(),
        port: request.settings.port,
        token: String::new(),
        key: None,
        passes: request.faithful_timing.then_some(5),
        authority: request.profile.into(),
        nameservers: placement.nameservers(),
        name_query: planned.name_query.clone(),
    }
}

/// Fetches by both clients' rules at once.
pub(super) async fn run_both(
    client: &ApiClient,
    fetch_request: &FetchRequest,
    progress: bool,
) -> Result<FetchResult, Failure> {
    let mut own = fetch_request.run_request(ChallengeClient::CertManager);
    let mut as_it_resolves = !fetch_request.nameservers.is_empty();
    let run = match start_run(client, &own).await {
        // The aggregator queries only resolvers of its configuration.
        Err(Failure::Usage(message)) if as_it_resolves && message.contains("resolvers.public") => {
            as_it_resolves = false;
            if let Some(ask) = &mut own.challenge {
                ask.nameservers.clear();
            }
            start_run(client, &own).await?
        }
        begun => begun?,
    };
    let ca = start_run(client, &fetch_request.run_request(fetch_request.authority)).await?;
    let mut shown = ProgressLine {
        visible: progress,
        expected: run.expected + ca.expected,
        received: 0,
    };
    let runs = vec![run.id.to_string(), ca.id.to_string()];
    // The aggregator buffers the streams, so the second can be read later.
    let self_check = follow_run(client, &run, &mut shown).await;
    let ca = follow_run(client, &ca, &mut shown).await;
    shown.clear();
    Ok(FetchResult {
        self_check: self_check?,
        ca: ca?,
        used_solver_nameservers: as_it_resolves,
        runs,
        names: NameAnswer::NotQueried("not queried".to_owned()),
    })
}

/// Fetches by both clients' rules, followed by [`run_remaining`].
pub(super) async fn run_all(
    client: &ApiClient,
    fetch_request: &FetchRequest,
    progress: bool,
) -> Result<FetchResult, Failure> {
    let mut fetched = run_both(client, fetch_request, progress).await?;
    run_remaining(client, fetch_request, &mut fetched, progress).await?;
    Ok(fetched)
}

/// Makes the other runs that the verdicts need: the second pass that names the cause, and the DNS facts of the
/// name.
pub(super) async fn run_remaining(
    client: &ApiClient,
    fetch_request: &FetchRequest,
    fetched: &mut FetchResult,
    progress: bool,
) -> Result<(), Failure> {
    run_diagnosis(client, fetch_request, fetched, progress).await?;
    query_name(client, fetch_request, fetched, progress).await
}

/// Queries the DNS facts of the name.
async fn query_name(
    client: &ApiClient,
    fetch_request: &FetchRequest,
    fetched: &mut FetchResult,
    progress: bool,
) -> Result<(), Failure> {
    let run = match start_run(client, &fetch_request.name_query.run_request(&fetch_request.host)).await {
        Ok(run) => run,
        // An older aggregator does not support the query, and the scope may forbid it: the verdicts then say less.
        Err(Failure::Usage(message)) => {
            fetched.names = NameAnswer::NotQueried(message);
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    let mut shown = ProgressLine {
        visible: progress,
        expected: run.expected,
        received: 0,
    };
    let part = follow_run(client, &run, &mut shown).await?;
    shown.clear();
    fetched.names = NameAnswer::from_run(part.names);
    Ok(())
}

/// Makes the second pass that lets the diagnosis name the cause, if it is not known.
async fn run_diagnosis(
    client: &ApiClient,
    fetch_request: &FetchRequest,
    fetched: &mut FetchResult,
    progress: bool,
) -> Result<(), Failure> {
    let Some(request) = fetch_request.diagnosis_request(fetched) else {
        return Ok(());
    };
    let run = start_run(client, &request).await?;
    fetched.runs.push(run.id.to_string());
    let mut shown = ProgressLine {
        visible: progress,
        expected: run.expected,
        received: 0,
    };
    fetched.self_check.incident = follow_run(client, &run, &mut shown).await?.incident;
    shown.clear();
    Ok(())
}

/// Starts a run, and retries while the aggregator is at its limit.
async fn start_run(client: &ApiClient, request: &RunRequest) -> Result<PreflightRun, Failure> {
    let since = Instant::now();
    loop {
        match client.post(&["v1", "runs"], request).await {
            Err(Failure::Indeterminate(message))
                if message.contains("too many runs") && since.elapsed() < CAPACITY_TIMEOUT =>
            {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            done => return done,
        }
    }
}

/// Follows a run to its end.
async fn follow_run(
    client: &ApiClient,
    run: &PreflightRun,
    progress: &mut ProgressLine,
) -> Result<FetchOutcome, Failure> {
    let path = ["v1", "runs", run.id.as_str()];
    let since = Instant::now();
    loop {
        let mut gathering = FetchCollector::default();
        match client.lines(&path).await {
            Ok(mut lines) => {
                while let Some(line) = lines.next().await {
                    let event: RunEvent = serde_json::from_slice(&line).map_err(Failure::indeterminate)?;
                    let (came, part) = gathering.push(&event);
                    if let Some(part) = part {
                        return Ok(part);
                    }
                    if came {
                        progress.increment();
                    }
                }
            }
            // The aggregator responds but does not know the run, so waiting is pointless.
            Err(Failure::Usage(message)) => {
                return Err(Failure::Indeterminate(format!(
                    "the aggregator has lost the run: {message}"
                )));
            }
            Err(failure) if since.elapsed() > STREAM_RETRY_TIMEOUT => return Err(failure),
            Err(_) => {}
        }
        if since.elapsed() > STREAM_RETRY_TIMEOUT {
            return Err(Failure::Indeterminate(
                "the aggregator closes the stream before the run ends; see its log, then try again"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A progress line on a terminal, overwritten in place.
struct ProgressLine {
    visible: bool,
    expected: u64,
    received: u64,
}

impl ProgressLine {
    fn increment(&mut self) {
        self.received += 1;
        if self.visible {
            Self::write(&format!(
                "\r\u{1b}[K{} of {} probes",
                self.received, self.expected
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
        // A closed stderr is not an error.
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}
