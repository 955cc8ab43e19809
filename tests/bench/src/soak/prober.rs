//! A simulated prober: follows its plan stream, and reports every second what it would have observed.

use std::{
    collections::BTreeMap,
    io::Write as _,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use flate2::{Compression, write::GzEncoder};
use parallax_model::{
    Assignment, AssignmentId, EventTime, Incarnation, Observation, PlanLine, ReportHeader, ReportSeq,
    Vantage, WIRE_VERSION, hash::fnv1a_mixed,
};
use parallax_simulated_cluster::{Fault, Scale, observation};
use tokio::{
    sync::watch,
    time::{self, Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use url::Url;

/// Time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest line of a plan stream.
const MAX_LINE_LENGTH: usize = 16 << 20;

/// Counts of all probers.
#[derive(Debug, Clone, Default)]
pub(super) struct Delivered(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    observations: AtomicU64,
    reports: AtomicU64,
    failed_requests: AtomicU64,
}

impl Delivered {
    /// Returns the number of acknowledged observations.
    pub(super) fn observations(&self) -> u64 {
        self.0.observations.load(Relaxed)
    }

    /// Returns the number of acknowledged reports.
    pub(super) fn reports(&self) -> u64 {
        self.0.reports.load(Relaxed)
    }

    /// Returns the number of reports that had to be repeated, and of plan streams that broke.
    pub(super) fn failed_requests(&self) -> u64 {
        self.0.failed_requests.load(Relaxed)
    }
}

/// One simulated prober.
#[derive(Debug)]
pub(super) struct Prober {
    number: usize,
    scale: Scale,
    vantage: Vantage,
    incarnation: Incarnation,
    client: reqwest::Client,
    plan_url: Url,
    report_url: Url,
    started: Instant,
    fault: watch::Receiver<Fault>,
    plan: BTreeMap<AssignmentId, Scheduled>,
    next_seq: u64,
    /// Observations that no report has delivered yet.
    pending: Vec<Observation>,
}

/// An assignment and its next start.
#[derive(Debug)]
struct Scheduled {
    assignment: Assignment,
    next: EventTime,
}

impl Prober {
    /// Creates the n-th prober, with a source address of its own.
    pub(super) fn new(
        number: usize,
        scale: Scale,
        vantage: Vantage,
        aggregator: &Url,
        started: Instant,
        fault: watch::Receiver<Fault>,
    ) -> anyhow::Result<Self> {
        let [.., high, low] = u32::try_from(number)?.to_be_bytes();
        let source = IpAddr::V4(Ipv4Addr::new(127, 1, high, low));
        let mut plan_url = aggregator.join("v1/plan")?;
        let incarnation = format!("soak-{number}");
        plan_url
            .query_pairs_mut()
            .append_pair("vantage", &vantage.to_string())
            .append_pair("incarnation", &incarnation)
            .append_pair("pod", &format!("parallax-prober-{number:05}"))
            .append_pair("echo_port", "9095");
        Ok(Self {
            number,
            scale,
            vantage,
            incarnation: incarnation.parse().context("an incarnation")?,
            client: reqwest::Client::builder()
                .no_proxy()
                .local_address(source)
                .build()?,
            plan_url,
            report_url: aggregator.join("v1/observations")?,
            started,
            fault,
            plan: BTreeMap::new(),
            next_seq: 1,
            pending: Vec::new(),
        })
    }

    /// Runs until cancelled.
    pub(super) async fn run(mut self, delivered: Delivered, cancelled: CancellationToken) {
        let offset = Duration::from_millis(u64::try_from(self.number).unwrap_or_default() % 1_000);
        let mut reports = time::interval_at(self.started + REPORT_INTERVAL + offset, REPORT_INTERVAL);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stream = None;
        loop {
            let line = async {
                match &mut stream {
                    Some(stream) => next_line(stream).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = cancelled.cancelled() => return,
                _ = reports.tick() => {
                    self.probe();
                    if self.deliver(&delivered).await.is_err() {
                        delivered.0.failed_requests.fetch_add(1, Relaxed);
                    }
                    if stream.is_none() {
                        stream = self.open_plan().await.ok();
                    }
                },
                line = line => {
                    if let Ok(line) = line {
                        self.follow(line);
                    } else {
                        // The next report opens it again.
                        delivered.0.failed_requests.fetch_add(1, Relaxed);
                        stream = None;
                    }
                }
            }
        }
    }

    fn now(&self) -> EventTime {
        let elapsed = self.started.elapsed().as_micros();
        EventTime(i64::try_from(elapsed).unwrap_or(i64::MAX))
    }

    async fn open_plan(&self) -> anyhow::Result<PlanStream> {
        let response = self.client.get(self.plan_url.clone()).send().await?;
        Ok(PlanStream {
            response: response.error_for_status()?,
            buffer: Vec::new(),
        })
    }

    fn follow(&mut self, line: PlanLine) {
        match line {
            PlanLine::Snapshot { assignments, .. } => {
                self.plan.clear();
                for assignment in assignments {
                    self.schedule(assignment);
                }
            }
            PlanLine::Upsert { assignment, .. } => self.schedule(assignment),
            PlanLine::Remove { id, .. } => {
                self.plan.remove(&id);
            }
            PlanLine::Heartbeat { .. }
            | PlanLine::Facts { .. }
            | PlanLine::Run { .. }
            | PlanLine::Unknown => {}
        }
    }

    /// Puts an assignment on a grid of its own; one that the diagnosis requests starts at once.
    fn schedule(&mut self, assignment: Assignment) {
        let now = self.now();
        let interval = i64::try_from(assignment.interval.0).unwrap_or(i64::MAX).max(1);
        let next = if assignment.id.is_requested() {
            now
        } else {
            let hash = fnv1a_mixed(&[assignment.id.as_str(), &self.vantage.to_string()]);
            let phase = i64::try_from(hash % interval.unsigned_abs()).unwrap_or_default();
            let rounds = (now.0 - phase).div_euclid(interval) + 1;
            EventTime(phase + rounds * interval)
        };
        let scheduled = Scheduled { assignment, next };
        self.plan.insert(scheduled.assignment.id.clone(), scheduled);
    }

    /// Makes the probes that are due.
    fn probe(&mut self) {
        let (now, fault) = (self.now(), *self.fault.borrow());
        for Scheduled { assignment, next } in self.plan.values_mut() {
            let interval = i64::try_from(assignment.interval.0).unwrap_or(i64::MAX).max(1);
            while *next < now {
                let seq = ReportSeq(self.next_seq);
                self.next_seq += 1;
                let observed = observation(self.scale, fault, &self.vantage, assignment, seq, *next);
                self.pending.push(observed);
                *next = EventTime(next.0.saturating_add(interval));
            }
        }
    }

    /// Sends everything that is pending. After an error it stays pending.
    async fn deliver(&mut self, delivered: &Delivered) -> anyhow::Result<()> {
        let now = self.now();
        let header = ReportHeader {
            v: WIRE_VERSION,
            incarnation: self.incarnation.clone(),
            vantage: self.vantage.clone(),
            sent_at: now,
            complete_until: Some(now),
            dropped: 0,
            assignments: u64::try_from(self.plan.len()).ok(),
            oldest_held: None,
            resent_for: None,
            is_resend: false,
            facts: None,
        };
        let mut body = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut body, &header)?;
        for observation in &self.pending {
            body.write_all(b"\n")?;
            serde_json::to_writer(&mut body, observation)?;
        }
        let request = self
            .client
            .post(self.report_url.clone())
            .header("content-type", "application/x-ndjson")
            .header("content-encoding", "gzip")
            .timeout(REPORT_TIMEOUT)
            .body(body.finish()?);
        let response = request.send().await?.error_for_status()?;
        // An unread body would cost the connection.
        response.bytes().await?;
        let count = u64::try_from(self.pending.len())?;
        self.pending.clear();
        delivered.0.observations.fetch_add(count, Relaxed);
        delivered.0.reports.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// An open plan stream.
#[derive(Debug)]
struct PlanStream {
    response: reqwest::Response,
    buffer: Vec<u8>,
}

/// Returns the next line. Cancel safe: what was read stays in the buffer.
async fn next_line(stream: &mut PlanStream) -> anyhow::Result<PlanLine> {
    loop {
        if let Some(end) = stream.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = stream.buffer.drain(..=end).collect();
            return serde_json::from_slice(&line).context("parse a line of the plan");
        }
        match stream.response.chunk().await? {
            Some(chunk) if stream.buffer.len() + chunk.len() <= MAX_LINE_LENGTH => {
                stream.buffer.extend_from_slice(&chunk);
            }
            Some(_) => bail!("a line is longer than {MAX_LINE_LENGTH} bytes"),
            None => bail!("the aggregator closed the stream"),
        }
    }
}
