//! One HTTP exchange on one connection, driven in the probe's own future (R2, R3).

mod driver;
mod h2;
mod read;

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parallax_model::{FailureKind, Method, OwnFault, Phase};
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use self::h2::exchange as exchange_h2;
use self::{
    driver::{Driver, Tasks},
    read::read,
};
use crate::{
    classify::{Stop, of_http},
    clock::{Deadline, Passed},
    stamped::{SharedStamps, Stamped},
};

/// How much of an answer is kept for the content check.
pub(crate) const KEPT: usize = 64 * 1024;

/// Where reading ends unless a bound is set; what lies beyond says nothing more of reachability, and costs both sides.
const READ: u64 = 1024 * 1024;

/// Longest head of an answer, and most lines of it: an endless one must not grow our memory.
const HEAD: usize = 64 * 1024;
const HEADERS: usize = 128;

/// Who asks.
pub(crate) const USER_AGENT: &str = concat!("parallax/", env!("CARGO_PKG_VERSION"));

pub(crate) type Ask = Request<Full<Bytes>>;

/// What one request says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) method: Method,
    /// `Host`.
    pub(crate) authority: &'a str,
    /// Path and query.
    pub(crate) path: &'a str,
    pub(crate) user_agent: &'a str,
    pub(crate) accept: Option<&'a str>,
    /// Media type and content of a POST.
    pub(crate) body: Option<(&'a str, &'a str)>,
    /// Asks to close. A server's last bytes may otherwise wait for our delayed ACK: 40 ms that no user sees (R5).
    pub(crate) close: bool,
}

impl<'a> Asking<'a> {
    /// A GET as a probe makes it.
    pub(crate) const fn get(authority: &'a str, path: &'a str) -> Self {
        Self {
            method: Method::Get,
            authority,
            path,
            user_agent: USER_AGENT,
            accept: Some("*/*"),
            body: None,
            close: true,
        }
    }

    /// The request, where it can be put on the wire.
    pub(crate) fn request(self) -> Result<Ask, Stop> {
        let mut builder = Request::builder()
            .method(self.method.label())
            .uri(self.path)
            .header(header::HOST, self.authority)
            .header(header::USER_AGENT, self.user_agent);
        if let Some(accept) = self.accept {
            builder = builder.header(header::ACCEPT, accept);
        }
        if self.close {
            builder = builder.header(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let mut content = Bytes::new();
        if let Some((media_type, body)) = self.body {
            builder = builder.header(header::CONTENT_TYPE, media_type);
            content = Bytes::copy_from_slice(body.as_bytes());
        }
        builder
            .body(Full::new(content))
            .map_err(|error| Stop::new(Phase::Request, OwnFault::Unaskable).because(error.to_string()))
    }
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
    /// Bytes of the answer that were read.
    pub(crate) read: u64,
    /// The same request once more on the same connection: from its last byte to the end of its answer.
    pub(crate) again: Option<Duration>,
    /// Where it stopped early.
    pub(crate) stop: Option<Stop>,
}

impl Exchange {
    pub(crate) fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status.as_u16())
    }
}

/// How an exchange is made.
#[derive(Debug, Default)]
pub(crate) struct Manner {
    /// More bytes than this are a failure.
    pub(crate) most: Option<u64>,
    /// Sent behind the first answer on the same connection.
    pub(crate) again: Option<Ask>,
}

/// Sends the request over HTTP/1.1 and reads the answer, both under the deadline.
pub(crate) async fn exchange<S>(stream: S, request: Ask, manner: Manner, deadline: Deadline) -> Exchange
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stamps = SharedStamps::default();
    let mut result = Exchange::default();
    let stop = run(stream, request, manner, deadline, &stamps, &mut result)
        .await
        .err();
    // With a second request the first one's times are already taken.
    if result.again.is_none() && result.body.is_none() {
        take_times(&mut result, &stamps);
    }
    result.stop = stop;
    result
}

fn take_times(result: &mut Exchange, stamps: &SharedStamps) {
    let (end, stamps) = (Instant::now(), stamps.get());
    result.first_byte = stamps
        .last_write
        .map(|write| stamps.first_read.unwrap_or(end).saturating_duration_since(write));
    result.body = stamps.first_read.map(|read| end.saturating_duration_since(read));
}

async fn run<S>(
    stream: S,
    request: Ask,
    manner: Manner,
    deadline: Deadline,
    stamps: &SharedStamps,
    result: &mut Exchange,
) -> Result<(), Stop>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = TokioIo::new(Stamped::new(stream, stamps.clone()));
    // No byte moves here; hyper only builds its state.
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .handshake(io)
        .await
        .map_err(|error| of_http(&error, Phase::Request, false))?;
    let connection = pin!(connection);
    let mut driver = Driver::new(connection, Tasks::default());
    one(
        &mut sender,
        request,
        &manner,
        &mut driver,
        deadline,
        stamps,
        result,
    )
    .await?;
    if let Some(again) = manner.again {
        take_times(result, stamps);
        stamps.clear();
        let manner = Manner {
            most: manner.most,
            again: None,
        };
        let ready = deadline.bound(driver.drive_while_it_lasts(sender.ready())).await;
        match ready {
            Ok(Some(Ok(()))) => {}
            Ok(_) => {
                return Err(Stop::new(Phase::Request, FailureKind::Eof)
                    .because("the server closed the connection behind its first answer"));
            }
            Err(Passed) => return Err(Stop::timeout(Phase::Request)),
        }
        let mut second = Exchange::default();
        one(
            &mut sender,
            again,
            &manner,
            &mut driver,
            deadline,
            stamps,
            &mut second,
        )
        .await?;
        let written = stamps.get().last_write;
        result.again = written.map(|write| write.elapsed());
    }
    Ok(())
}

async fn one<C>(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Ask,
    manner: &Manner,
    driver: &mut Driver<'_, C>,
    deadline: Deadline,
    stamps: &SharedStamps,
    result: &mut Exchange,
) -> Result<(), Stop>
where
    C: Future<Output = hyper::Result<()>>,
{
    let explain = |driver: &Driver<'_, C>, error: &hyper::Error| more_precise(driver, error, stamps);
    let response = match deadline.bound(driver.drive(sender.send_request(request))).await {
        Err(Passed) => return Err(Stop::timeout(reached(stamps))),
        Ok(Err(error)) => return Err(explain(driver, &error)),
        Ok(Ok(response)) => response,
    };
    let (head, body) = Response::into_parts(response);
    result.head = Some(head);
    read(body, driver, deadline, manner.most, result, explain).await
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

/// A request that was cancelled because its connection failed: the connection knows why.
fn more_precise<C>(driver: &Driver<'_, C>, error: &hyper::Error, stamps: &SharedStamps) -> Stop
where
    C: Future<Output = hyper::Result<()>>,
{
    let error = match driver.failure() {
        Some(cause) if error.is_canceled() || error.is_closed() => cause,
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
