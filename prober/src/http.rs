//! One HTTP/1.1 exchange on one connection, driven in the probe's own future (R2, R3).

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1::Builder};
use hyper_util::rt::TokioIo;
use parallax_model::{OwnFault, Phase};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    classify::{Stop, of_http},
    clock::{Deadline, Passed},
    stamped::{SharedStamps, Stamped},
};

/// How much of an answer is kept for the content check.
pub(crate) const KEPT: usize = 64 * 1024;

/// Where reading ends; what lies beyond says nothing more of reachability, and costs both sides.
const READ: u64 = 1024 * 1024;

/// Who asks.
const USER_AGENT: &str = concat!("parallax/", env!("CARGO_PKG_VERSION"));

/// A GET with the headers of every probe. `Connection: close` because a server's last bytes may otherwise wait for
/// our delayed ACK: 40 ms that no user sees (R5).
pub(crate) fn get(authority: &str, path: &str) -> Result<Request<Empty<Bytes>>, Stop> {
    Request::get(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, HeaderValue::from_static("*/*"))
        .header(header::CONNECTION, HeaderValue::from_static("close"))
        .body(Empty::new())
        .map_err(|error| Stop::new(Phase::Request, OwnFault::Unaskable).because(error.to_string()))
}

/// What came of an exchange, as far as it got.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// The head of the answer.
    pub(crate) head: Option<http::response::Parts>,
    /// From the last write of the request to the first byte, or to the failure.
    pub(crate) first_byte: Option<Duration>,
    /// From the first byte to the end of the answer, or to the failure.
    pub(crate) body: Option<Duration>,
    /// The first [`KEPT`] bytes of the answer.
    pub(crate) kept: Vec<u8>,
    /// Where it stopped early.
    pub(crate) stop: Option<Stop>,
}

impl Exchange {
    pub(crate) fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status.as_u16())
    }
}

/// Sends the request and reads the answer, both under the deadline.
pub(crate) async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>, deadline: Deadline) -> Exchange
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stamps = SharedStamps::default();
    let mut result = Exchange::default();
    let stop = run(stream, request, deadline, &stamps, &mut result).await.err();
    let (end, stamps) = (Instant::now(), stamps.get());
    result.first_byte = stamps
        .last_write
        .map(|write| stamps.first_read.unwrap_or(end).saturating_duration_since(write));
    result.body = stamps.first_read.map(|read| end.saturating_duration_since(read));
    result.stop = stop;
    result
}

async fn run<S>(
    stream: S,
    request: Request<Empty<Bytes>>,
    deadline: Deadline,
    stamps: &SharedStamps,
    result: &mut Exchange,
) -> Result<(), Stop>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = TokioIo::new(Stamped::new(stream, stamps.clone()));
    // No byte moves here; hyper only builds its state.
    let (mut sender, connection) = Builder::new()
        .handshake(io)
        .await
        .map_err(|error| of_http(&error, Phase::Request, false))?;
    let connection = pin!(connection);
    let mut driver = Driver::new(connection);
    let response = match deadline.bound(driver.drive(sender.send_request(request))).await {
        Err(Passed) => return Err(Stop::timeout(reached(stamps))),
        Ok(Err(error)) => return Err(driver.more_precise(&error, stamps)),
        Ok(Ok(response)) => response,
    };
    let (head, body) = Response::into_parts(response);
    result.head = Some(head);
    read(body, &mut driver, deadline, stamps, &mut result.kept).await
}

/// Reads to the end or to the bound.
async fn read<C>(
    mut body: Incoming,
    driver: &mut Driver<'_, C>,
    deadline: Deadline,
    stamps: &SharedStamps,
    kept: &mut Vec<u8>,
) -> Result<(), Stop>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut read = 0_u64;
    while read < READ {
        let frame = match deadline.bound(driver.drive(body.frame())).await {
            Err(Passed) => return Err(Stop::timeout(Phase::Body)),
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => return Err(driver.more_precise(&error, stamps)),
            Ok(Some(Ok(frame))) => frame,
        };
        if let Some(data) = frame.data_ref() {
            let room = KEPT.saturating_sub(kept.len()).min(data.len());
            kept.extend_from_slice(&data[..room]);
            read += data.len() as u64;
        }
    }
    Ok(())
}

/// The phase an exchange is in, from what has moved.
fn reached(stamps: &SharedStamps) -> Phase {
    let stamps = stamps.get();
    match (stamps.last_write, stamps.first_read) {
        (_, Some(_)) => Phase::Body,
        (Some(_), None) => Phase::FirstByte,
        (None, None) => Phase::Request,
    }
}

/// Polls the connection beside whatever is waited for.
struct Driver<'a, C> {
    connection: Pin<&'a mut C>,
    ended: Option<hyper::Result<()>>,
}

impl<'a, C> Driver<'a, C>
where
    C: Future<Output = hyper::Result<()>>,
{
    fn new(connection: Pin<&'a mut C>) -> Self {
        Self {
            connection,
            ended: None,
        }
    }

    /// The wanted future has the say; the end of the connection is only noted, because it may come in the very poll
    /// that readies the answer (R3).
    async fn drive<F: Future>(&mut self, wanted: F) -> F::Output {
        let mut wanted = pin!(wanted);
        poll_fn(|cx| {
            if let Poll::Ready(output) = wanted.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            if self.ended.is_none()
                && let Poll::Ready(ended) = self.connection.as_mut().poll(cx)
            {
                self.ended = Some(ended);
                return wanted.as_mut().poll(cx);
            }
            Poll::Pending
        })
        .await
    }

    /// A request that was cancelled because its connection failed: the connection knows why.
    fn more_precise(&self, error: &hyper::Error, stamps: &SharedStamps) -> Stop {
        let error = match &self.ended {
            Some(Err(cause)) if error.is_canceled() || error.is_closed() => cause,
            _ => error,
        };
        let answering = stamps.get().first_read.is_some();
        // Bytes that are not HTTP are an answer that began and was none.
        let phase = match reached(stamps) {
            Phase::Body if error.is_parse() => Phase::FirstByte,
            phase => phase,
        };
        of_http(error, phase, answering)
    }
}
