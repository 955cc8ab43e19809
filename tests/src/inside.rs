//! The host's end of the control connection.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::control::{self, Event, MOST_BYTES, Order};

/// Longest any order may take: building is the longest, some two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Where the machine will connect to.
#[derive(Debug)]
pub struct Awaited {
    listener: TcpListener,
    run: String,
}

/// The machine, ready for orders.
#[derive(Debug)]
pub struct Inside {
    stream: BufReader<TcpStream>,
    kernel: String,
}

impl Awaited {
    /// Listens on a free port of the loopback.
    pub async fn listen(run: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listening for the machine")?;
        Ok(Self {
            listener,
            run: run.to_owned(),
        })
    }

    /// The port.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        self.listener.local_addr().context("finding the control port")
    }

    /// Waits for the machine of this run; connections of anybody else are closed.
    pub async fn ready(self) -> anyhow::Result<Inside> {
        loop {
            let (stream, _) = self.listener.accept().await.context("accepting the machine")?;
            stream
                .set_nodelay(true)
                .context("setting up the control connection")?;
            let mut inside = Inside {
                stream: BufReader::new(stream),
                kernel: String::new(),
            };
            if let Ok(Event::Ready { run, kernel }) = inside.read().await
                && run == self.run
            {
                inside.kernel = kernel;
                return Ok(inside);
            }
        }
    }
}

impl Inside {
    /// Its kernel's version.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Gives an order and waits until it is done. A failure inside is an error here.
    pub async fn order(&mut self, order: &Order) -> anyhow::Result<Event> {
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
        let line = control::line(&Order::Stop)?;
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
