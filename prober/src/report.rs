//! Delivers the spool of each aggregator: failures immediately, everything else every second, one request at a time, in
//! order, until acknowledged.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use parallax_model::{Incarnation, ReportAnswer, ReportHeader, Resend, Vantage, WIRE_VERSION};
use reqwest::{Response, StatusCode, header};
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time,
};
use tokio_util::sync::CancellationToken;

use crate::{
    aggregator_client::{AggregatorClient, error_chain},
    clock::Clock,
    facts::{FactDelivery, LatestFacts},
    jitter,
    replica_key::ReplicaKey,
    replicas::KnownReplicas,
    report_log::ReportLog,
    shared_state::{ReportBatch, Status},
    spool::{MAX_REPORT_SIZE, SpooledObservation},
};

/// How long failures are collected before they are sent: those of one broken front arrive together.
const COALESCE_DELAY: Duration = Duration::from_millis(50);
/// Interval of reports without failures.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the last delivery when the prober stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Spread of the start of a resend, and pause after each of its reports: thousands of probers resend to an aggregator
/// that has just started.
const RESEND_JITTER: Duration = Duration::from_secs(1);
const RESEND_PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of a response body that is read.
const MAX_RESPONSE_BODY: usize = 16 << 10;

/// The state that all reporters share, and the supervisor of the reporters.
#[derive(Debug, Clone)]
pub(crate) struct ReporterSet {
    pub(crate) status: Arc<Status>,
    /// Notifies of an urgent observation in a spool.
    pub(crate) urgent_signal: watch::Receiver<()>,
    pub(crate) clock: Clock,
    pub(crate) incarnation: Incarnation,
    pub(crate) vantage: Vantage,
    pub(crate) facts: Arc<LatestFacts>,
}

impl ReporterSet {
    /// Runs a reporter for each known aggregator until cancelled; then each delivers once more. An aggregator that does
    /// not accept reports does not affect the others.
    pub(crate) async fn run(self, mut known: watch::Receiver<Arc<KnownReplicas>>, cancel: CancellationToken) {
        let mut reporters = JoinSet::new();
        let mut running = BTreeMap::new();
        loop {
            let now = known.borrow_and_update().clone();
            running.retain(|key, reporter: &mut AbortHandle| {
                let stays = now.contains_key(key);
                if !stays {
                    reporter.abort();
                }
                stays
            });
            for (key, control) in now.iter() {
                if !running.contains_key(key) {
                    let reporter = Reporter {
                        shared: self.clone(),
                        key: key.clone(),
                        client: control.clone(),
                        fact_delivery: FactDelivery::default(),
                    };
                    running.insert(key.clone(), reporters.spawn(reporter.run(cancel.clone())));
                }
            }
            tokio::select! {
                () = cancel.cancelled() => break,
                changed = known.changed() => if changed.is_err() {
                    // The sender is dropped: the set of aggregators no longer changes.
                    cancel.cancelled().await;
                    break;
                },
                Some(ended) = reporters.join_next() => match ended {
                    Err(error) if error.is_panic() => {
                        tracing::error!(%error, "a reporter panicked");
                        return;
                    }
                    // Aborted, because its aggregator is gone.
                    _ => {}
                },
            }
        }
        while reporters.join_next().await.is_some() {}
    }
}

/// Delivers reports to one aggregator.
#[derive(Debug)]
struct Reporter {
    shared: ReporterSet,
    key: ReplicaKey,
    client: AggregatorClient,
    fact_delivery: FactDelivery,
}

/// The result of one request.
#[derive(Debug, PartialEq, Eq)]
enum DeliveryResult {
    /// Accepted. The aggregator may request a resend of delivered observations.
    Acknowledged(Option<Resend>),
    /// Failed for a temporary reason; to be retried.
    Retry(String),
    /// Permanently rejected.
    Rejected(StatusCode),
}

impl Reporter {
    /// Runs until cancelled, then delivers once more within [`FLUSH_TIMEOUT`].
    async fn run(mut self, cancel: CancellationToken) {
        let limit = async {
            cancel.cancelled().await;
            time::sleep(FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            () = self.run_deliveries(&cancel) => {}
            () = limit => {}
        }
        let left = self.shared.status.waiting(&self.key);
        if left > 0 {
            tracing::warn!(
                left,
                aggregator = %self.key,
                "stopping with observations that the aggregator has not accepted"
            );
        }
    }

    async fn run_deliveries(&mut self, cancel: &CancellationToken) {
        let mut log = ReportLog::new(&self.key);
        loop {
            self.wait_until_due(cancel).await;
            let last = cancel.is_cancelled();
            self.deliver(cancel, &mut log).await;
            if last {
                return;
            }
        }
    }

    /// Waits until the next delivery is due.
    async fn wait_until_due(&mut self, cancel: &CancellationToken) {
        let ReporterSet {
            status,
            urgent_signal: bell,
            ..
        } = &mut self.shared;
        let failure = async {
            while !status.urgent(&self.key) {
                if bell.changed().await.is_err() {
                    // The sender is dropped: remaining failures are sent with the next regular delivery.
                    std::future::pending::<()>().await;
                }
            }
            time::sleep(COALESCE_DELAY).await;
        };
        tokio::select! {
            () = cancel.cancelled() => {}
            () = failure => {}
            () = time::sleep(REPORT_INTERVAL) => {}
        }
    }

    /// Delivers until less than a full report is waiting; while stopping, until the first failed request. Sends an
    /// empty report if there is nothing to deliver, so that the aggregator can close the round.
    async fn deliver(&mut self, cancel: &CancellationToken, log: &mut ReportLog) {
        let status = Arc::clone(&self.shared.status);
        let mut attempt = 0;
        loop {
            let Some(batch) = status.batch(&self.key, self.shared.clock) else {
                return;
            };
            let stopping = cancel.is_cancelled();
            match self.post(&batch).await {
                DeliveryResult::Acknowledged(wanted) => {
                    status.acknowledge(&self.key);
                    if let Some(wanted) = wanted
                        && batch.resent_for.as_ref() != Some(&wanted.incarnation)
                    {
                        status.resend(&self.key, &wanted);
                        self.pause(
                            jitter::offset_within(RESEND_JITTER, &[self.shared.incarnation.as_str()]),
                            cancel,
                        )
                        .await;
                    } else if batch.is_resend {
                        self.pause(RESEND_PAUSE, cancel).await;
                    }
                    self.fact_delivery.acknowledge(Instant::now());
                    log.delivered();
                    attempt = 0;
                }
                DeliveryResult::Rejected(code) => {
                    status.reject(&self.key);
                    log.rejected(code, batch.lines.len());
                    attempt = 0;
                }
                DeliveryResult::Retry(_) if stopping => return,
                DeliveryResult::Retry(reason) => {
                    log.failed(&reason);
                    let wait = jitter::backoff(
                        MIN_RETRY_DELAY,
                        MAX_RETRY_DELAY,
                        attempt,
                        self.shared.incarnation.as_str(),
                    );
                    attempt += 1;
                    tokio::select! {
                        () = cancel.cancelled() => {}
                        () = time::sleep(wait) => {}
                    }
                    continue;
                }
            }
            let waiting = status.waiting(&self.key);
            // Observations that arrived meanwhile wait for the next delivery, except a backlog, or while stopping.
            if !stopping && status.has_resend(&self.key) {
                continue;
            }
            if waiting == 0 || (waiting < MAX_REPORT_SIZE && !stopping) {
                return;
            }
        }
    }

    async fn pause(&self, span: Duration, cancel: &CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = time::sleep(span) => {}
        }
    }

    async fn post(&mut self, batch: &ReportBatch) -> DeliveryResult {
        let sender = &self.shared;
        let header = ReportHeader {
            v: WIRE_VERSION,
            incarnation: sender.incarnation.clone(),
            vantage: sender.vantage.clone(),
            sent_at: sender.clock.now(),
            complete_until: Some(batch.watermark),
            dropped: batch.dropped,
            assignments: sender.status.assignments(),
            oldest_held: batch.earliest_kept,
            resent_for: batch.resent_for.clone(),
            is_resend: batch.is_resend,
            facts: self
                .fact_delivery
                .next(&sender.facts, Instant::now())
                .map(Box::new),
        };
        let prepared = encode(&header, &batch.lines)
            .and_then(|body| Ok((self.client.post(["v1", "observations"])?, body)));
        let (request, body) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return DeliveryResult::Retry(error.to_string()),
        };
        let sent = request
            .header(header::CONTENT_TYPE, "application/x-ndjson")
            .header(header::CONTENT_ENCODING, "gzip")
            .timeout(REQUEST_TIMEOUT)
            .body(body)
            .send()
            .await;
        match sent {
            Ok(response) => match classify_status(response.status()) {
                DeliveryResult::Acknowledged(_) => {
                    DeliveryResult::Acknowledged(requested_resend(response).await)
                }
                other => other,
            },
            Err(error) => DeliveryResult::Retry(error_chain(&error)),
        }
    }
}

/// Classifies a response status. A client error means that the same report would be rejected again, unless the cause is
/// the credential or the moment.
fn classify_status(status: StatusCode) -> DeliveryResult {
    match status {
        _ if status.is_success() => DeliveryResult::Acknowledged(None),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            DeliveryResult::Retry(format!("{status}: check the prober's token"))
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            DeliveryResult::Retry(status.to_string())
        }
        _ if status.is_client_error() => DeliveryResult::Rejected(status),
        _ => DeliveryResult::Retry(status.to_string()),
    }
}

/// Reads the resend that an aggregator requests after its start. Older aggregators request none. An unreadable body
/// counts as no request: the report was accepted in any case.
async fn requested_resend(mut response: Response) -> Option<Resend> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_RESPONSE_BODY {
            return None;
        }
    }
    serde_json::from_slice::<ReportAnswer>(&body).ok()?.resend
}

/// Encodes a report as header line and observation lines, with gzip. Uses the fast level: the lines are so repetitive
/// that higher levels gain little.
fn encode(header: &ReportHeader, lines: &[SpooledObservation]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    serde_json::to_writer(&mut gzip, header)?;
    for line in lines {
        gzip.write_all(b"\n")?;
        gzip.write_all(&line.json)?;
    }
    gzip.write_all(b"\n")?;
    gzip.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use parallax_model::{EventTime, Observation};

    use super::*;

    #[test]
    fn only_answers_that_could_not_change_drop_a_report() {
        for (status, later) in [
            (401, true),
            (403, true),
            (408, true),
            (429, true),
            (500, true),
            (503, true),
            (302, true),
            (400, false),
            (404, false),
            (413, false),
            (422, false),
        ] {
            let judged = classify_status(StatusCode::from_u16(status).unwrap());
            assert_eq!(matches!(judged, DeliveryResult::Retry(_)), later, "{status}");
            assert_ne!(judged, DeliveryResult::Acknowledged(None));
        }
        assert_eq!(
            classify_status(StatusCode::NO_CONTENT),
            DeliveryResult::Acknowledged(None)
        );
    }

    #[test]
    fn a_report_is_a_header_line_and_one_line_an_observation() {
        let header = ReportHeader {
            v: WIRE_VERSION,
            incarnation: "i1".parse().unwrap(),
            vantage: "n1/pod".parse().unwrap(),
            sent_at: EventTime(7),
            complete_until: Some(EventTime(6)),
            dropped: 0,
            assignments: Some(1),
            oldest_held: Some(EventTime(2)),
            resent_for: None,
            is_resend: false,
            facts: None,
        };
        let line = r#"{"seq":3,"t_us":10,"target":"http://a/","channel":"vip","result":"ok"}"#;
        let observation: Observation = serde_json::from_str(line).unwrap();
        let lines = [SpooledObservation::from_observation(&observation).unwrap()];
        let mut text = String::new();
        GzDecoder::new(encode(&header, &lines).unwrap().as_slice())
            .read_to_string(&mut text)
            .unwrap();
        let parts: Vec<&str> = text.split_terminator('\n').collect();
        assert_eq!(serde_json::from_str::<ReportHeader>(parts[0]).unwrap(), header);
        assert_eq!(parts[1..], [line]);
    }
}
