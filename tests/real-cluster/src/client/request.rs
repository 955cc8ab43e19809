//! One request of an ordinary client: resolve, connect, send, read the status line.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};

use super::Destination;

/// Maximum number of response bytes to read.
const MAX_HEAD_BYTES: usize = 4096;

/// Builds a TLS client that trusts the CAs of a file, or none without one.
pub(super) fn trust(roots: Option<&Path>) -> anyhow::Result<Arc<ClientConfig>> {
    let mut store = RootCertStore::empty();
    if let Some(path) = roots {
        let pem = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.with_context(|| format!("a certificate of {}", path.display()))?;
            store.add(certificate).context("a root certificate")?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS versions")?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Sends one request. A status below 400 is a success; any other result is returned as a short error.
pub(super) fn send_request(
    to: &Destination,
    tls: &Arc<ClientConfig>,
    timeout: Duration,
) -> Result<(), String> {
    let deadline = Instant::now() + timeout;
    let address = resolve(to)?;
    let stream = TcpStream::connect_timeout(&address, remaining(deadline)?)
        .map_err(|error| format!("connect {address}: {error}"))?;
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&stream, Some(remaining(deadline)?)).map_err(|error| error.to_string())?;
    }
    let head = if to.tls {
        let name = ServerName::try_from(to.host.clone()).map_err(|error| error.to_string())?;
        let session = ClientConnection::new(Arc::clone(tls), name).map_err(|error| error.to_string())?;
        exchange(StreamOwned::new(session, stream), to, deadline)
    } else {
        exchange(stream, to, deadline)
    };
    status(&head.map_err(|error| format!("{address}: {error}"))?)
        .map_err(|error| format!("{address}: {error}"))
}

fn resolve(to: &Destination) -> Result<SocketAddr, String> {
    let mut addresses = (to.host.as_str(), to.port)
        .to_socket_addrs()
        .map_err(|error| format!("resolve {}: {error}", to.host))?;
    addresses
        .next()
        .ok_or_else(|| format!("resolve {}: no address", to.host))
}

fn exchange(mut stream: impl Read + Write, to: &Destination, deadline: Instant) -> Result<Vec<u8>, String> {
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: shopper\r\nConnection: close\r\n\r\n",
        to.path, to.host
    );
    stream
        .write_all(request.as_bytes())
        .map_err(|error| format!("send: {error}"))?;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(2).any(|pair| pair == b"\r\n") && head.len() < MAX_HEAD_BYTES {
        remaining(deadline)?;
        let read = stream
            .read(&mut buffer)
            .map_err(|error| format!("receive: {error}"))?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(&buffer[..read]);
    }
    Ok(head)
}

/// Returns the remaining time. The C library's resolver has its own timeouts, which may be longer.
fn remaining(deadline: Instant) -> Result<Duration, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err("timed out".to_owned())
    } else {
        Ok(left)
    }
}

fn status(head: &[u8]) -> Result<(), String> {
    if head.is_empty() {
        return Err("closed without a response".to_owned());
    }
    let text = String::from_utf8_lossy(head);
    let code = text
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("status {code}")),
        None => Err("not an HTTP response".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_below_400_is_a_success() {
        assert_eq!(status(b"HTTP/1.1 200 OK\r\n"), Ok(()));
        assert_eq!(status(b"HTTP/1.0 301 Moved\r\n"), Ok(()));
        assert_eq!(
            status(b"HTTP/1.1 404 Not Found\r\n"),
            Err("status 404".to_owned())
        );
        assert_eq!(status(b"SSH-2.0\r\n"), Err("not an HTTP response".to_owned()));
        assert!(status(b"").is_err());
    }
}
