//! The target of the probes: HTTP, HTTPS, TCP and DNS on a hundred loopback addresses, in a separate process.
//!
//! The first line of output contains the ports; each line of input is answered with the current counts. The server
//! exits at the end of input.

use std::{cell::Cell, fs, io, rc::Rc, sync::Arc};

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, stdin, stdout},
    net::{TcpListener, TcpStream, UdpSocket},
    task::LocalSet,
};
use tokio_rustls::TlsAcceptor;

use crate::plan::{ADDRESSES, HOST, ProbeMix, TargetPorts, address};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n";

/// The server's first line of output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServerHello {
    pub(crate) ports: TargetPorts,
    /// The CA of its certificate.
    pub(crate) ca_pem: String,
}

/// Number of answered requests, after the handshake if there is one.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct RequestCounts {
    http: u64,
    https: u64,
    tcp: u64,
    dns: u64,
}

impl RequestCounts {
    pub(crate) const fn of(&self, kind: ProbeMix) -> u64 {
        match kind {
            ProbeMix::Http => self.http,
            ProbeMix::Https => self.https,
            ProbeMix::Tcp => self.tcp,
            ProbeMix::Dns => self.dns,
        }
    }
}

#[derive(Debug, Default)]
struct ServedRequests(Cell<RequestCounts>);

impl ServedRequests {
    fn one(&self, kind: ProbeMix) {
        let mut counts = self.0.get();
        match kind {
            ProbeMix::Http => counts.http += 1,
            ProbeMix::Https => counts.https += 1,
            ProbeMix::Tcp => counts.tcp += 1,
            ProbeMix::Dns => counts.dns += 1,
        }
        self.0.set(counts);
    }
}

/// Serves until the end of input.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let (ca_pem, tls) = certificate().context("create a certificate")?;
    let acceptor = TlsAcceptor::from(tls);
    let served = Rc::new(ServedRequests::default());
    // Dropped at the end, with all tasks on it.
    let local = LocalSet::new();
    let mut ports = Vec::new();
    for kind in [ProbeMix::Http, ProbeMix::Https, ProbeMix::Tcp] {
        let listeners = listeners().await.context("listen on 127.0.1.1 to 127.0.1.100")?;
        ports.push(listeners.first().context("no listener")?.local_addr()?.port());
        for listener in listeners {
            local.spawn_local(accept(listener, kind, acceptor.clone(), Rc::clone(&served)));
        }
    }
    let resolvers = resolvers()
        .await
        .context("listen for DNS on 127.0.1.1 to 127.0.1.100")?;
    ports.push(resolvers.first().context("no socket")?.local_addr()?.port());
    for socket in resolvers {
        local.spawn_local(resolve(socket, Rc::clone(&served)));
    }
    let &[http, https, tcp, dns] = ports.as_slice() else {
        unreachable!("four kinds, four ports");
    };
    let hello = ServerHello {
        ports: TargetPorts {
            http,
            https,
            tcp,
            dns,
        },
        ca_pem,
    };
    local
        .run_until(async {
            say(&hello).await?;
            let mut lines = BufReader::new(stdin()).lines();
            while lines.next_line().await?.is_some() {
                say(&served.0.get()).await?;
            }
            Ok(())
        })
        .await
}

async fn say(message: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = stdout();
    out.write_all(&line).await?;
    Ok(out.flush().await?)
}

/// Binds one port that is free on every address.
async fn listeners() -> io::Result<Vec<TcpListener>> {
    loop {
        let first = TcpListener::bind((address(0), 0)).await?;
        let port = first.local_addr()?.port();
        let mut all = vec![first];
        for i in 1..u64::from(ADDRESSES) {
            match TcpListener::bind((address(i), port)).await {
                Ok(listener) => all.push(listener),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => break,
                Err(error) => return Err(error),
            }
        }
        if all.len() == usize::from(ADDRESSES) {
            return Ok(all);
        }
    }
}

async fn resolvers() -> io::Result<Vec<UdpSocket>> {
    let first = UdpSocket::bind((address(0), 0)).await?;
    let port = first.local_addr()?.port();
    let mut all = vec![first];
    for i in 1..u64::from(ADDRESSES) {
        all.push(UdpSocket::bind((address(i), port)).await?);
    }
    Ok(all)
}

async fn accept(listener: TcpListener, kind: ProbeMix, acceptor: TlsAcceptor, served: Rc<ServedRequests>) {
    loop {
        // At worst out of file descriptors: the affected clients fail, and the harness counts it.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (acceptor, served) = (acceptor.clone(), Rc::clone(&served));
        tokio::task::spawn_local(async move {
            // Clients that disconnect early are ignored and not counted.
            let _ = answer(stream, kind, &acceptor, &served).await;
        });
    }
}

async fn answer(
    stream: TcpStream,
    kind: ProbeMix,
    acceptor: &TlsAcceptor,
    served: &ServedRequests,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match kind {
        ProbeMix::Http => http(stream, served, kind).await,
        ProbeMix::Https => http(acceptor.accept(stream).await?, served, kind).await,
        ProbeMix::Tcp | ProbeMix::Dns => {
            served.one(kind);
            let mut stream = stream;
            // The client closes first, as after a bare connect.
            stream.read(&mut [0; 16]).await.map(drop)
        }
    }
}

async fn http(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    served: &ServedRequests,
    kind: ProbeMix,
) -> io::Result<()> {
    let mut request = [0; 1024];
    let mut len = 0;
    while !request[..len].ends_with(b"\r\n\r\n") {
        match stream.read(&mut request[len..]).await? {
            0 => return Ok(()),
            more => len += more,
        }
    }
    stream.write_all(ANSWER).await?;
    served.one(kind);
    stream.shutdown().await
}

/// Answers every query with one A record.
async fn resolve(socket: UdpSocket, served: Rc<ServedRequests>) {
    let mut buffer = [0; 512];
    loop {
        let Ok((len, client)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let query = &buffer[..len];
        // The question ends four bytes after the root label of its name; EDNS may follow.
        let Some(end) = query
            .get(12..)
            .and_then(|q| q.iter().position(|b| *b == 0))
            .map(|at| at + 17)
        else {
            continue;
        };
        let Some(question) = query.get(..end) else {
            continue;
        };
        let mut answer = question.to_vec();
        // A response without error, recursion available; one question, one answer, nothing else.
        answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        // The question's name, A, IN, 30 s, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 203, 0, 113, 10]);
        if socket.send_to(&answer, client).await.is_ok() {
            served.one(ProbeMix::Dns);
        }
    }
}

/// Creates a certificate for [`HOST`], signed by a temporary CA.
fn certificate() -> anyhow::Result<(String, Arc<ServerConfig>)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate()?;
    let ca = params.self_signed(&ca_key)?;
    let issuer = Issuer::new(params, ca_key);
    let mut params = CertificateParams::new(vec![HOST.to_owned()])?;
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    let key = KeyPair::generate()?;
    let leaf = params.signed_by(&key, &issuer)?.der().clone();
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![leaf],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )?;
    // Forces a full handshake for every connection.
    config.send_tls13_tickets = 0;
    Ok((ca.pem(), Arc::new(config)))
}

/// Writes the CA to a file for other programs.
pub(crate) fn keep_ca(hello: &ServerHello, folder: &std::path::Path) -> io::Result<std::path::PathBuf> {
    let path = folder.join("ca.pem");
    fs::write(&path, &hello.ca_pem)?;
    Ok(path)
}
