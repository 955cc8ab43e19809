//! The web servers of a scenario.

use std::{fmt::Write as _, io::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use flate2::{Compression, write::GzEncoder};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::scenario::{ConnectionAction, Framing, HttpAnswer, ScenarioNames, Tls, WebServerSpec};

/// Certificates shared by all servers.
#[derive(Clone)]
pub(crate) struct SharedCertificates {
    untrusted: TlsAcceptor,
    alert: TlsAcceptor,
}

/// A resolver that never finds a certificate.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

impl SharedCertificates {
    pub(crate) fn make() -> anyhow::Result<Self> {
        let key = rcgen::KeyPair::generate().context("generating a key")?;
        let mut parameters = rcgen::CertificateParams::new(vec!["other.example.org".to_owned()])
            .context("naming a certificate")?;
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let certificate = parameters.self_signed(&key).context("signing a certificate")?;
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let untrusted = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .context("setting up TLS")?;
        let alert = ServerConfig::builder()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoCertificate));
        Ok(Self {
            untrusted: TlsAcceptor::from(Arc::new(untrusted)),
            alert: TlsAcceptor::from(Arc::new(alert)),
        })
    }
}

/// Starts a server on each of its addresses; they stop with the set.
pub(crate) async fn start(
    web: &WebServerSpec,
    stage: &ScenarioNames,
    shown: &SharedCertificates,
    servers: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let server = Arc::new(WebServer {
        web: web.clone(),
        stage: stage.clone(),
        shown: shown.clone(),
    });
    for address in &web.at {
        let address = SocketAddr::new(stage.address(address)?, web.port);
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening on {address}"))?;
        servers.spawn(Arc::clone(&server).accept(listener));
    }
    Ok(())
}

struct WebServer {
    web: WebServerSpec,
    stage: ScenarioNames,
    shown: SharedCertificates,
}

impl WebServer {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            while connections.try_join_next().is_some() {}
            let server = Arc::clone(&self);
            connections.spawn(async move {
                // Clients that disconnect midway are expected here.
                let _ = server.connection(stream).await;
            });
        }
    }

    async fn connection(&self, stream: TcpStream) -> anyhow::Result<()> {
        if self.web.challenge == ConnectionAction::ResetOnAccept {
            stream.set_zero_linger()?;
            return Ok(());
        }
        match self.web.tls {
            Tls::No => self.request(stream, |stream| Ok(stream.set_zero_linger()?)).await,
            Tls::Untrusted => {
                let stream = self.shown.untrusted.accept(stream).await?;
                self.request(stream, |stream| Ok(stream.get_ref().0.set_zero_linger()?))
                    .await
            }
            Tls::Alert => {
                self.shown.alert.accept(stream).await?;
                Ok(())
            }
        }
    }

    async fn request<S>(&self, mut stream: S, linger: impl Fn(&S) -> anyhow::Result<()>) -> anyhow::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let head = head(&mut stream).await?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (bytes, ending) = self.answer(path).await?;
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        match ending {
            ConnectionEnd::Close => stream.shutdown().await?,
            ConnectionEnd::Reset => linger(&stream)?,
            ConnectionEnd::Never => {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).await?;
            }
        }
        Ok(())
    }

    async fn answer(&self, path: &str) -> anyhow::Result<(Vec<u8>, ConnectionEnd)> {
        let not_found = ConnectionAction::Answer(HttpAnswer {
            status: 404,
            content: "404 page not found\n".to_owned(),
            ..HttpAnswer::default()
        });
        let mut act = &not_found;
        if path == self.stage.path() {
            act = &self.web.challenge;
        }
        for (scripted_path, does) in &self.web.paths {
            if self.stage.replace_placeholders(scripted_path)? == path {
                act = does;
            }
        }
        let link;
        if let (ConnectionAction::Chain(_), _) | (_, Some(_)) = (act, path.strip_prefix("/chain/"))
            && let ConnectionAction::Chain(links) = self.web.challenge
        {
            let left = path
                .strip_prefix("/chain/")
                .and_then(|left| left.parse().ok())
                .unwrap_or(links);
            link = ConnectionAction::Answer(match left {
                0 => HttpAnswer::default(),
                left => HttpAnswer {
                    status: 302,
                    location: Some(format!("/chain/{}", left - 1)),
                    ..HttpAnswer::default()
                },
            });
            act = &link;
        }
        Ok(match act {
            ConnectionAction::Answer(answer) => {
                time::sleep(Duration::from_millis(answer.late_ms)).await;
                (whole(answer, &self.stage)?, ConnectionEnd::Close)
            }
            ConnectionAction::Raw(text) => (
                self.stage.replace_placeholders(text)?.into_bytes(),
                ConnectionEnd::Close,
            ),
            ConnectionAction::Stall(text) => (
                self.stage.replace_placeholders(text)?.into_bytes(),
                ConnectionEnd::Never,
            ),
            ConnectionAction::ResetAfter(text) => (
                self.stage.replace_placeholders(text)?.into_bytes(),
                ConnectionEnd::Reset,
            ),
            ConnectionAction::Close | ConnectionAction::Chain(_) => (Vec::new(), ConnectionEnd::Close),
            ConnectionAction::Reset | ConnectionAction::ResetOnAccept => (Vec::new(), ConnectionEnd::Reset),
            ConnectionAction::Silence => (Vec::new(), ConnectionEnd::Never),
        })
    }
}

enum ConnectionEnd {
    Close,
    Reset,
    Never,
}

async fn head(stream: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).context("a request that is not ASCII")
}

fn compress(content: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(content).context("compressing")?;
    packed.finish().context("compressing")
}

fn whole(answer: &HttpAnswer, stage: &ScenarioNames) -> anyhow::Result<Vec<u8>> {
    let mut content = stage.replace_placeholders(&answer.content)?.into_bytes();
    let mut head = format!("HTTP/1.1 {} Said\r\n", answer.status);
    if let Some(location) = &answer.location {
        write!(head, "Location: {}\r\n", stage.replace_placeholders(location)?)?;
    }
    if answer.gzip {
        content = compress(&content)?;
        if let Some(second) = &answer.second_member {
            content.extend(compress(stage.replace_placeholders(second)?.as_bytes())?);
        }
        head += "Content-Encoding: gzip\r\n";
    }
    match answer.framing {
        Framing::Length => write!(head, "Content-Length: {}\r\n", content.len())?,
        Framing::Short => write!(head, "Content-Length: {}\r\n", content.len() + 10)?,
        Framing::Chunked => {
            head += "Transfer-Encoding: chunked\r\n";
            let mut chunks = Vec::new();
            for chunk in content.chunks(40) {
                write!(chunks, "{:x}\r\n", chunk.len())?;
                chunks.extend_from_slice(chunk);
                chunks.extend_from_slice(b"\r\n");
            }
            chunks.extend_from_slice(b"0\r\n\r\n");
            content = chunks;
        }
        Framing::Close => {}
    }
    head += "Connection: close\r\n\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend(content);
    Ok(bytes)
}
