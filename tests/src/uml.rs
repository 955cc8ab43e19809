//! A machine in user-mode Linux: an ordinary process that boots from the host's file system, read-only.

mod cpu;
mod memory;
mod xstate;

use std::{fs, net::SocketAddr, path::Path, process::Stdio};

use anyhow::Context;
use tokio::process::Command;

pub use xstate::InvalidSetting;

use crate::{
    cluster::addresses,
    kernel,
    machine::{self, RunningMachine},
    run_dir::RunDir,
};

/// Memory of the machine in MiB, allocated on use.
const MEMORY_MIB: u64 = 512;

/// All modules, loaded at once: the nodes' namespaces must not race for the module loader.
const MODULES: &str = "dummy veth bridge br_netfilter ip_vs ip_vs_rr nf_conntrack iptable_nat iptable_filter \
    xt_MASQUERADE xt_mark xt_nat xt_tcpudp iptable_mangle iptable_raw ipt_REJECT xt_connmark xt_conntrack xt_statistic \
    xt_addrtype xt_length sch_netem ip6table_nat ip6table_filter ip6table_mangle ip6t_REJECT";

/// Starts it. Inside, `program guest` connects to `control` on the host and sends the run's id.
pub(crate) fn start(program: &Path, run: &RunDir, control: SocketAddr) -> anyhow::Result<RunningMachine> {
    let init = run.file("init.sh");
    machine::script(&init, &init_script(program, control, run.id()))?;
    let slirp = run.file("slirp.sh");
    machine::script(&slirp, "#!/bin/sh\nexec slirp-fullbolt \"$@\"\n")?;
    let sockets = run.file("uml");
    fs::create_dir(&sockets).with_context(|| format!("creating {}", sockets.display()))?;

    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("setpriv");
    command
        .args(parent_death_arguments())
        .args(cpu::affinity_command())
        .arg("linux.uml")
        .arg(format!("mem={MEMORY_MIB}M"))
        .args([
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "quiet",
        ])
        .arg(format!("init={}", init.display()))
        .arg(format!("uml_dir={}", sockets.display()))
        .arg("umid=lab")
        .arg(format!("eth0=slirp,,{}", slirp.display()))
        .args(["con=null", "con0=null,fd:2", "con1=fd:0,fd:1"])
        .env("PATH", format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin"))
        // slirp and user-mode Linux look for their settings there.
        .env("HOME", run.path())
        .env("TMPDIR", memory::folder(run.path(), MEMORY_MIB << 20))
        .stdin(Stdio::null());
    if let Some(libraries) = xstate::preload(program, run)? {
        command.env("LD_PRELOAD", libraries);
    }
    RunningMachine::start(command, run.file("uml.log")).context("starting linux.uml")
}

/// Returns the arguments of `setpriv` with which the machine ends if the lab is killed. (It also halts by itself when
/// the control connection closes.)
///
/// As root, in a PID namespace: the kernel kills all its processes, one for each address space inside, and slirp.
/// Otherwise it gets SIGTERM, which may hang: the handler of user-mode Linux 6.1 (`last_ditch_exit`) interrupts a
/// `wait4`. A user namespace does not help: in it, setuid programs of root belong to an unmapped user and fail.
fn parent_death_arguments() -> &'static [&'static str] {
    const PID_NAMESPACE: &[&str] = &[
        "--pdeathsig",
        "KILL",
        "--",
        "unshare",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--",
        // The first process of a namespace ignores the signals with which user-mode Linux ends itself after an error.
        "sh",
        "-c",
        "\"$@\"; exit $?",
        "sh",
    ];
    let mut trial = std::process::Command::new("setpriv");
    trial.args(PID_NAMESPACE).arg("true").stdin(Stdio::null());
    if trial.output().is_ok_and(|output| output.status.success()) {
        PID_NAMESPACE
    } else {
        &["--pdeathsig", "TERM", "--"]
    }
}

/// Appends the reason why it did not boot to its exit status, if the reason is known.
pub(crate) async fn add_reason(ended: &str, log: &Path) -> String {
    let reason = match xstate::hint(&fs::read(log).unwrap_or_default()) {
        Some(hint) => Some(hint),
        None => tokio::task::spawn_blocking(kernel::try_uml)
            .await
            .ok()
            .and_then(Result::err),
    };
    reason.map_or_else(|| ended.to_owned(), |reason| format!("{ended}: {reason}"))
}

fn init_script(program: &Path, control: SocketAddr, run: &str) -> String {
    let host = addresses::HOST;
    let uplink = addresses::UPLINK;
    format!(
        r#"#!/bin/sh
# First process of the machine. The host's file system is mounted read-only; only /run is writable.
export PATH=/run/sbin:/usr/sbin:/usr/bin:/sbin:/bin RUST_BACKTRACE=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
version=$(uname -r)
mkdir -p /run/modules/lib/modules
ln -s /usr/lib/uml/modules/$version /run/modules/lib/modules/$version
printf '#!/bin/sh\nexec modprobe -d /run/modules "$@"\n' > /run/modprobe
chmod +x /run/modprobe
echo /run/modprobe > /proc/sys/kernel/modprobe
modprobe -d /run/modules -a {MODULES}
# This kernel has no NAT in nftables, hence the legacy programs.
mkdir /run/sbin
for tool in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -s "$(command -v xtables-legacy-multi)" /run/sbin/$tool
done
ip link set lo up
ip addr add {uplink}/24 dev eth0
ip link set eth0 up
'{program}' guest --control {host}:{port} --run {run}
echo "parallax-lab: the guest ended ($?)"
echo o > /proc/sysrq-trigger
sleep 30
"#,
        program = program.display(),
        port = control.port(),
    )
}
