//! A guest on this machine's own kernel, as root in private namespaces.
//!
//! Everything is bound to the first process of a PID namespace. When it exits, for whatever reason, the kernel kills
//! the others, and with them vanish the mounts, links and network namespaces named under `/run`. The lab kills it at
//! its end ([`crate::machine`]), and it exits by itself when the control connection closes.
//!
//! Nothing on this machine is changed: its network is separate from the lab's (outgoing traffic: [`crate::uplink`]),
//! its files are mounted read-only, only kernel settings of the lab's own network are writable, and the capabilities
//! to set the clock, load modules or halt are dropped.

use std::{os::fd::OwnedFd, path::Path, process::Stdio};

use anyhow::Context;
use tokio::process::Command;

use crate::{
    cluster::addresses,
    machine::{self, RunningMachine},
    run_dir::RunDir,
    uplink,
};

/// Namespaces created by `unshare`. Mounts are private, so none is visible outside.
pub(crate) const NAMESPACES: [&str; 8] = [
    "--net",
    "--mount",
    "--pid",
    "--ipc",
    "--uts",
    "--fork",
    "--kill-child=KILL",
    "--mount-proc",
];

/// Starts the guest. It communicates with the lab over `control`, its standard input.
pub(crate) fn start(program: &Path, run: &RunDir, control: OwnedFd) -> anyhow::Result<RunningMachine> {
    let init = run.file("init.sh");
    machine::script(&init, &init_script(program, run.id()))?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "unshare"])
        .args(NAMESPACES)
        .arg("sh")
        .arg(&init)
        .env("HOME", "/run")
        .stdin(Stdio::from(control));
    RunningMachine::start(command, run.file("host.log"))
        .context("starting namespaces on this machine's kernel")
}

fn init_script(program: &Path, run: &str) -> String {
    let host = addresses::HOST;
    let port = uplink::LISTEN_PORT;
    format!(
        r#"# First process of the namespaces. Mounts and settings made here are invisible to other processes.
set -e
export PATH=/run/sbin:/usr/sbin:/usr/bin:/sbin:/bin RUST_BACKTRACE=1
mount -t tmpfs tmpfs /run
cut -d ' ' -f 5 /proc/self/mountinfo > /run/mounts
while read -r point; do
  point=$(printf '%b' "$point")
  case $point in /proc|/proc/*|/sys|/sys/*|/dev|/dev/*|/run|/run/*) continue ;; esac
  # A mount point hidden under another mount cannot be remounted.
  mount -o remount,bind,ro "$point" || test "$point" != /
done < /run/mounts
mount -t sysfs sysfs /sys
mount --bind /proc/sys/net /proc/sys/net
mount --rbind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
test ! -e /proc/sysrq-trigger || mount --bind /dev/null /proc/sysrq-trigger
mkdir /run/sbin
for tool in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -s "$(command -v xtables-nft-multi)" /run/sbin/$tool
done
ip link set lo up
ip addr add {host}/32 dev lo
# Any port of this machine's loopback: the lab, outside, listens on one and reads the original destination.
nft -f - <<RULES
table ip uplink {{
  chain in {{ type nat hook prerouting priority -110; ip daddr {host} meta l4proto tcp dnat to {host}:{port}; }}
  chain out {{ type nat hook output priority -110; ip daddr {host} meta l4proto tcp dnat to {host}:{port}; }}
}}
RULES
setpriv --bounding-set=-sys_time,-sys_module,-sys_boot,-sys_rawio,-mknod,-syslog -- \
  '{program}' guest --run {run} ||
  echo "parallax-lab: the guest ended ($?)"
"#,
        program = program.display(),
    )
}
