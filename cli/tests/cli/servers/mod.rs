//! Local servers on ephemeral ports, each on its own thread that ends with it.

pub(crate) mod dns;
pub(crate) mod tls;

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use socket2::{Domain, Socket, Type};

/// A TCP server that handles connections sequentially.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(serve: impl Fn(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop_flag.load(Ordering::SeqCst) {
                    return;
                }
                serve(stream.unwrap());
            }
        });
        Self {
            addr,
            stop,
            thread: Some(thread),
        }
    }

    /// Starts a server that answers 200 and records the heads of its requests.
    pub(crate) fn recording(heads: RequestHeads) -> Self {
        Self::start(move |mut stream| {
            if let Some(head) = head(&mut stream) {
                heads.lock().unwrap().push(head);
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        })
    }

    /// Starts a server that answers each request by its path.
    pub(crate) fn http(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        Self::start(move |mut stream| {
            if let Some(path) = request(&mut stream) {
                // The client may have disconnected.
                let _ = stream.write_all(answer(&path).as_bytes());
            }
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
        // A panic in the server fails the test, unless the test is already failing.
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// The heads of the requests that a server received.
pub(crate) type RequestHeads = Arc<Mutex<Vec<String>>>;

/// Reads the head of a request, if the client sends one.
pub(crate) fn head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// Reads a request and returns its path, if it is one.
pub(crate) fn request(stream: &mut impl Read) -> Option<String> {
    let mut lines = BufReader::new(stream);
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    let mut line = String::new();
    while lines.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    Some(first.split(' ').nth(1)?.to_owned())
}

/// Builds a response with its length.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// A reserved port that refuses connections: bound, without a listener. Released on drop.
pub(crate) struct RefusingPort {
    pub(crate) addr: SocketAddr,
    _socket: Socket,
}

impl RefusingPort {
    pub(crate) fn new() -> Self {
        Self::at(([127, 0, 0, 1], 0).into()).unwrap()
    }

    /// Starts a server on IPv4 whose port refuses on IPv6.
    pub(crate) fn server_and_refusing_port(start: impl Fn() -> Server) -> (Server, Self) {
        loop {
            let server = start();
            // The same number may be in use on IPv6.
            if let Ok(refusing) = Self::at((Ipv6Addr::LOCALHOST, server.addr.port()).into()) {
                return (server, refusing);
            }
        }
    }

    fn at(addr: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
        match socket.bind(&addr.into()) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => panic!("bind {addr}: {error}"),
            bound => bound?,
        }
        Ok(Self {
            addr: socket.local_addr()?.as_socket().unwrap(),
            _socket: socket,
        })
    }
}
