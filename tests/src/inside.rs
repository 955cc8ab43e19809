//! The host's end of the control connection.

use std::{net::SocketAddr, os::fd::OwnedFd, time::Duration};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, UnixStream},
    time::timeout,
};

use crate::control::{self, Event, HostCommand, MOST_BYTES};

/// Longest any order may take: building is the longest, some two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A connection of either kind.
trait InsideStream: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin> InsideStream for T {}

/// Where the machine will connect to.
#[derive(Debug)]
pub struct GuestAddress {
    way: GuestTransport,
    run: String,
}

#[derive(Debug)]
enum GuestTransport {
    /// It has a network of its own, and connects.
    Tcp(TcpListener),
    /// It was started with the other end.
    Pair(UnixStream),
}

/// The machine, ready for orders.
#[derive(Debug)]
pub struct GuestConnection {
    stream: BufReader<Box<dyn InsideStream>>,
    kernel: String,
}

impl GuestAddress {
    /// Listens on a free port of the loopback; answers it.
    pub async fn listen(run: &str) -> anyhow::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listening for the machine")?;
        let address = listener.local_addr().context("finding the control port")?;
        Ok((Self::by(GuestTransport::Tcp(listener), run), address))
    }

    /// A pair of connected sockets; answers the machine's end.
    pub fn pair(run: &str) -> anyhow::Result<(Self, OwnedFd)> {
        let (here, there) =
            std::os::unix::net::UnixStream::pair().context("making the control connection")?;
        here.set_nonblocking(true)
            .context("setting up the control connection")?;
        let here = UnixStream::from_std(here).context("setting up the control connection")?;
        Ok((Self::by(GuestTransport::Pair(here), run), there.into()))
    }

    fn by(way: GuestTransport, run: &str) -> Self {
        Self {
            way,
            run: run.to_owned(),
        }
    }

    /// Waits for the machine of this run; connections of anybody else are closed.
    pub async fn ready(self) -> anyhow::Result<GuestConnection> {
        let listener = match self.way {
            GuestTransport::Pair(stream) => {
                let inside = GuestConnection::of(Box::new(stream)).named(&self.run).await?;
                return inside.context("the machine is of another run");
            }
            GuestTransport::Tcp(listener) => listener,
        };
        loop {
            let (stream, _) = listener.accept().await.context("accepting the machine")?;
            stream
                .set_nodelay(true)
                .context("setting up the control connection")?;
            if let Ok(Some(inside)) = GuestConnection::of(Box::new(stream)).named(&self.run).await {
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

    /// Once it has said that it is ready; nothing where it belongs to another run.
    async fn named(mut self, wanted: &str) -> anyhow::Result<Option<Self>> {
        let Event::Ready { run, kernel } = self.read().await? else {
            return Ok(None);
        };
        self.kernel = kernel;
        Ok((run == wanted).then_some(self))
    }

    /// Its kernel's version.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Gives an order and waits until it is done. A failure inside is an error here.
    pub async fn order(&mut self, order: &HostCommand) -> anyhow::Result<Event> {
        let line = control::line(order)?;
        let asked = async {
            self.stream
                .get_mut()
                .write_all(&line)
                .await
                .context("sending an order")?;
            self.read().await
        };
        match timeout(PATIENCE, asked).await {
            Err(_) => bail!("the machine did not answer within {} s", PATIENCE.as_secs()),
            Ok(Ok(Event::Failed { what })) => bail!("inside the machine: {what}"),
            Ok(event) => event,
        }
    }

    /// Tells it to halt.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let line = control::line(&HostCommand::Stop)?;
        self.stream
            .get_mut()
            .write_all(&line)
            .await
            .context("sending the order to stop")
    }

    async fn read(&mut self) -> anyhow::Result<Event> {
        let mut line = Vec::new();
        (&mut self.stream)
            .take(MOST_BYTES)
            .read_until(b'\n', &mut line)
            .await
            .context("reading an answer")?;
        if line.is_empty() {
            bail!("the machine closed the control connection");
        }
        serde_json::from_slice(&line).context("reading an answer of the machine")
    }
}
