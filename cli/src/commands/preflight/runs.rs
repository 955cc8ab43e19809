//! Makes the runs of a host: one by each client's rules, from all vantages at once.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use parallax_api::runs::{PreflightRun, RunEvent, RunRequest};
use parallax_model::ChallengeClient;
use parallax_preflight::{
    CertManagerPlacement, FetchCollector, FetchPart, FetchRequest, FetchResult, NameAnswer,
};

use super::{args::Request, plan::PlannedName};
use crate::{commands::query::ApiClient, exit::Failure};

/// How long to retry a run while the aggregator is at its limit: many hosts require more runs than one user has per
/// minute.
const ROOM: Duration = Duration::from_mins(5);

/// How long to resume an interrupted stream.
const AGAIN: Duration = Duration::from_secs(5);

/// Returns the fetch of a host, without token and key.
pub(super) fn wanted(asked: &Request, planned: &PlannedName, seat: &CertManagerPlacement) -> FetchRequest {
    FetchRequest {
        host: planned.host.clone(),
        port: asked.setting.port,
        token: String::new(),
        key: None,
        passes: asked.faithful_timing.then_some(5),
        authority: asked.profile.into(),
        nameservers: seat.nameservers(),
        issues: planned.issues.clone(),
    }
}

/// Fetches by both clients' rules at once.
pub(super) async fn both(
    client: &ApiClient,
    wanted: &FetchRequest,
    progress: bool,
) -> Result<FetchResult, Failure> {
    let mut own = wanted.request(ChallengeClient::CertManager);
    let mut as_it_resolves = !wanted.nameservers.is_empty();
    let run = match begin(client, &own).await {
        // The aggregator queries only resolvers of its configuration.
        Err(Failure::Usage(said)) if as_it_resolves && said.contains("resolvers.public") => {
            as_it_resolves = false;
            if let Some(ask) = &mut own.challenge {
                ask.nameservers.clear();
            }
            begin(client, &own).await?
        }
        begun => begun?,
    };
    let ca = begin(client, &wanted.request(wanted.authority)).await?;
    let mut shown = ProgressLine {
        visible: progress,
        expected: run.expected + ca.expected,
        came: 0,
    };
    let runs = vec![run.id.to_string(), ca.id.to_string()];
    // The aggregator buffers the streams, so the second can be read later.
    let self_check = follow(client, &run, &mut shown).await;
    let ca = follow(client, &ca, &mut shown).await;
    shown.clear();
    Ok(FetchResult {
        self_check: self_check?,
        ca: ca?,
        as_it_resolves,
        runs,
        names: NameAnswer::NotAsked("not queried".to_owned()),
    })
}

/// Fetches by both clients' rules, followed by [`rest`].
pub(super) async fn whole(
    client: &ApiClient,
    wanted: &FetchRequest,
    progress: bool,
) -> Result<FetchResult, Failure> {
    let mut fetched = both(client, wanted, progress).await?;
    rest(client, wanted, &mut fetched, progress).await?;
    Ok(fetched)
}

/// Makes the other runs that the verdicts need: the second pass that names the cause, and the DNS facts of the
/// name.
pub(super) async fn rest(
    client: &ApiClient,
    wanted: &FetchRequest,
    fetched: &mut FetchResult,
    progress: bool,
) -> Result<(), Failure> {
    deeper(client, wanted, fetched, progress).await?;
    of_the_name(client, wanted, fetched, progress).await
}

/// Queries the DNS facts of the name.
async fn of_the_name(
    client: &ApiClient,
    wanted: &FetchRequest,
    fetched: &mut FetchResult,
    progress: bool,
) -> Result<(), Failure> {
    let run = match begin(client, &wanted.issues.request(&wanted.host)).await {
        Ok(run) => run,
        // An older aggregator does not support the query, and the scope may forbid it: the verdicts then say less.
        Err(Failure::Usage(said)) => {
            fetched.names = NameAnswer::NotAsked(said);
            return Ok(());
        }
        Err(other) => return Err(other),
    };
    let mut shown = ProgressLine {
        visible: progress,
        expected: run.expected,
        came: 0,
    };
    let part = follow(client, &run, &mut shown).await?;
    shown.clear();
    fetched.names = NameAnswer::of(part.names);
    Ok(())
}

/// Makes the second pass that lets the diagnosis name the cause, if it is not known.
async fn deeper(
    client: &ApiClient,
    wanted: &FetchRequest,
    fetched: &mut FetchResult,
    progress: bool,
) -> Result<(), Failure> {
    let Some(request) = wanted.deeper(fetched) else {
        return Ok(());
    };
    let run = begin(client, &request).await?;
    fetched.runs.push(run.id.to_string());
    let mut shown = ProgressLine {
        visible: progress,
        expected: run.expected,
        came: 0,
    };
    fetched.self_check.diagnosed = follow(client, &run, &mut shown).await?.diagnosed;
    shown.clear();
    Ok(())
}

/// Starts a run, and retries while the aggregator is at its limit.
async fn begin(client: &ApiClient, request: &RunRequest) -> Result<PreflightRun, Failure> {
    let since = Instant::now();
    loop {
        match client.post(&["v1", "runs"], request).await {
            Err(Failure::CouldNot(said)) if said.contains("too many runs") && since.elapsed() < ROOM => {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            done => return done,
        }
    }
}

/// Follows a run to its end.
async fn follow(
    client: &ApiClient,
    run: &PreflightRun,
    progress: &mut ProgressLine,
) -> Result<FetchPart, Failure> {
    let path = ["v1", "runs", run.id.as_str()];
    let since = Instant::now();
    loop {
        let mut gathering = FetchCollector::default();
        match client.lines(&path).await {
            Ok(mut lines) => {
                while let Some(line) = lines.next().await {
                    let event: RunEvent = serde_json::from_slice(&line).map_err(Failure::could_not)?;
                    let (came, part) = gathering.take(&event);
                    if let Some(part) = part {
                        return Ok(part);
                    }
                    if came {
                        progress.see();
                    }
                }
            }
            // The aggregator responds but does not know the run, so waiting is pointless.
            Err(Failure::Usage(said)) => {
                return Err(Failure::CouldNot(format!(
                    "the aggregator has lost the run: {said}"
                )));
            }
            Err(failure) if since.elapsed() > AGAIN => return Err(failure),
            Err(_) => {}
        }
        if since.elapsed() > AGAIN {
            return Err(Failure::CouldNot(
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
    came: u64,
}

impl ProgressLine {
    fn see(&mut self) {
        self.came += 1;
        if self.visible {
            Self::write(&format!("\r\u{1b}[K{} of {} probes", self.came, self.expected));
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
