//! A TCP connection, over TLS or not; something said, something heard, or neither.

use std::io;

use parallax_model::{Dial, FailureKind, Phase, TcpProbe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Ended, Probe, check, leg::Opening, trusted};
use crate::{classify::Stop, clock::Passed, connect::Stream, tls::Handshake};

/// How much of what a server sends is looked at.
const HEARD: usize = 4096;

impl Probe<'_> {
    pub(super) async fn tcp(&mut self, dial: Dial, spec: &TcpProbe) -> Result<Option<u16>, Ended> {
        let ended = self.talk(dial, spec).await;
        check::silence(
            spec.must_not_answer.as_ref(),
            ended.map(|()| None).map_err(Into::into),
        )
    }

    async fn talk(&mut self, dial: Dial, spec: &TcpProbe) -> Result<(), Stop> {
        let address = self.address(dial, spec.host.as_str(), spec.port).await?;
        let opening = Opening {
            proxy_header: self.proxy_header(spec.proxy_header),
            tls: spec.tls.then_some(Handshake {
                host: spec.host.as_str(),
                alpn: &[],
                verify: !spec.any_certificate,
                extra_roots: trusted(spec.extra_roots.as_ref()),
            }),
            expect_tls: spec.expect_tls.as_ref(),
        };
        let mut stream = self.open(address, opening).await?;
        if let Some(bytes) = &spec.send {
            let failed = |error: io::Error| Stop::io(Phase::Request, &error);
            let sending = async {
                stream.write_all(bytes.as_bytes()).await?;
                stream.flush().await
            };
            match self.deadline.bound(sending).await {
                Ok(sent) => sent.map_err(failed)?,
                Err(Passed) => return Err(Stop::timeout(Phase::Request)),
            }
            self.laps.book(Phase::Request);
        }
        match &spec.expect {
            Some(expected) => self.hear(&mut stream, expected.as_bytes()).await,
            None => Ok(()),
        }
    }

    /// Reads until the expected bytes are there, or cannot come any more.
    async fn hear(&mut self, stream: &mut Stream, expected: &[u8]) -> Result<(), Stop> {
        let mut heard = Vec::new();
        let mut buffer = [0; 1024];
        let ended = loop {
            let phase = if heard.is_empty() {
                Phase::FirstByte
            } else {
                Phase::Body
            };
            let got = match self.deadline.bound(stream.read(&mut buffer)).await {
                Ok(Ok(got)) => got,
                Ok(Err(error)) => break Err(Stop::io(phase, &error)),
                Err(Passed) if heard.is_empty() => break Err(Stop::timeout(Phase::FirstByte)),
                // It spoke, and did not say what was expected.
                Err(Passed) => break Err(Stop::new(Phase::Check, FailureKind::WrongBody)),
            };
            if heard.is_empty() && got > 0 {
                self.laps.book(Phase::FirstByte);
            }
            heard.extend_from_slice(&buffer[..got]);
            if check::contains(&heard, expected) {
                break Ok(());
            }
            match got {
                0 if heard.is_empty() => break Err(Stop::new(Phase::FirstByte, FailureKind::Eof)),
                0 => break Err(Stop::new(Phase::Check, FailureKind::WrongBody)),
                _ if heard.len() >= HEARD => break Err(Stop::new(Phase::Check, FailureKind::WrongBody)),
                _ => {}
            }
        };
        if !heard.is_empty() {
            self.laps.book(Phase::Body);
        }
        ended
    }
}
