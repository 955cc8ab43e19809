//! Captures the packets of one request with tcpdump in the client's Pod.
//!
//! Without sleeps: the request is sent once tcpdump reports that it listens, and a ping to the Pod's gateway
//! afterwards marks the end. Packets are printed in order, so all packets of the request precede the mark.

use std::{
    io::{BufRead, BufReader, Read},
    net::{IpAddr, Ipv4Addr},
    process::{Child, Stdio},
};

use anyhow::{Context, bail};

use crate::{
    client::{ClientResult, Request},
    command::GuestCommand,
    workloads,
};

/// Maximum number of lines read before the mark.
const MAX_LINES: usize = 2000;

pub(super) fn capture_request(
    lab: &str,
    namespace: &str,
    gateway: Ipv4Addr,
    address: IpAddr,
    ask: &Request,
) -> anyhow::Result<(ClientResult, Vec<String>)> {
    let filter = format!("host {address} or (icmp and host {gateway})");
    let tcpdump = GuestCommand::in_namespace(
        namespace,
        [
            "tcpdump",
            "-Z",
            "root",
            "-n",
            "-t",
            "-v",
            "-l",
            "--immediate-mode",
            "-i",
            "eth0",
            &filter,
        ],
    );
    let child = tcpdump
        .to_process()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `{tcpdump}` (install with: apt-get install tcpdump)"))?;
    let mut child = OwnedProcess(child);
    wait_until_listening(&mut child.0)?;

    let mark = Request::Ping { to: gateway };
    // One client at a time: the requests of one client run concurrently, and the mark could come first.
    let answer = asked(lab, namespace, ask)?;
    asked(lab, namespace, &mark)?;

    let stdout = child.0.stdout.take().context("tcpdump has no output")?;
    let mark = format!("> {gateway}: ICMP echo request");
    let mut packets: Vec<String> = Vec::new();
    for line in BufReader::new(stdout).lines().take(MAX_LINES) {
        let line = line?;
        // With -v, a packet is its IP header followed by indented lines.
        match packets.last_mut() {
            Some(packet) if line.starts_with(char::is_whitespace) => {
                packet.push(' ');
                packet.push_str(line.trim());
            }
            _ => packets.push(line),
        }
        if packets.last().is_some_and(|packet| packet.contains(&mark)) {
            packets.pop();
            return Ok((answer, packets));
        }
    }
    bail!("the end mark is not among the packets: {packets:?}")
}

fn asked(lab: &str, namespace: &str, ask: &Request) -> anyhow::Result<ClientResult> {
    let output = workloads::client(lab, namespace)
        .with_stdin(&[serde_json::to_string(ask)?])
        .run()?;
    let answer = output.lines().next().context("the client printed nothing")?;
    serde_json::from_str(answer).context("parsing the client's result")
}

fn wait_until_listening(child: &mut Child) -> anyhow::Result<()> {
    let stderr = child.stderr.as_mut().context("tcpdump has no error output")?;
    let mut message = String::new();
    for line in BufReader::new(stderr.take(4096)).lines() {
        let line = line?;
        if line.contains("listening on") {
            return Ok(());
        }
        message.push_str(&line);
    }
    bail!("tcpdump did not start: {message}")
}

/// A process that is killed with its owner.
struct OwnedProcess(Child);

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
