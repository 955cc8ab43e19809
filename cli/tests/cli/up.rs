//! `parallax up`: one process, real sockets, no Kubernetes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdout, Stdio},
    thread::JoinHandle,
};

use parallax_test_support::closed_port::ClosedTcpPort;

use crate::commands::{config, parallax, repository};

/// A server that answers each request with 200 until it is dropped.
pub(crate) struct Server {
    pub(crate) address: std::net::SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    /// Starts a server at the address of a stopped one.
    pub(crate) fn at(address: std::net::SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut line = String::new();
                while stream.read_line(&mut line).unwrap_or(0) > 2 {
                    if line.starts_with("STOP") {
                        return;
                    }
                    line.clear();
                }
                // A prober that is stopped closes the connection midway; that is not a failure of the server.
                let _ = stream
                    .get_mut()
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
            }
        });
        Self {
            address,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        TcpStream::connect(self.address)
            .unwrap()
            .write_all(b"STOP\r\n")
            .unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(crate) struct Up {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    pub(crate) page: String,
}

impl Up {
    pub(crate) fn start(path: &std::path::Path) -> Self {
        Self::with(path, &[])
    }

    pub(crate) fn with(path: &std::path::Path, more: &[&str]) -> Self {
        let mut child = parallax()
            .args(["up", "--config"])
            .arg(path)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let page = first
            .strip_prefix("page and API at http://")
            .unwrap_or_else(|| panic!("{first}"));
        let page = page.trim_end_matches('/').to_owned();
        Self { child, lines, page }
    }

    /// Reads until a line contains the words. The test harness's time limit ends a test that waits too long.
    pub(crate) fn until(&mut self, words: &str) -> String {
        self.lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains(words))
            .unwrap()
    }

    /// Starts the process on this machine with the test's own resolver.
    pub(crate) fn resolving(path: &std::path::Path, dns: std::net::SocketAddr) -> Self {
        let resolv = path.with_file_name("resolv.conf");
        std::fs::write(&resolv, format!("nameserver [127.0.0.1]:{}\n", dns.port())).unwrap();
        let mut up = Self::with(path, &["--resolv-conf", resolv.to_str().unwrap()]);
        up.until("1 of 1 vantages report");
        up
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.page).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.page
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn interrupt(mut self) -> Option<i32> {
        let signalled = std::process::Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(signalled.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Up {
    /// Stops the process, also if the test panics; it may have exited already.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_target_that_answers_is_ok_on_screen_page_and_api_and_ctrl_c_ends_it_well() {
    let server = Server::start();
    let (_folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 300\ntimeoutMs: 200\ntargets:\n  - url: http://{}/\n",
        server.address
    ));
    let mut up = Up::start(&path);
    up.until("1 of 1 vantages report  ✓ 1 ok");
    let page = up.get("/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains(&server.address.to_string()));
    assert!(up.get("/v1/state").contains(r#""state":"ok""#));
    let metrics = up.get("/metrics");
    assert!(metrics.contains("parallax_probes_total{"), "{metrics}");
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn a_target_that_refuses_is_failing_and_never_shown_as_ok() {
    let closed = ClosedTcpPort::open().unwrap();
    let address = closed.address().unwrap();
    let (_folder, path) = config(&format!(
        "listen: 127.0.0.1:0\nintervalMs: 300\ntimeoutMs: 200\ntargets:\n  - url: tcp://{address}\n"
    ));
    let mut up = Up::start(&path);
    let line = up.until("✗ 1 failing");
    assert!(!line.contains('✓'), "{line}");
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn the_commented_example_starts_as_it_stands_but_for_its_port() {
    let example = std::fs::read_to_string(repository("deploy/parallax.yaml")).unwrap();
    let example = example.replace("listen: 127.0.0.1:8080", "listen: 127.0.0.1:0");
    let (_folder, path) = config(&example);
    let mut up = Up::start(&path);
    up.until("vantages report");
    assert!(up.get("/").contains("shop.example.com"));
    assert_eq!(up.interrupt(), Some(0));
}
