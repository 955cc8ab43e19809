//! The part of an aggregator that a prober needs: a plan stream, and an endpoint for reports that counts their
//! contents.

use std::{cell::RefCell, convert::Infallible, io::Read, net::SocketAddr, rc::Rc, time::Duration};

use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parallax_model::{Assignment, Micros, PlanLine, PlanRevision, PlanSettings};
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, spawn_local},
    time,
};

/// Counts of the reports since the last call of `take`.
#[derive(Debug, Default)]
pub(crate) struct ReportCounts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// Probes that were not made: late, throttled.
    pub(crate) not_made: u64,
    /// Delay of each probe's start, in microseconds.
    pub(crate) late: Vec<u64>,
}

/// A plan server on loopback.
#[derive(Debug)]
pub(crate) struct Aggregator {
    pub(crate) address: SocketAddr,
    plan: watch::Sender<Bytes>,
    seen: Rc<RefCell<ReportCounts>>,
    accepting: JoinHandle<()>,
}

/// The fields that are counted; the rest of an observation is skipped.
#[derive(Deserialize)]
struct ReportLine<'a> {
    result: &'a str,
    #[serde(default)]
    times: LineTimes,
}

#[derive(Deserialize, Default)]
struct LineTimes {
    late_us: Option<u64>,
}

impl Aggregator {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (plan, plans) = watch::channel(snapshot(0, Vec::new()));
        let seen = Rc::new(RefCell::new(ReportCounts::default()));
        let accepting = spawn_local({
            let seen = Rc::clone(&seen);
            async move {
                loop {
                    let Ok((stream, _)) = listener.accept().await else {
                        continue;
                    };
                    let (plans, seen) = (plans.clone(), Rc::clone(&seen));
                    let service = service_fn(move |request| answer(request, plans.clone(), Rc::clone(&seen)));
                    // Ends when the prober closes it; there is one subject at a time, with two connections.
                    spawn_local(async move {
                        let _ = http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await;
                    });
                }
            }
        });
        Ok(Self {
            address,
            plan,
            seen,
            accepting,
        })
    }

    /// Publishes a new plan.
    pub(crate) fn publish_plan(&self, n: u64, assignments: Vec<Assignment>) {
        self.plan.send_replace(snapshot(n, assignments));
    }

    /// Returns and resets the counts.
    pub(crate) fn take_counts(&self) -> ReportCounts {
        self.seen.take()
    }
}

impl Drop for Aggregator {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn snapshot(n: u64, assignments: Vec<Assignment>) -> Bytes {
    let line = PlanLine::Snapshot {
        revision: PlanRevision { epoch: 1, number: n },
        settings: PlanSettings {
            echo_nonce: "n".to_owned(),
            heartbeat: Micros::from_secs(5),
        },
        assignments,
    };
    written(&line)
}

fn written(line: &PlanLine) -> Bytes {
    let mut line =
        serde_json::to_vec(line).unwrap_or_else(|error| unreachable!("a plan of the same version: {error}"));
    line.push(b'\n');
    line.into()
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(
    request: Request<Incoming>,
    plans: watch::Receiver<Bytes>,
    seen: Rc<RefCell<ReportCounts>>,
) -> Result<Answer, hyper::Error> {
    let status = match (request.method(), request.uri().path()) {
        (&Method::GET, "/v1/plan") => return Ok(Response::new(stream(plans))),
        (&Method::POST, "/v1/observations") => {
            let body = request.into_body().collect().await?.to_bytes();
            count(&body, &mut seen.borrow_mut())
        }
        _ => StatusCode::NOT_FOUND,
    };
    let mut response = Response::new(Full::default().boxed());
    *response.status_mut() = status;
    Ok(response)
}

/// Streams the plan, each new one, and heartbeats in between.
fn stream(mut plans: watch::Receiver<Bytes>) -> BoxBody<Bytes, Infallible> {
    let (lines, body) = tokio::sync::mpsc::channel(4);
    spawn_local(async move {
        plans.mark_changed();
        loop {
            let line = tokio::select! {
                changed = plans.changed() => match changed {
                    Ok(()) => plans.borrow_and_update().clone(),
                    Err(_) => return,
                },
                () = time::sleep(Duration::from_secs(5)) => {
                    written(&PlanLine::Heartbeat { revision: PlanRevision { epoch: 1, number: 0 } })
                }
            };
            if lines.send(line).await.is_err() {
                return;
            }
        }
    });
    ReportLines(body).boxed()
}

struct ReportLines(tokio::sync::mpsc::Receiver<Bytes>);

impl Body for ReportLines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

fn count(body: &[u8], seen: &mut ReportCounts) -> StatusCode {
    let mut text = String::new();
    if GzDecoder::new(body).read_to_string(&mut text).is_err() {
        return StatusCode::BAD_REQUEST;
    }
    // The first line is the header.
    for line in text.lines().skip(1) {
        match serde_json::from_str::<ReportLine>(line) {
            Ok(line) => {
                match line.result {
                    "ok" => seen.ok += 1,
                    "failed" => seen.failed += 1,
                    _ => seen.not_made += 1,
                }
                seen.late.extend(line.times.late_us);
            }
            Err(_) => seen.failed += 1,
        }
    }
    StatusCode::NO_CONTENT
}
