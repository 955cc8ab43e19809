//! A TCP probe, with or without TLS, that optionally sends bytes and expects bytes.

use std::io;

use parallax_model::{DialAddress, FailureKind, Phase, TcpProbe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{EndedProbe, Probe, connection::ConnectionOpening, expectations, extra_roots};
use crate::{clock::DeadlineExceeded, connect::Stream, failure::EarlyEnd, tls::HandshakeOptions};

/// Maximum number of received bytes that are searched for the expected ones.
const MAX_RECEIVED: usize = 4096;

impl Probe<'_> {
    pub(super) async fn tcp(
        &mut self,
        dial: DialAddress,
        spec: &TcpProbe,
    ) -> Result<Option<u16>, EndedProbe> {
        let ended = self.send_and_expect(dial, spec).await;
        expectations::invert_outcome(
            spec.must_not_answer.as_ref(),
            ended.map(|()| None).map_err(Into::into),
        )
    }

    async fn send_and_expect(&mut self, dial: DialAddress, spec: &TcpProbe) -> Result<(), EarlyEnd> {
        let certificate = self.client_certificate(spec.client_certificate.as_ref(), &spec.host)?;
        let address = self.choose_address(dial, spec.host.as_str(), spec.port).await?;
        let opening = ConnectionOpening {
            proxy_header: self.proxy_header(spec.proxy_header),
            tls: spec.tls.then_some(HandshakeOptions {
                host: spec.host.as_str(),
                alpn: &[],
                verify: !spec.accept_invalid_certificate,
                extra_roots: extra_roots(spec.extra_roots.as_ref()),
                client_certificate: certificate.as_ref(),
            }),
            expect_tls: spec.expect_tls.as_ref(),
            proxy: None,
        };
        let mut stream = self.open(address, opening).await?;
        if let Some(bytes) = &spec.send {
            let failed = |error: io::Error| EarlyEnd::io(Phase::Request, &error);
            let sending = async {
                stream.write_all(bytes.as_bytes()).await?;
                stream.flush().await
            };
            match self.deadline.timeout(sending).await {
                Ok(sent) => sent.map_err(failed)?,
                Err(DeadlineExceeded) => return Err(EarlyEnd::timeout(Phase::Request)),
            }
            self.timer.record(Phase::Request);
        }
        match &spec.expect {
            Some(expected) => self.receive(&mut stream, expected.as_bytes()).await,
            None => Ok(()),
        }
    }

    /// Reads until the expected bytes have arrived, or no longer can.
    async fn receive(&mut self, stream: &mut Stream, expected: &[u8]) -> Result<(), EarlyEnd> {
        let mut received = Vec::new();
        let mut buffer = [0; 1024];
        let ended = loop {
            let phase = if received.is_empty() {
                Phase::FirstByte
            } else {
                Phase::Body
            };
            let got = match self.deadline.timeout(stream.read(&mut buffer)).await {
                Ok(Ok(got)) => got,
                Ok(Err(error)) => break Err(EarlyEnd::io(phase, &error)),
                Err(DeadlineExceeded) if received.is_empty() => {
                    break Err(EarlyEnd::timeout(Phase::FirstByte));
                }
                // The server sent something, but not the expected bytes.
                Err(DeadlineExceeded) => break Err(EarlyEnd::new(Phase::Check, FailureKind::WrongBody)),
            };
            if received.is_empty() && got > 0 {
                self.timer.record(Phase::FirstByte);
            }
            received.extend_from_slice(&buffer[..got]);
            if expectations::contains(&received, expected) {
                break Ok(());
            }
            match got {
                0 if received.is_empty() => break Err(EarlyEnd::new(Phase::FirstByte, FailureKind::Eof)),
                0 => break Err(EarlyEnd::new(Phase::Check, FailureKind::WrongBody)),
                _ if received.len() >= MAX_RECEIVED => {
                    break Err(EarlyEnd::new(Phase::Check, FailureKind::WrongBody));
                }
                _ => {}
            }
        };
        if !received.is_empty() {
            self.timer.record(Phase::Body);
        }
        ended
    }
}
