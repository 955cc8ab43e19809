//! One HTTP request on its own connection, and its whole response.

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Maximum size of a response.
const MAX_BODY_BYTES: usize = 32 << 20;

/// A response with its whole body.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Sends a request and reads the whole response. The caller sets the timeout.
///
/// # Errors
/// A connection that fails, or a response that is too large.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answered = async {
        let answer = sender
            .send_request(request)
            .await
            .context("sending the request")?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("reading the body: {error}"))?;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.to_bytes(),
        })
    };
    tokio::pin!(connection, answered);
    let mut closed = false;
    loop {
        tokio::select! {
            answer = &mut answered => return answer,
            ended = &mut connection, if !closed => {
                closed = true;
                ended.context("the connection")?;
            }
        }
    }
}
