//! The processes in the Pods. They write to the console, which the host stores as the run's log.
//!
//! Whether a process listens is read from the kernel's socket tables: this works for any protocol, and sends the
//! process nothing that would appear in its own log or counters.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddrV4,
    process::{Child, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use parallax_model::PodName;

use crate::command::GuestCommand;

/// Timeout until a process listens.
const LISTEN_TIMEOUT: Duration = Duration::from_mins(1);

/// Grace period of a process to exit.
const STOP_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A socket table under `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketTable {
    Tcp,
    Udp,
}

impl SocketTable {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// Returns the state of a listening socket: `TCP_LISTEN`, and for UDP `TCP_CLOSE` (not connected).
    const fn listening_state(self) -> &'static str {
        match self {
            Self::Tcp => "0A",
            Self::Udp => "07",
        }
    }
}

/// Where a process must listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenAddress {
    /// This port of any address.
    Port(u16),
    /// Exactly this address and port.
    Address(SocketAddrV4),
}

impl ListenAddress {
    /// Formats it as in the kernel's table; an address is a number in native byte order.
    fn table_format(self) -> String {
        match self {
            Self::Port(port) => format!(":{port:04X}"),
            Self::Address(address) => {
                let ip = u32::from_ne_bytes(address.ip().octets());
                format!("{ip:08X}:{:04X}", address.port())
            }
        }
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Port(port) => write!(f, "port {port}"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Reports whether a table has a listening socket there.
fn is_listening(text: &str, table: SocketTable, local: ListenAddress) -> bool {
    let local = local.table_format();
    text.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|column| column.ends_with(&local))
            && columns.nth(1) == Some(table.listening_state())
    })
}

/// Terminates a process, so that it can stop its children; kills it if it does not exit.
fn stop_child(child: &mut Child) -> anyhow::Result<()> {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may have exited already.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < STOP_GRACE_PERIOD {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(POLL_INTERVAL);
        }
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// The processes by Pod; killed on drop.
#[derive(Debug, Default)]
pub(super) struct PodProcesses(BTreeMap<PodName, Child>);

impl PodProcesses {
    pub(super) fn start(&mut self, pod: &PodName, command: &GuestCommand) -> anyhow::Result<()> {
        if self.0.contains_key(pod) {
            bail!("a process already runs in the Pod {pod}");
        }
        let child = command
            .to_process()
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting `{command}`"))?;
        self.0.insert(pod.clone(), child);
        Ok(())
    }

    /// Waits until the Pod's process listens, according to its namespace's tables.
    pub(super) fn wait_until_listening(
        &mut self,
        pod: &PodName,
        table: SocketTable,
        local: ListenAddress,
    ) -> anyhow::Result<()> {
        let child = self
            .0
            .get_mut(pod)
            .with_context(|| format!("no process runs in the Pod {pod}"))?;
        let file = format!("/proc/{}/net/{}", child.id(), table.name());
        let start = Instant::now();
        loop {
            if let Some(status) = child
                .try_wait()
                .with_context(|| format!("checking the process of the Pod {pod}"))?
            {
                bail!("the process of the Pod {pod} exited with {status} before it listened on {local}");
            }
            let text = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
            if is_listening(&text, table, local) {
                return Ok(());
            }
            if start.elapsed() > LISTEN_TIMEOUT {
                bail!(
                    "the Pod {pod} does not listen on {local} after {} s",
                    LISTEN_TIMEOUT.as_secs()
                );
            }
            sleep(POLL_INTERVAL);
        }
    }

    pub(super) fn runs(&self, pod: &PodName) -> bool {
        self.0.contains_key(pod)
    }

    /// Sends a signal to a process.
    pub(super) fn signal(&self, pod: &PodName, signal: rustix::process::Signal) -> anyhow::Result<()> {
        let child = self
            .0
            .get(pod)
            .with_context(|| format!("no process runs in the Pod {pod}"))?;
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed())
            .with_context(|| format!("the Pod {pod} has no process id"))?;
        rustix::process::kill_process(pid, signal)
            .with_context(|| format!("signalling the process of the Pod {pod}"))
    }

    pub(super) fn stop(&mut self, pod: &PodName) -> anyhow::Result<()> {
        let mut child = self
            .0
            .remove(pod)
            .with_context(|| format!("no process runs in the Pod {pod}"))?;
        stop_child(&mut child).with_context(|| format!("stopping the process of the Pod {pod}"))
    }

    /// Returns the processes that have exited unexpectedly, with their status.
    pub(super) fn exited(&mut self) -> anyhow::Result<Vec<String>> {
        let mut ended = Vec::new();
        for (pod, child) in &mut self.0 {
            if let Some(status) = child
                .try_wait()
                .with_context(|| format!("checking the process of the Pod {pod}"))?
            {
                ended.push(format!("{pod} ({status})"));
            }
        }
        Ok(ended)
    }
}

impl Drop for PodProcesses {
    fn drop(&mut self) {
        for child in self.0.values_mut() {
            // The machine halts next.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_among_several_on_the_same_port_is_told_apart() {
        let address = |ip: [u8; 4]| ListenAddress::Address(SocketAddrV4::new(ip.into(), 80));
        let written = format!("{:08X}", u32::from_ne_bytes([203, 0, 113, 10]));
        let tcp =
            format!("  sl  local_address rem_address   st\n   0: {written}:0050 00000000:0000 0A 0:0\n");
        assert!(is_listening(&tcp, SocketTable::Tcp, address([203, 0, 113, 10])));
        assert!(!is_listening(&tcp, SocketTable::Tcp, address([203, 0, 113, 11])));
    }

    #[test]
    fn only_a_socket_that_waits_for_clients_on_that_very_port_counts() {
        let tcp = "  sl  local_address rem_address   st tx_queue\n   0: 0A01F40A:1F90 00000000:0000 0A 0:0\n";
        assert!(is_listening(tcp, SocketTable::Tcp, ListenAddress::Port(8080)));
        assert!(!is_listening(tcp, SocketTable::Tcp, ListenAddress::Port(80)));
        assert!(
            !is_listening(
                &tcp.replace(" 0A ", " 01 "),
                SocketTable::Tcp,
                ListenAddress::Port(8080)
            ),
            "a connection is not a listener"
        );
        let udp = "  sl  local_address rem_address   st\n  5: 00000000:0035 00000000:0000 07 0:0\n";
        assert!(is_listening(udp, SocketTable::Udp, ListenAddress::Port(53)));
    }
}
