//! An HTTP/2 exchange.
//!
//! A server sends its settings unprompted, so the first byte on the connection is not the first byte of the response.
//! Here the first byte is the head of the response.

use std::{pin::pin, time::Instant};

use http::{Response, Uri, Version, header};
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use parallax_model::{OwnFault, Phase};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    BodyReading, Exchange, HttpRequest, MAX_HEAD,
    driver::{ConnectionDriver, SpawnedTasks},
    read::read,
    record_phases,
};
use crate::{
    clock::{Deadline, DeadlineExceeded},
    failure::{EarlyEnd, classify_http},
    phase_timer::PhaseTimer,
    timestamped_stream::FirstByteTimes,
};

/// Sends the request over HTTP/2 and reads the response, both under the deadline.
pub(crate) async fn exchange<S>(
    stream: S,
    request: HttpRequest,
    most: Option<u64>,
    deadline: Deadline,
    timer: &mut PhaseTimer,
) -> Exchange
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut result = Exchange::default();
    let mut stamps = FirstByteTimes::default();
    let stop = run(stream, request, most, deadline, &mut stamps, &mut result)
        .await
        .err();
    record_phases(timer, stamps, stop.as_ref().map(|stop| stop.phase));
    result.failure = stop;
    result
}

async fn run<S>(
    stream: S,
    request: HttpRequest,
    most: Option<u64>,
    deadline: Deadline,
    stamps: &mut FirstByteTimes,
    result: &mut Exchange,
) -> Result<(), EarlyEnd>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let tasks = SpawnedTasks::default();
    let shaking = http2::Builder::new(tasks.clone())
        .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX))
        .handshake(TokioIo::new(stream));
    let (mut sender, connection) = match deadline.timeout(shaking).await {
        Err(DeadlineExceeded) => return Err(EarlyEnd::timeout(Phase::Request)),
        Ok(handshake) => handshake.map_err(|error| classify_http(&error, Phase::Request, false))?,
    };
    let connection = pin!(connection);
    let mut driver = ConnectionDriver::new(connection, tasks);
    let request = to_http2(request)?;
    stamps.last_write = Some(Instant::now());
    let response = match deadline.timeout(driver.drive(sender.send_request(request))).await {
        Err(DeadlineExceeded) => return Err(EarlyEnd::timeout(Phase::FirstByte)),
        Ok(Err(error)) => {
            let cause = driver
                .failure()
                .filter(|_| error.is_canceled() || error.is_closed());
            return Err(classify_http(cause.unwrap_or(&error), Phase::FirstByte, false));
        }
        Ok(Ok(response)) => response,
    };
    stamps.first_read = Some(Instant::now());
    let (head, body) = Response::into_parts(response);
    result.head = Some(head);
    read(
        body,
        &mut driver,
        deadline,
        BodyReading::Whole { most },
        result,
        |_, error| classify_http(error, Phase::Body, true),
    )
    .await
}

/// Converts a request to HTTP/2: `Host` becomes the authority of the target, and `Connection` is forbidden
/// (RFC 9113 §8.2.2).
fn to_http2(request: HttpRequest) -> Result<HttpRequest, EarlyEnd> {
    let wrong =
        |detail: String| EarlyEnd::new(Phase::Request, OwnFault::InvalidAssignment).with_detail(detail);
    let (mut parts, body) = request.into_parts();
    let authority = parts
        .headers
        .remove(header::HOST)
        .unwrap_or_else(|| http::HeaderValue::from_static(""));
    parts.headers.remove(header::CONNECTION);
    parts.version = Version::HTTP_2;
    let path = parts
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    parts.uri = Uri::builder()
        .scheme("https")
        .authority(authority.as_bytes())
        .path_and_query(path)
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    Ok(HttpRequest::from_parts(parts, body))
}
