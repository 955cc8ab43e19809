//! One connection with its phases: connect → PROXY header → TLS. A probe opens one, and one more per redirect.

use std::net::SocketAddr;

use parallax_model::{FailureKind, Phase, ProxyHeader, TlsExpectation};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_util::either::Either;

use super::{
    expectations,
    proxy::{self, ProxyUse},
};
use crate::{
    certificate::TlsFacts,
    clock::{Deadline, DeadlineExceeded},
    connect::{self, Stream},
    context::ProbeContext,
    failure::EarlyEnd,
    phase_timer::PhaseTimer,
    proxy_header,
    tls::HandshakeOptions,
};

/// The options of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectionOpening<'a> {
    pub(crate) proxy_header: Option<ProxyHeader>,
    pub(crate) tls: Option<HandshakeOptions<'a>>,
    pub(crate) expect_tls: Option<&'a TlsExpectation>,
    /// How the connection uses a proxy, if its address is that of one.
    pub(crate) proxy: Option<ProxyUse<'a>>,
}

/// The facts about a connection, as far as it got.
#[derive(Debug, Default)]
pub(crate) struct ConnectionFacts {
    pub(crate) tls: Option<TlsFacts>,
}

impl ConnectionFacts {
    /// Opens a connection to one address. Never tries another address.
    pub(crate) async fn open(
        &mut self,
        context: &ProbeContext,
        address: SocketAddr,
        opening: ConnectionOpening<'_>,
        deadline: Deadline,
        timer: &mut PhaseTimer,
    ) -> Result<Stream, EarlyEnd> {
        let attempt = connect::connect(address, deadline).await;
        timer.record_until(Phase::Connect, attempt.ended);
        // The kernel's round trip is that of one handshake: the first one, with the target's front.
        timer.times.kernel_rtt = timer.times.kernel_rtt.or(attempt.kernel_rtt());
        if let Some(again) = attempt.syn_retransmits() {
            timer.times.syn_retransmits = Some(timer.times.syn_retransmits.unwrap_or(0) + again);
        }
        let mut tcp = match opening.proxy {
            Some(_) => attempt.result.map_err(proxy::unreachable)?,
            None => attempt.result?,
        };
        if let Some(ProxyUse::Tunnel(tunnel)) = opening.proxy {
            tcp = Box::pin(proxy::open_tunnel(tcp, tunnel, deadline)).await?;
            timer.record(Phase::Connect);
        }
        if let Some(header) = opening.proxy_header {
            send_proxy_header(&mut tcp, header, deadline).await?;
            timer.record(Phase::ProxyHeader);
        }
        let Some(handshake) = opening.tls else {
            return Ok(Either::Left(tcp));
        };
        let tls_result = context.tls.connect(handshake, tcp, deadline).await;
        timer.record(Phase::Tls);
        self.tls = tls_result.facts;
        let stream = tls_result.result?;
        if let (Some(expected), Some(facts)) = (opening.expect_tls, &self.tls) {
            expectations::check_handshake(expected, facts)?;
        }
        let agreed = stream.get_ref().1.alpn_protocol();
        if handshake
            .alpn
            .first()
            .is_some_and(|wanted| agreed != Some(wanted))
        {
            return Err(EarlyEnd::new(Phase::Tls, FailureKind::TlsProtocol)
                .with_detail("the server did not agree to HTTP/2 in the TLS handshake (ALPN)"));
        }
        Ok(Either::Right(stream))
    }
}

async fn send_proxy_header(
    tcp: &mut TcpStream,
    header: ProxyHeader,
    deadline: Deadline,
) -> Result<(), EarlyEnd> {
    let failed = |error: std::io::Error| EarlyEnd::io(Phase::ProxyHeader, &error);
    let line = proxy_header::v1(
        header,
        tcp.local_addr().map_err(failed)?,
        tcp.peer_addr().map_err(failed)?,
    );
    match deadline.timeout(tcp.write_all(line.as_bytes())).await {
        Ok(sent) => sent.map_err(failed),
        Err(DeadlineExceeded) => Err(EarlyEnd::timeout(Phase::ProxyHeader)),
    }
}
