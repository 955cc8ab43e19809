//! Follows the plan stream: `GET /v1/plan` is one endless NDJSON response. After a broken or silent stream the client
//! opens a new one, which starts with a snapshot. Until then the last plan stays in force.

use std::{io, sync::Arc, time::Duration};

use parallax_model::{Assignment, Incarnation, PlanLine, PlanRevision, PodName, Vantage};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use crate::{
    aggregator_client::{AggregatorClient, error_chain},
    jitter,
    logged_reason::LoggedReason,
    replica_key::ReplicaKey,
    replicas::KnownReplicas,
    role::Role,
    shared_state::Status,
};

/// Maximum length of a line; a node's plan of 2 000 targets takes about one megabyte.
const MAX_LINE_LENGTH: usize = 16 * 1024 * 1024;
/// Read timeout until the first line announces the heartbeat interval.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(15);
/// Bounds of the read timeout that follows from the heartbeat interval.
const READ_TIMEOUT_BOUNDS: (Duration, Duration) = (Duration::from_millis(300), Duration::from_mins(10));
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(15);
/// A plan of an earlier epoch is rejected if a line of a later epoch was received within this time. After that it is
/// accepted: no other aggregator is left, and the clock that the later epoch was derived from was wrong.
const EPOCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps a plan stream open.
#[derive(Debug)]
pub(crate) struct PlanClient {
    pub(crate) replicas: watch::Receiver<Arc<KnownReplicas>>,
    pub(crate) status: Arc<Status>,
    pub(crate) incarnation: Incarnation,
    pub(crate) vantage: Vantage,
    pub(crate) pod: PodName,
    /// Port of this prober's echo, so that an aggregator without Kubernetes can plan mesh probes.
    pub(crate) echo_port: u16,
    pub(crate) role: Role,
}

/// The reason why a stream ended.
#[derive(Debug, thiserror::Error)]
enum StreamEnd {
    #[error("{}", error_chain(.0))]
    Http(#[from] reqwest::Error),
    #[error("cannot request the plan: {0}")]
    Request(#[from] io::Error),
    #[error("the aggregator responded with {0}: {1}")]
    Status(StatusCode, String),
    #[error("no data received for {} ms", .0.as_millis())]
    ReadTimeout(Duration),
    #[error("the aggregator closed the stream")]
    Closed,
    #[error("a line is longer than {MAX_LINE_LENGTH} bytes")]
    LineTooLong,
    #[error("cannot parse a line: {0}")]
    InvalidLine(#[from] serde_json::Error),
    #[error("its plan has epoch {}, but epoch {} is already known", .found.epoch, .known)]
    StaleEpoch { found: PlanRevision, known: u64 },
    #[error("no aggregator is known")]
    NoAggregator,
    #[error("the agent has stopped")]
    ReceiverDropped,
}

/// The latest epoch, and the time of its last line.
#[derive(Debug, Default)]
struct LatestEpoch(Option<(u64, Instant)>);

impl LatestEpoch {
    /// Accepts or rejects a plan by its epoch.
    fn accept(&mut self, found: PlanRevision, now: Instant) -> Result<(), StreamEnd> {
        match self.0 {
            Some((known, last_seen))
                if found.epoch < known && now.duration_since(last_seen) < EPOCH_TIMEOUT =>
            {
                Err(StreamEnd::StaleEpoch { found, known })
            }
            _ => {
                self.0 = Some((found.epoch, now));
                Ok(())
            }
        }
    }

    fn record_line(&mut self, now: Instant) {
        if let Some((_, last_seen)) = &mut self.0 {
            *last_seen = now;
        }
    }
}

impl PlanClient {
    /// Runs until cancelled, or until the receiver of the lines is dropped.
    pub(crate) async fn run(self, lines: mpsc::Sender<PlanLine>, cancel: CancellationToken) {
        let mut attempt = 0;
        let mut latest = LatestEpoch::default();
        let mut logged = LoggedReason::default();
        let mut previous = None;
        // Consecutive attempts, each at another aggregator, that yielded no plan.
        let mut in_vain = 0;
        loop {
            let mut received = false;
            let known = self.replicas.borrow().clone();
            let next = next_replica(&known, previous.as_ref());
            let ended = match &next {
                Some((_, control)) => tokio::select! {
                    () = cancel.cancelled() => return,
                    Err(ended) = self.stream(control, &lines, (&mut latest, &mut received)) => ended,
                    else => return,
                },
                None => StreamEnd::NoAggregator,
            };
            previous = next.map(|(key, _)| key);
            if matches!(ended, StreamEnd::ReceiverDropped) {
                return;
            }
            if received {
                (attempt, in_vain) = (0, 0);
                logged.clear();
            }
            in_vain += 1;
            // A standby or unreachable aggregator: the next one may be the leader, which serves plans.
            if in_vain < known.len() {
                tracing::debug!(reason = %ended, "no plan from one aggregator; requesting it from the next");
                continue;
            }
            in_vain = 0;
            // Repetitions of the same reason are not worth a warning.
            if logged.is_new(&ended.to_string()) {
                tracing::warn!(reason = %ended, "the plan stream ended; continuing with the last plan");
            } else {
                tracing::debug!(reason = %ended, attempt, "still no plan stream");
            }
            let wait = jitter::backoff(
                MIN_RETRY_DELAY,
                MAX_RETRY_DELAY,
                attempt,
                self.incarnation.as_str(),
            );
            attempt += 1;
            tokio::select! {
                () = cancel.cancelled() => return,
                () = time::sleep(wait) => {}
            }
        }
    }

    /// Reads one stream to its end.
    async fn stream(
        &self,
        control: &AggregatorClient,
        lines: &mpsc::Sender<PlanLine>,
        (latest, received): (&mut LatestEpoch, &mut bool),
    ) -> Result<(), StreamEnd> {
        let (vantage, echo_port) = (self.vantage.to_string(), self.echo_port.to_string());
        let mut query = vec![
            ("vantage", vantage.as_str()),
            ("incarnation", self.incarnation.as_str()),
            ("pod", self.pod.as_str()),
            ("echo_port", &echo_port),
        ];
        if self.role == Role::Responder {
            query.push(("role", "responder"));
        }
        let request = control.get(["v1", "plan"], &query)?;
        let mut silence = FIRST_LINE_TIMEOUT;
        let mut response = with_timeout(silence, request.send()).await??;
        if !response.status().is_success() {
            let status = response.status();
            return Err(StreamEnd::Status(status, error_body(response, silence).await));
        }
        let mut frames = LineDecoder::default();
        loop {
            let line = self.line(&mut response, &mut frames, silence).await?;
            let line = parse_line(&line)?;
            if let PlanLine::Snapshot { revision, .. } = &line {
                latest.accept(*revision, Instant::now())?;
            }
            latest.record_line(Instant::now());
            self.status.record_plan_line();
            *received = true;
            if let PlanLine::Snapshot { settings, .. } = &line {
                let (least, most) = READ_TIMEOUT_BOUNDS;
                silence = Duration::from(settings.heartbeat)
                    .saturating_mul(3)
                    .clamp(least, most);
            }
            lines.send(line).await.map_err(|_| StreamEnd::ReceiverDropped)?;
        }
    }

    async fn line(
        &self,
        response: &mut Response,
        frames: &mut LineDecoder,
        silence: Duration,
    ) -> Result<Vec<u8>, StreamEnd> {
        loop {
            if let Some(line) = frames.next() {
                return Ok(line);
            }
            let chunk = with_timeout(silence, response.chunk()).await??;
            frames.push(&chunk.ok_or(StreamEnd::Closed)?)?;
        }
    }
}

/// The aggregator after the last one that was tried, in a circle.
fn next_replica(
    known: &KnownReplicas,
    previous: Option<&ReplicaKey>,
) -> Option<(ReplicaKey, AggregatorClient)> {
    let after = previous.and_then(|previous| known.range(previous..).find(|(key, _)| *key != previous));
    let (key, control) = after.or_else(|| known.first_key_value())?;
    Some((key.clone(), control.clone()))
}

/// Returns the body of an error response, shortened to fit on a log line.
async fn error_body(mut response: Response, patience: Duration) -> String {
    const MAX_REASON: usize = 300;
    let read = async {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_REASON {
                break;
            }
        }
        body
    };
    let body = time::timeout(patience, read).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    text.chars()
        .take(MAX_REASON)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

async fn with_timeout<F: Future>(silence: Duration, future: F) -> Result<F::Output, StreamEnd> {
    time::timeout(silence, future)
        .await
        .map_err(|_| StreamEnd::ReadTimeout(silence))
}

/// Splits a stream of chunks into lines.
#[derive(Debug, Default)]
struct LineDecoder {
    buffer: Vec<u8>,
    /// No line ends before this offset.
    scanned: usize,
}

impl LineDecoder {
    fn push(&mut self, chunk: &[u8]) -> Result<(), StreamEnd> {
        self.buffer.extend_from_slice(chunk);
        let line = self.buffer.len()
            - self
                .buffer
                .iter()
                .rposition(|b| *b == b'\n')
                .map_or(0, |at| at + 1);
        if line > MAX_LINE_LENGTH {
            Err(StreamEnd::LineTooLong)
        } else {
            Ok(())
        }
    }

    /// Returns the next non-empty line, without its line end.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let Some(end) = self.buffer[self.scanned..].iter().position(|b| *b == b'\n') else {
                self.scanned = self.buffer.len();
                return None;
            };
            let end = self.scanned + end;
            let rest = self.buffer.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.buffer, rest);
            self.scanned = 0;
            line.truncate(end);
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

/// Parses a line of the plan. Assignments that this version does not understand are dropped and the others kept,
/// because a newer aggregator may plan probes that an older prober does not know.
fn parse_line(line: &[u8]) -> serde_json::Result<PlanLine> {
    let strict = match serde_json::from_slice(line) {
        Ok(line) => return Ok(line),
        Err(error) => error,
    };
    let mut value: Value = serde_json::from_slice(line)?;
    if value["type"] == "upsert" || value["type"] == "run" {
        tracing::warn!(error = %strict, "skipping a plan line that this version does not understand");
        return Ok(PlanLine::Unknown);
    }
    let Some(assignments) = value.get_mut("assignments").and_then(Value::as_array_mut) else {
        return Err(strict);
    };
    let before = assignments.len();
    assignments.retain(|assignment| serde_json::from_value::<Assignment>(assignment.clone()).is_ok());
    let left_out = before - assignments.len();
    tracing::warn!(left_out, error = %strict, "skipping assignments that this version does not understand");
    serde_json::from_value(value)
}

#[cfg(test)]
#[path = "plan_client_tests.rs"]
mod tests;
