//! The machine on this machine's own kernel: the guest, as root, in namespaces that nobody else is in.
//!
//! All of it is bound to the first process of a process namespace. When that ends, for whatever reason, the kernel ends
//! the others, and with the last of them go its mounts, its links and the namespaces that are named under `/run`. It is
//! ended when the lab ends ([`crate::machine`]); and it ends by itself when the control connection does.
//!
//! Nothing of this machine is changed: its network has no part in the lab's (the way out is [`crate::uplink`]), its files
//! are mounted read-only, of its kernel's settings only those of the lab's own network can be written, and the rights to
//! set the clock, load modules or halt are given up.

use std::{os::fd::OwnedFd, path::Path, process::Stdio};

use anyhow::Context;
use tokio::process::Command;

use crate::{
    cluster::addresses,
    machine::{self, RunningMachine},
    run_dir::RunDir,
    uplink,
};

/// What `unshare` makes. Mounts are private, so none is seen outside.
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

/// Starts it. The guest speaks with the lab over `control`, its standard input.
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
    let port = uplink::PORT;
    format!(
        r#"# First process of the namespaces. Mounts and settings made here are seen by nobody else.
set -e
export PATH=/run/sbin:/usr/sbin:/usr/bin:/sbin:/bin RUST_BACKTRACE=1
mount -t tmpfs tmpfs /run
cut -d ' ' -f 5 /proc/self/mountinfo > /run/mounts
while read -r point; do
  point=$(printf '%b' "$point")
  case $point in /proc|/proc/*|/sys|/sys/*|/dev|/dev/*|/run|/run/*) continue ;; esac
  # What nobody can see any more, under another mount, cannot be mounted anew.
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
# Whatever port of this machine's loopback is asked for: the lab, outside, listens at one and reads which was meant.
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
