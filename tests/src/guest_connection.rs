//! The host's side of the control connection.

use std::{net::SocketAddr, os::fd::OwnedFd, time::Duration};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, UnixStream},
    time::timeout,
};

use crate::{
    client::MAX_LINE_BYTES,
    control::{self, Event, HostCommand},
};

/// Timeout of a command: building takes longest, about two seconds on an idle machine.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(3);

/// A control connection of either kind.
trait InsideStream: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin> InsideStream for T {}

/// How the guest will connect.
#[derive(Debug)]
pub struct GuestAddress {
    transport: GuestTransport,
    run: String,
}

#[derive(Debug)]
enum GuestTransport {
    /// The guest has its own network, and connects.
    Tcp(TcpListener),
    /// The guest was started with the other end.
    Pair(UnixStream),
}

/// A guest that is ready for commands.
#[derive(Debug)]
pub struct GuestConnection {
    stream: BufReader<Box<dyn InsideStream>>,
    kernel: String,
}

impl GuestAddress {
    /// Listens on a free loopback port and returns its address.
    pub async fn listen(run: &str) -> anyhow::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listening for the machine")?;
        let address = listener.local_addr().context("finding the control port")?;
        Ok((Self::by(GuestTransport::Tcp(listener), run), address))
    }

    /// Creates a pair of connected sockets and returns the guest's end.
    pub fn pair(run: &str) -> anyhow::Result<(Self, OwnedFd)> {
        let (host_end, guest_end) =
            std::os::unix::net::UnixStream::pair().context("making the control connection")?;
        host_end
            .set_nonblocking(true)
            .context("setting up the control connection")?;
        let host_end = UnixStream::from_std(host_end).context("setting up the control connection")?;
        Ok((Self::by(GuestTransport::Pair(host_end), run), guest_end.into()))
    }

    fn by(way: GuestTransport, run: &str) -> Self {
        Self {
            transport: way,
            run: run.to_owned(),
        }
    }

    /// Waits for the guest of this run; closes all other connections.
    pub async fn ready(self) -> anyhow::Result<GuestConnection> {
        let listener = match self.transport {
            GuestTransport::Pair(stream) => {
                let inside = GuestConnection::of(Box::new(stream))
                    .await_ready(&self.run)
                    .await?;
                return inside.context("the machine belongs to another run");
            }
            GuestTransport::Tcp(listener) => listener,
        };
        loop {
            let (stream, _) = listener.accept().await.context("accepting the machine")?;
            stream
                .set_nodelay(true)
                .context("setting up the control connection")?;
            if let Ok(Some(inside)) = GuestConnection::of(Box::new(stream)).await_ready(&self.run).await {
                return Ok(inside);
            }
        }
    }
}

impl GuestConnection {
    fn of(stream: Box<dyn InsideStream>) -> Self {
        Self {
            stream: BufReader::new(stream),
            kernel: String::new(),
        }
    }

    /// Waits for its `Ready` message; `None` if it belongs to another run.
    async fn await_ready(mut self, wanted: &str) -> anyhow::Result<Option<Self>> {
        let Event::Ready { run, kernel } = self.read().await? else {
            return Ok(None);
        };
        self.kernel = kernel;
        Ok((run == wanted).then_some(self))
    }

    /// Returns the version of its kernel.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Sends a command and waits for its completion. A failure in the guest is returned as an error.
    pub async fn execute(&mut self, order: &HostCommand) -> anyhow::Result<Event> {
        let line = control::line(order)?;
        let exchange = async {
            self.stream
                .get_mut()
                .write_all(&line)
                .await
                .context("sending a command")?;
            self.read().await
        };
        match timeout(COMMAND_TIMEOUT, exchange).await {
            Err(_) => bail!(
                "no response from the machine within {} s",
                COMMAND_TIMEOUT.as_secs()
            ),
            Ok(Ok(Event::Failed { what })) => bail!("inside the machine: {what}"),
            Ok(event) => event,
        }
    }

    /// Makes it halt.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let line = control::line(&HostCommand::Stop)?;
        self.stream
            .get_mut()
            .write_all(&line)
            .await
            .context("sending the command Stop")
    }

    async fn read(&mut self) -> anyhow::Result<Event> {
        let mut line = Vec::new();
        (&mut self.stream)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .await
            .context("reading a reply")?;
        if line.is_empty() {
            bail!("the machine closed the control connection");
        }
        serde_json::from_slice(&line).context("parsing a reply of the machine")
    }
}
