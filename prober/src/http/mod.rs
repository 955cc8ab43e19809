//! One HTTP exchange on one connection, driven in the probe's own future.

mod driver;
mod h2;
mod read;
#[cfg(test)]
mod tests;

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parallax_model::{FailureKind, Method, OwnFault, Phase};
use tokio::io::{AsyncRead, AsyncWrite};

use self::read::read;
pub(crate) use self::{
    driver::{ConnectionDriver, SpawnedTasks},
    h2::exchange as exchange_h2,
};
use crate::{
    clock::{Deadline, DeadlineExceeded},
    failure::{EarlyEnd, classify_http},
    phase_timer::PhaseTimer,
    timestamped_stream::{FIRST_BYTES, FirstByteTimes, SharedStamps, TimestampedStream},
};

/// Bytes of a body that are kept for the content check.
pub(crate) const MAX_KEPT: usize = 64 * 1024;

/// Bytes of a body that are read unless a maximum is set. More would say nothing about reachability, but would cost
/// both sides.
const MAX_READ: u64 = 1024 * 1024;

/// Maximum size of a response head and maximum number of its headers, which bound the memory.
pub(crate) const MAX_HEAD: usize = 64 * 1024;
pub(crate) const MAX_HEADERS: usize = 128;

/// Maximum number of interim responses (1xx) before the final one. Servers send one or two; Go's client gives up after
/// five.
const MAX_INTERIM_RESPONSES: u32 = 16;

/// The `User-Agent` of probes.
pub(crate) const USER_AGENT: &str = concat!("parallax/", env!("CARGO_PKG_VERSION"));

pub(crate) type HttpRequest = Request<Full<Bytes>>;

/// The contents of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContent<'a> {
    pub(crate) method: Method,
    /// The `Host` header.
    pub(crate) authority: &'a str,
    /// Path and query.
    pub(crate) path: &'a str,
    pub(crate) user_agent: &'a str,
    pub(crate) accept: Option<&'a str>,
    /// Accept a gzip response. The caller decompresses it.
    pub(crate) gzip: bool,
    /// Additional headers; they replace those that the prober sends itself.
    pub(crate) headers: Option<&'a HeaderMap>,
    /// Send the request to a proxy: the whole URL instead of the path.
    pub(crate) proxy: Option<ProxyForm<'a>>,
    /// Media type and body of a POST.
    pub(crate) body: Option<(&'a str, &'a str)>,
    /// Send `Connection: close`. Otherwise the server's last bytes may wait for the delayed ACK of this machine: 40 ms
    /// that no user sees.
    pub(crate) close: bool,
}

/// What a request to a proxy has in addition (RFC 9112 §3.2.2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProxyForm<'a> {
    /// The URL of the request, the request target in absolute form.
    pub(crate) url: &'a str,
    /// The value of `Proxy-Authorization`.
    pub(crate) authorization: Option<&'a HeaderValue>,
}

impl<'a> RequestContent<'a> {
    /// Returns a GET with the headers of a probe.
    pub(crate) const fn get(authority: &'a str, path: &'a str) -> Self {
        Self {
            method: Method::Get,
            authority,
            path,
            user_agent: USER_AGENT,
            accept: Some("*/*"),
            gzip: false,
            headers: None,
            proxy: None,
            body: None,
            close: true,
        }
    }

    /// Builds the request, or fails if a header value or the path is invalid.
    pub(crate) fn request(self) -> Result<HttpRequest, EarlyEnd> {
        let mut builder = Request::builder()
            .method(self.method.label())
            .uri(self.proxy.map_or(self.path, |proxy| proxy.url))
            .header(header::HOST, self.authority)
            .header(header::USER_AGENT, self.user_agent);
        if let Some(accept) = self.accept {
            builder = builder.header(header::ACCEPT, accept);
        }
        if self.gzip {
            builder = builder.header(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if self.close {
            builder = builder.header(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(value) = self.proxy.and_then(|proxy| proxy.authorization) {
            builder = builder.header(header::PROXY_AUTHORIZATION, value);
        }
        let mut content = Bytes::new();
        if let Some((media_type, body)) = self.body {
            builder = builder.header(header::CONTENT_TYPE, media_type);
            content = Bytes::copy_from_slice(body.as_bytes());
        }
        // `None` after an error, which `body` returns.
        if let (Some(own), Some(all)) = (self.headers, builder.headers_mut()) {
            for (name, value) in own {
                all.insert(name, value.clone());
            }
        }
        builder.body(Full::new(content)).map_err(|error| {
            EarlyEnd::new(Phase::Request, OwnFault::InvalidAssignment).with_detail(error.to_string())
        })
    }
}

/// The result of an exchange, as far as it got.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// The head of the response.
    pub(crate) head: Option<http::response::Parts>,
    /// The first [`MAX_KEPT`] bytes of the body.
    pub(crate) kept: Vec<u8>,
    /// Bytes of the body that were read.
    pub(crate) bytes_read: u64,
    /// The failure that ended the exchange early.
    pub(crate) failure: Option<EarlyEnd>,
    /// The first bytes received, whether or not they were HTTP.
    pub(crate) first_bytes: [u8; FIRST_BYTES],
}

impl Exchange {
    pub(crate) fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status.as_u16())
    }
}

/// The options of an exchange.
#[derive(Default)]
pub(crate) struct ExchangeOptions<'a> {
    /// Maximum size of the body; a larger one is a failure.
    pub(crate) max_body: Option<u64>,
    /// A second request on the same connection, sent after the first response.
    pub(crate) repeat: Option<HttpRequest>,
    /// Selects from the head how much of the body is read; all of it by default.
    pub(crate) reading: Option<&'a (dyn Fn(&http::response::Parts) -> BodyReading + Sync)>,
}

/// How much of a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyReading {
    /// All of it, up to 1 MiB. With a maximum, a larger body is a failure, even if it is only announced.
    Whole { most: Option<u64> },
    /// At least this many bytes if the body has them, whatever size is announced.
    Upto(u64),
    /// This many bytes, unless a larger size is announced; errors are ignored.
    Skimmed(u64),
    /// Nothing.
    Nothing,
}

/// Sends the request over HTTP/1.1 and reads the response, both under the deadline.
pub(crate) async fn exchange<S>(
    stream: S,
    request: HttpRequest,
    manner: ExchangeOptions<'_>,
    deadline: Deadline,
    timer: &mut PhaseTimer,
) -> Exchange
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stamps = SharedStamps::default();
    let mut result = Exchange::default();
    let stop = run(stream, request, manner, deadline, &stamps, timer, &mut result)
        .await
        .err();
    if let Some(stop) = &stop {
        record_phases(timer, stamps.get(), Some(stop.phase));
    }
    result.failure = stop;
    result.first_bytes = stamps.get().first_bytes;
    result
}

/// Records the phase times of an exchange that ends now; `failed` is the phase that ended it early. A failure of an
/// earlier phase that is noticed later (such as a TLS alert after the handshake) gets all the time since.
fn record_phases(timer: &mut PhaseTimer, stamps: FirstByteTimes, failed: Option<Phase>) {
    let now = Instant::now();
    for (phase, end) in [
        (Phase::Request, stamps.last_write),
        (Phase::FirstByte, stamps.first_read),
    ] {
        if failed.is_some_and(|failed| failed <= phase) {
            break;
        }
        // If the server sends first, the request phase takes no time.
        match end.or(stamps.first_read) {
            Some(end) => timer.record_until(phase, end),
            None => timer.record_until(phase, now),
        }
    }
    timer.record_until(failed.unwrap_or(Phase::Body), now);
}

/// Counts the interim responses before the final one.
#[derive(Debug, Clone, Default)]
struct InterimResponses(Arc<AtomicU32>);

impl InterimResponses {
    fn count_on(&self, request: &mut HttpRequest) {
        let count = Arc::clone(&self.0);
        hyper::ext::on_informational(request, move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }

    fn seen(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for the final response; `None` after too many interim ones.
    async fn wait<F: Future>(&self, answer: F) -> Option<F::Output> {
        let mut answer = pin!(answer);
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.seen() > MAX_INTERIM_RESPONSES => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}

async fn run<S>(
    stream: S,
    request: HttpRequest,
    manner: ExchangeOptions<'_>,
    deadline: Deadline,
    stamps: &SharedStamps,
    timer: &mut PhaseTimer,
    result: &mut Exchange,
) -> Result<(), EarlyEnd>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let io = TokioIo::new(TimestampedStream::new(stream, stamps.clone()));
    // This sends nothing; hyper only builds its state.
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .handshake(io)
        .await
        .map_err(|error| classify_http(&error, Phase::Request, false))?;
    let connection = pin!(connection);
    let mut driver = ConnectionDriver::new(connection, SpawnedTasks::default());
    send_one(
        &mut sender,
        request,
        &manner,
        &mut driver,
        deadline,
        stamps,
        result,
    )
    .await?;
    record_phases(timer, stamps.get(), None);
    if let Some(again) = manner.repeat {
        stamps.clear();
        let manner = ExchangeOptions {
            max_body: manner.max_body,
            repeat: None,
            reading: manner.reading,
        };
        let ready = deadline.timeout(driver.drive_until_closed(sender.ready())).await;
        match ready {
            Ok(Some(Ok(()))) => {}
            Ok(_) => {
                return Err(EarlyEnd::new(Phase::Request, FailureKind::Eof)
                    .with_detail("the server closed the connection after its first response"));
            }
            Err(DeadlineExceeded) => return Err(EarlyEnd::timeout(Phase::Request)),
        }
        let mut second = Exchange::default();
        send_one(
            &mut sender,
            again,
            &manner,
            &mut driver,
            deadline,
            stamps,
            &mut second,
        )
        .await?;
        if let Some(written) = stamps.get().last_write {
            timer.record_until(Phase::Request, written);
        }
        timer.record_repeat();
    }
    Ok(())
}

async fn send_one<C>(
    sender: &mut SendRequest<Full<Bytes>>,
    mut request: HttpRequest,
    manner: &ExchangeOptions<'_>,
    driver: &mut ConnectionDriver<'_, C>,
    deadline: Deadline,
    stamps: &SharedStamps,
    result: &mut Exchange,
) -> Result<(), EarlyEnd>
where
    C: Future<Output = hyper::Result<()>>,
{
    let explain = |driver: &ConnectionDriver<'_, C>, error: &hyper::Error| classify(driver, error, stamps);
    let interims = InterimResponses::default();
    interims.count_on(&mut request);
    let answer = interims.wait(sender.send_request(request));
    let response = match deadline.timeout(driver.drive(answer)).await {
        Err(DeadlineExceeded) if interims.seen() > 0 => {
            return Err(EarlyEnd::timeout(Phase::FirstByte)
                .with_detail("interim responses (1xx) arrived, but no final response"));
        }
        Err(DeadlineExceeded) => return Err(EarlyEnd::timeout(current_phase(stamps))),
        Ok(None) => {
            return Err(
                EarlyEnd::new(Phase::FirstByte, FailureKind::InterimStorm).with_detail(format!(
                    "more than {MAX_INTERIM_RESPONSES} interim responses (1xx) arrived before a final one"
                )),
            );
        }
        Ok(Some(Err(error))) => return Err(explain(driver, &error)),
        Ok(Some(Ok(response))) => response,
    };
    let (head, body) = Response::into_parts(response);
    let reading = manner.reading.map_or(
        BodyReading::Whole {
            most: manner.max_body,
        },
        |of| of(&head),
    );
    result.head = Some(head);
    read(body, driver, deadline, reading, result, explain).await
}

/// The phase that an exchange has reached, from the bytes sent and received.
fn current_phase(stamps: &SharedStamps) -> Phase {
    let stamps = stamps.get();
    match (stamps.last_write, stamps.first_read) {
        (_, Some(_)) => Phase::Body,
        (Some(_), None) => Phase::FirstByte,
        (None, None) => Phase::Request,
    }
}

/// Classifies an error of a request. If the request was cancelled because its connection failed, the error of the
/// connection is more precise.
fn classify<C>(driver: &ConnectionDriver<'_, C>, error: &hyper::Error, stamps: &SharedStamps) -> EarlyEnd
where
    C: Future<Output = hyper::Result<()>>,
{
    let error = match driver.failure() {
        Some(cause) if error.is_canceled() || error.is_closed() => cause,
        _ => error,
    };
    let answering = stamps.get().first_read.is_some();
    // Bytes that are not HTTP fail in the first-byte phase, although a byte was received.
    let phase = match current_phase(stamps) {
        Phase::Body if error.is_parse() => Phase::FirstByte,
        phase => phase,
    };
    classify_http(error, phase, answering)
}
