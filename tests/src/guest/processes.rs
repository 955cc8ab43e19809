//! The processes of the pods. They write to the console, which the host keeps as the run's log.
//!
//! That a process listens is read from the kernel's tables: no process needs a protocol for it, and nothing is sent to
//! it that its own log or counters would show.

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

/// Longest time until a process listens.
const PATIENCE: Duration = Duration::from_mins(1);

/// Time a process has to end in order.
const GRACE: Duration = Duration::from_secs(1);

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A table of sockets under `/proc`.
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

    /// State of a socket that waits for clients: `TCP_LISTEN`, and for UDP `TCP_CLOSE` (not connected).
    const fn waiting(self) -> &'static str {
        match self {
            Self::Tcp => "0A",
            Self::Udp => "07",
        }
    }
}

/// Where a process is to listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListenAddress {
    /// On this port of any address.
    Port(u16),
    /// On this very address and port.
    Address(SocketAddrV4),
}

impl ListenAddress {
    /// How the kernel's table writes it; an address is a number in the machine's byte order.
    fn in_table(self) -> String {
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

/// Whether a table has a socket that waits for clients there.
fn listens(text: &str, table: SocketTable, local: ListenAddress) -> bool {
    let local = local.in_table();
    text.lines().any(|line| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|column| column.ends_with(&local))
            && columns.nth(1) == Some(table.waiting())
    })
}

/// Asks a process to end, so that it takes its children along; ends it by force when it does not.
fn end(child: &mut Child) -> anyhow::Result<()> {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // One that has ended already needs no signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(PAUSE);
        }
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// What runs in which pod; ended when dropped.
#[derive(Debug, Default)]
pub(super) struct PodProcesses(BTreeMap<PodName, Child>);

impl PodProcesses {
    pub(super) fn start(&mut self, pod: &PodName, command: &GuestCommand) -> anyhow::Result<()> {
        if self.0.contains_key(pod) {
            bail!("something runs in the pod {pod} already");
        }
        let child = command
            .to_process()
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting `{command}`"))?;
        self.0.insert(pod.clone(), child);
        Ok(())
    }

    /// Waits until the pod's process listens there, as its namespace's tables say.
    pub(super) fn wait_until_listening(
        &mut self,
        pod: &PodName,
        table: SocketTable,
        local: ListenAddress,
    ) -> anyhow::Result<()> {
        let child = self
            .0
            .get_mut(pod)
            .with_context(|| format!("nothing runs in the pod {pod}"))?;
        let file = format!("/proc/{}/net/{}", child.id(), table.name());
        let start = Instant::now();
        loop {
            if let Some(status) = child
                .try_wait()
                .with_context(|| format!("asking after the pod {pod}"))?
            {
                bail!("the pod {pod} ended with {status} before it listened on {local}");
            }
            let text = fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
            if listens(&text, table, local) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "the pod {pod} does not listen on {local} after {} s",
                    PATIENCE.as_secs()
                );
            }
            sleep(PAUSE);
        }
    }

    pub(super) fn runs(&self, pod: &PodName) -> bool {
        self.0.contains_key(pod)
    }

    /// Stops a process in its tracks, or lets it go on.
    pub(super) fn signal(&self, pod: &PodName, signal: rustix::process::Signal) -> anyhow::Result<()> {
        let child = self
            .0
            .get(pod)
            .with_context(|| format!("nothing runs in the pod {pod}"))?;
        let pid = rustix::process::Pid::from_raw(child.id().cast_signed())
            .with_context(|| format!("the pod {pod} has no process id"))?;
        rustix::process::kill_process(pid, signal).with_context(|| format!("signalling the pod {pod}"))
    }

    pub(super) fn stop(&mut self, pod: &PodName) -> anyhow::Result<()> {
        let mut child = self
            .0
            .remove(pod)
            .with_context(|| format!("nothing runs in the pod {pod}"))?;
        end(&mut child).with_context(|| format!("ending the pod {pod}"))
    }

    /// Those that have ended on their own, with how.
    pub(super) fn ended(&mut self) -> anyhow::Result<Vec<String>> {
        let mut ended = Vec::new();
        for (pod, child) in &mut self.0 {
            if let Some(status) = child
                .try_wait()
                .with_context(|| format!("asking after the pod {pod}"))?
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
        assert!(listens(&tcp, SocketTable::Tcp, address([203, 0, 113, 10])));
        assert!(!listens(&tcp, SocketTable::Tcp, address([203, 0, 113, 11])));
    }

    #[test]
    fn only_a_socket_that_waits_for_clients_on_that_very_port_counts() {
        let tcp = "  sl  local_address rem_address   st tx_queue\n   0: 0A01F40A:1F90 00000000:0000 0A 0:0\n";
        assert!(listens(tcp, SocketTable::Tcp, ListenAddress::Port(8080)));
        assert!(!listens(tcp, SocketTable::Tcp, ListenAddress::Port(80)));
        assert!(
            !listens(
                &tcp.replace(" 0A ", " 01 "),
                SocketTable::Tcp,
                ListenAddress::Port(8080)
            ),
            "a connection is no listener"
        );
        let udp = "  sl  local_address rem_address   st\n  5: 00000000:0035 00000000:0000 07 0:0\n";
        assert!(listens(udp, SocketTable::Udp, ListenAddress::Port(53)));
    }
}
