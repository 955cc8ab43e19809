//! An aggregator that serves one plan, records all reports, and fails on request.

use std::{collections::VecDeque, io::Read, net::SocketAddr, sync::Arc};

use flate2::read::GzDecoder;
use parallax_model::{Observation, ReportHeader};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{mpsc, watch},
};

use super::{Server, request, until_gone};

/// A failure to inject for a report that contains observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectedFailure {
    /// Read the whole report and close without a response.
    Cut,
    /// Respond with this status.
    Status(u16),
}

/// One received report.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) head: String,
    pub(crate) header: ReportHeader,
    pub(crate) observations: Vec<Observation>,
}

pub(crate) struct Aggregator {
    server: Server,
    state: Arc<State>,
    /// Accepted reports.
    reports: mpsc::UnboundedReceiver<Report>,
    /// Heads of the plan requests.
    pub(crate) plans: mpsc::UnboundedReceiver<String>,
}

struct State {
    assignments: watch::Sender<Vec<Value>>,
    /// The order of a run, sent on every stream.
    run: watch::Sender<Option<Value>>,
    /// Whether plan requests are answered with 503.
    plan_down: Mutex<bool>,
    mishaps: Mutex<VecDeque<InjectedFailure>>,
    /// Sequence numbers in the reports for which a failure was injected.
    mishandled: Mutex<Vec<Vec<u64>>>,
    reports: mpsc::UnboundedSender<Report>,
    plans: mpsc::UnboundedSender<String>,
}

impl Aggregator {
    pub(crate) async fn start(assignments: Vec<Value>, mishaps: &[InjectedFailure]) -> Self {
        let (report, reports) = mpsc::unbounded_channel();
        let (plan, plans) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            assignments: watch::Sender::new(assignments),
            run: watch::Sender::new(None),
            plan_down: Mutex::new(false),
            mishaps: Mutex::new(mishaps.iter().copied().collect()),
            mishandled: Mutex::default(),
            reports: report,
            plans: plan,
        });
        let server = Server::start({
            let state = Arc::clone(&state);
            move |stream| Arc::clone(&state).serve(stream)
        })
        .await;
        Self {
            server,
            state,
            reports,
            plans,
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.addr
    }

    /// Replaces the plan: open streams get a new snapshot.
    pub(crate) fn plan(&self, assignments: Vec<Value>) {
        self.state.assignments.send_replace(assignments);
    }

    /// Sends the order of a run.
    pub(crate) fn order(&self, order: Value) {
        self.state.run.send_replace(Some(order));
    }

    /// Sets whether plan requests are rejected. Open plan streams are closed.
    pub(crate) fn plan_down(&self, down: bool) {
        *self.state.plan_down.lock() = down;
        self.state.assignments.send_modify(|_| {});
    }

    /// The next accepted report.
    pub(crate) async fn report(&mut self) -> Report {
        self.reports.recv().await.unwrap()
    }

    /// Collects at least this many observations, in order of arrival.
    pub(crate) async fn observations(&mut self, at_least: usize) -> Vec<Observation> {
        let mut all = Vec::new();
        while all.len() < at_least {
            all.extend(self.report().await.observations);
        }
        all
    }

    /// Empties the plan and returns the remaining observations: up to the report whose watermark is later than the
    /// first report without assignments.
    pub(crate) async fn drain(&mut self) -> Vec<Observation> {
        self.plan(Vec::new());
        let (mut rest, mut without_plan) = (Vec::new(), None);
        loop {
            let Report {
                header, observations, ..
            } = self.report().await;
            rest.extend(observations);
            if header.assignments != Some(0) {
                continue;
            }
            match without_plan {
                Some(sent) if header.complete_until >= Some(sent) => return rest,
                Some(_) => {}
                None => without_plan = Some(header.sent_at),
            }
        }
    }

    /// Sequence numbers in the reports for which a failure was injected, in order.
    pub(crate) fn failed_reports(&self) -> Vec<Vec<u64>> {
        self.state.mishandled.lock().clone()
    }

    /// Stops the server and returns the observations that were not consumed.
    pub(crate) async fn join(mut self) -> Vec<Observation> {
        self.server.join().await;
        drop(self.state);
        let mut rest = Vec::new();
        while let Ok(report) = self.reports.try_recv() {
            rest.extend(report.observations);
        }
        rest
    }
}

impl State {
    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let head = request(&mut stream).await;
        if head.starts_with("GET /v1/plan?") {
            self.stream_plan(head, stream).await;
        } else if head.starts_with("POST /v1/observations ") {
            self.take(head, stream).await;
        } else {
            assert!(head.is_empty(), "an unknown request: {head}");
        }
    }

    async fn stream_plan(&self, head: String, mut stream: TcpStream) {
        // The test may have ended.
        let _ = self.plans.send(head);
        if *self.plan_down.lock() {
            let _ = stream
                .write_all(
                    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                )
                .await;
            return;
        }
        let mut plan = self.assignments.subscribe();
        let mut run = self.run.subscribe();
        let begin =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(begin).await.unwrap();
        let mut n = 0;
        loop {
            n += 1;
            let line = json!({"type": "snapshot", "revision": {"epoch": 1, "n": n},
                "settings": {"echo_nonce": "secret", "heartbeat_us": 60_000_000},
                "assignments": plan.borrow_and_update().clone()})
            .to_string();
            let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
            if stream.write_all(chunk.as_bytes()).await.is_err() {
                return;
            }
            let order = run.borrow_and_update().clone();
            if let Some(order) = order {
                let line = json!({"type": "run", "order": order}).to_string();
                let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
                if stream.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = plan.changed() => if changed.is_err() { return },
                changed = run.changed() => if changed.is_err() { return },
                () = until_gone(&mut stream) => return,
            }
            if *self.plan_down.lock() {
                return;
            }
        }
    }

    async fn take(&self, head: String, mut stream: TcpStream) {
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            })
            .unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let mut text = String::new();
        GzDecoder::new(body.as_slice()).read_to_string(&mut text).unwrap();
        let mut lines = text.lines();
        let header = serde_json::from_str(lines.next().unwrap()).unwrap();
        let observations: Vec<Observation> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let mishap = (!observations.is_empty())
            .then(|| self.mishaps.lock().pop_front())
            .flatten();
        let status = match mishap {
            None => 204,
            Some(InjectedFailure::Status(status)) => status,
            Some(InjectedFailure::Cut) => 0,
        };
        if mishap.is_some() {
            let numbers = observations.iter().map(|o| o.seq.0).collect();
            self.mishandled.lock().push(numbers);
        } else {
            let _ = self.reports.send(Report {
                head,
                header,
                observations,
            });
        }
        if status != 0 {
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }
}
