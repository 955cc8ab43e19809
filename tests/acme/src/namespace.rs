//! Runs a test in its own network namespace: real ports 80 and 443, public addresses that are routed back to this
//! machine, and no access to anything else.

use std::{
    env,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    process::Command,
};

use anyhow::{Context, bail, ensure};

/// Set inside the namespace.
const INSIDE_VARIABLE: &str = "PARALLAX_ACME_INSIDE";

/// `skip` skips these tests with a message.
const SKIP_VARIABLE: &str = "PARALLAX_ACME";

/// Networks whose addresses are all local: servers can listen on them, and other ports refuse.
const LOCAL_NETWORKS: [(&str, &str); 2] = [("-4", "9.0.0.0/8"), ("-6", "2600:1f18::/32")];

/// Networks that drop all packets.
const DROPPED_NETWORKS: [(&str, &str); 2] = [("-4", "11.0.0.0/8"), ("-6", "2600:1f19::/32")];

/// Networks without a route.
const UNREACHABLE_NETWORKS: [(&str, &str); 2] = [("-4", "12.0.0.0/8"), ("-6", "2600:1f1a::/32")];

/// Runs the test's body in a new namespace: the test starts itself again inside, by its name.
///
/// # Panics
/// If the body fails, or if no namespace can be created: a test that did not run has not passed.
pub fn run_in_namespace(test: &str, body: impl AsyncFnOnce() -> anyhow::Result<()>) {
    if parallax_skip::is_skipped(test, SKIP_VARIABLE, "cargo test --workspace --locked --test acme") {
        return;
    }
    let ended = if env::var_os(INSIDE_VARIABLE).is_some() {
        within(body)
    } else {
        start_again(test)
    };
    if let Err(error) = ended {
        panic!("{error:#}");
    }
}

fn start_again(test: &str) -> anyhow::Result<()> {
    let own = env::current_exe().context("finding the test's own program")?;
    let root = Command::new("id")
        .arg("-u")
        .output()
        .context("running id")?
        .stdout
        .starts_with(b"0\n");
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !root {
        command.args(["--user", "--map-root-user"]);
    }
    let status = command
        .arg("--")
        .arg(own)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE_VARIABLE, "1")
        .status()
        .context("running unshare(1) of util-linux")?;
    ensure!(
        status.success(),
        "the test failed in its network namespace, or none can be created here ({status}): it needs root or user \
         namespaces; {SKIP_VARIABLE}=skip leaves it out"
    );
    Ok(())
}

fn within(body: impl AsyncFnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    set_up().context("setting up the network namespace")?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?
        .block_on(body())
}

fn set_up() -> anyhow::Result<()> {
    ip("link set lo up")?;
    // Without another local address, a host uses no IPv6 source address but ::1.
    ip("-6 address add 2600:1f18:ffff::1/128 dev lo nodad")?;
    for (family, network) in LOCAL_NETWORKS {
        ip(&format!("{family} route add local {network} dev lo"))?;
    }
    // A pair of interfaces whose far end is unused: frames without a receiver.
    ip("link add lost type veth peer name nobody")?;
    ip("link set lost arp off")?;
    ip("address add 11.255.255.254/32 dev lost")?;
    ip("-6 address add 2600:1f19:ffff::1/128 dev lost nodad")?;
    ip("link set lost up")?;
    ip("link set nobody up")?;
    for (family, network) in DROPPED_NETWORKS {
        ip(&format!("{family} route add {network} dev lost"))?;
    }
    for (family, network) in UNREACHABLE_NETWORKS {
        ip(&format!("{family} route add unreachable {network}"))?;
    }
    std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1")
        .context("allowing servers on every IPv6 address")?;
    std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", "1")
        .context("allowing servers on every IPv4 address")
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .context("running ip(8) of iproute2")?;
    if !output.status.success() {
        bail!(
            "ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// The block that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressBlock {
    /// Local; a server may listen there.
    Local,
    /// All packets are dropped.
    Dropped,
    /// No route.
    Unreachable,
    /// In a special-purpose registry; a server may listen there.
    Reserved,
}

impl AddressBlock {
    /// Returns the IPv4 address with this number.
    #[must_use]
    pub fn v4(self, case: u16, number: u8) -> IpAddr {
        let first = match self {
            Self::Local => 9,
            Self::Dropped => 11,
            Self::Unreachable => 12,
            Self::Reserved => 127,
        };
        let [high, low] = case.to_be_bytes();
        Ipv4Addr::new(first, high, low, number).into()
    }

    /// Returns the IPv6 address with this number. The reserved one is `::1`, because no other reserved address is
    /// local.
    #[must_use]
    pub fn v6(self, case: u16, number: u8) -> IpAddr {
        let second = match self {
            Self::Local => 0x1f18,
            Self::Dropped => 0x1f19,
            Self::Unreachable => 0x1f1a,
            Self::Reserved => return Ipv6Addr::LOCALHOST.into(),
        };
        Ipv6Addr::new(0x2600, second, case, 0, 0, 0, 0, number.into()).into()
    }
}
