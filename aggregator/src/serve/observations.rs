//! `POST /v1/observations`: checks reports of the probers and passes them to the engine task.

use std::{net::Ipv4Addr, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use tokio::sync::oneshot;

use super::{ServerState, connection_limit::PeerAddress, report_slots::ReportSender};
use crate::{
    api_error::ApiError,
    ingest::{self, IngestAnswer, MAX_BODY_BYTES, Report, ReportBatch, ReportError, ReportRefusal},
};

/// Bodies larger than this are parsed on a blocking thread, so that parsing does not delay other connections.
const MAX_INLINE_PARSE_BYTES: usize = 64 << 10;

/// How long a sender may pause within a body.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a body. Reports of probers have a few hundred kilobytes.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a report may wait for the engine task before it is rejected and the prober retries.
const INGEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts one report. Invalid input affects only the report that contains it.
pub(crate) async fn receive_report(
    State(shared): State<ServerState>,
    request: Request,
) -> Result<Json<IngestAnswer>, ApiError> {
    let received = shared.clock.now();
    let refused = |refusal: ReportRefusal, error: ApiError| {
        shared.ingest_metrics.count_rejected(refusal);
        error
    };
    let (head, body) = request.into_parts();
    let admitted = shared.gate.authenticate(&head.headers).await.map_err(|error| {
        let refusal = match error.status() {
            StatusCode::SERVICE_UNAVAILABLE => ReportRefusal::Busy,
            _ => ReportRefusal::Unauthorized,
        };
        refused(refusal, error)
    })?;
    if !is_ndjson(&head.headers) {
        let error = ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "expected content-type application/x-ndjson",
        );
        return Err(refused(ReportRefusal::MediaType, error));
    }
    let sender = match (admitted.vantage(), head.extensions.get::<PeerAddress>()) {
        (Some(vantage), _) => ReportSender::Prober(vantage.clone()),
        (None, peer) => ReportSender::Address(peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0)),
    };
    let Some(_slot) = shared.report_slots.acquire(&sender).await else {
        return Err(ApiError::unavailable("the aggregator is stopping"));
    };
    let body = read_body(body).await.map_err(|error| refused(error.0, error.1))?;
    let batch = parse(body).await.map_err(|error| {
        let (refusal, status) = match error {
            ReportError::TooManyLines => (ReportRefusal::TooLarge, StatusCode::PAYLOAD_TOO_LARGE),
            _ => (ReportRefusal::Header, StatusCode::BAD_REQUEST),
        };
        refused(refusal, ApiError::new(status, error))
    })?;
    if let Err(error) = shared.gate.check_may_report(&admitted, &batch.header.vantage) {
        return Err(refused(ReportRefusal::Unauthorized, error));
    }
    if let Err(error) = shared.expect_vantage(&batch.header.vantage) {
        return Err(refused(ReportRefusal::Vantage, error));
    }
    let (answer, receipt) = oneshot::channel();
    let report = Report {
        batch,
        received,
        reply: answer,
    };
    let handed = tokio::time::timeout(INGEST_TIMEOUT, async {
        shared.reports.send(report).await.ok()?;
        receipt.await.ok()
    });
    match handed.await {
        Ok(Some(answer)) => Ok(Json(answer)),
        Ok(None) => Err(refused(
            ReportRefusal::Busy,
            ApiError::unavailable("the aggregator is stopping; resend the report"),
        )),
        Err(_) => Err(refused(
            ReportRefusal::Busy,
            ApiError::unavailable("the aggregator is overloaded; resend the report"),
        )),
    }
}

fn is_ndjson(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|media| {
            let media = media.trim();
            ["application/x-ndjson", "application/ndjson"]
                .iter()
                .any(|known| media.eq_ignore_ascii_case(known))
        })
}

/// Reads the decompressed body up to the size limit, so that a decompression bomb is cut off.
async fn read_body(body: Body) -> Result<Bytes, (ReportRefusal, ApiError)> {
    let reading = collect(body);
    let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, reading).await else {
        return Err(too_slow());
    };
    read.map_err(|error| {
        let Some(error) = error else {
            return too_slow();
        };
        if is_too_large(error.as_ref()) {
            let message = format!(
                "the report is larger than {MAX_BODY_BYTES} bytes after decompression; send smaller reports"
            );
            (
                ReportRefusal::TooLarge,
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message),
            )
        } else {
            (
                ReportRefusal::Body,
                ApiError::new(
                    StatusCode::BAD_REQUEST,
                    "the body is incomplete or cannot be decompressed",
                ),
            )
        }
    })
}

/// Collects the frames of a body; the error is `None` if the sender paused for too long.
async fn collect(body: Body) -> Result<Bytes, Option<Box<dyn std::error::Error + Send + Sync>>> {
    let mut body = Limited::new(body, MAX_BODY_BYTES);
    let mut bytes = BytesMut::new();
    loop {
        let Ok(frame) = tokio::time::timeout(BODY_IDLE_TIMEOUT, body.frame()).await else {
            return Err(None);
        };
        match frame {
            None => return Ok(bytes.freeze()),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    bytes.extend_from_slice(data);
                }
            }
            Some(Err(error)) => return Err(Some(error)),
        }
    }
}

fn too_slow() -> (ReportRefusal, ApiError) {
    let message = format!(
        "the body arrives too slowly: expected data every {} s and the whole within {} s",
        BODY_IDLE_TIMEOUT.as_secs(),
        BODY_TIMEOUT.as_secs()
    );
    (
        ReportRefusal::TooSlow,
        ApiError::new(StatusCode::REQUEST_TIMEOUT, message),
    )
}

fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>)
}

async fn parse(body: Bytes) -> Result<ReportBatch, ReportError> {
    if body.len() <= MAX_INLINE_PARSE_BYTES {
        ingest::parse_report(&body)
    } else {
        tokio::task::spawn_blocking(move || ingest::parse_report(&body))
            .await
            .unwrap_or_else(|_| Err(ReportError::Header("cannot parse the report".to_owned())))
    }
}
