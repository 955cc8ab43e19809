//! Child processes on dedicated cores, and their cost according to the kernel.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use rustix::{
    process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time,
};

/// Assignment of cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuCore {
    /// The measured process, alone.
    Subject,
    /// Target server and harness.
    Rest,
}

/// Pins this thread; children started by it inherit the setting. Does nothing on a single core.
pub(crate) fn pin(core: CpuCore) -> io::Result<()> {
    let allowed = allowed()?;
    let [first, second, ..] = allowed[..] else {
        return Ok(());
    };
    let mut set = CpuSet::new();
    set.set(if core == CpuCore::Subject { first } else { second });
    Ok(sched_setaffinity(None, &set)?)
}

/// Returns the cores that were allowed before any pinning.
fn allowed() -> io::Result<Vec<usize>> {
    static ALLOWED: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    if let Some(known) = ALLOWED.get() {
        return Ok(known.clone());
    }
    let set = sched_getaffinity(None)?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    Ok(ALLOWED.get_or_init(|| cores).clone())
}

/// Makes this process exit with its parent, however that ends.
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Raises the limit of open files to the maximum that is allowed.
pub(crate) fn raise_open_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

/// Returns the command that was built beside this one. Installs the TLS provider of this process, which the clients of a
/// child need.
pub(crate) fn parallax_binary() -> anyhow::Result<PathBuf> {
    let parallax = std::env::current_exe()?.with_file_name("parallax");
    ensure!(
        parallax.is_file(),
        "cannot find {}; build it in the same profile",
        parallax.display()
    );
    // The first provider installed is used; there is only this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(parallax)
}

/// Writes the configuration of an aggregator into a directory and returns the command that starts it. The child is killed
/// with its owner.
pub(crate) fn aggregator_command(
    parallax: &Path,
    folder: &Path,
    settings: &serde_json::Value,
) -> anyhow::Result<Command> {
    let path = folder.join("parallax.yaml");
    // JSON is YAML.
    fs::write(&path, settings.to_string()).context("write the configuration")?;
    let mut command = Command::new(parallax);
    command
        .args(["aggregator", "--config"])
        .arg(&path)
        .env("PARALLAX_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    Ok(command)
}

/// A child that is killed with its owner.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    pub(crate) pid: u32,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: Lines<BufReader<ChildStdout>>,
}

impl ChildProcess {
    pub(crate) fn start(command: &mut Command, core: CpuCore) -> anyhow::Result<Self> {
        pin(core).context("pin to a core")?;
        let started = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        pin(CpuCore::Rest).context("pin to a core")?;
        let mut child =
            started.with_context(|| format!("start {}", command.as_std().get_program().display()))?;
        let pid = child.id().context("the child has exited already")?;
        let output = child.stdout.take().context("the child has no output")?;
        Ok(Self {
            pid,
            input: child.stdin.take(),
            output: BufReader::new(output).lines(),
            child,
        })
    }

    /// Returns the next line of output.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        match time::timeout(Duration::from_secs(20), self.output.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => bail!("a child exited early: {:?}", self.child.wait().await?),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => bail!("a child printed nothing"),
        }
    }

    pub(crate) fn cost(&self) -> anyhow::Result<ProcessCost> {
        ProcessCost::of(self.pid)
    }

    /// Makes it exit.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}

/// Resources used by a process so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessCost {
    /// `utime + stime` of `/proc/PID/stat`, in seconds; steps of 10 ms.
    pub(crate) cpu_stat: f64,
    /// The same according to the scheduler's statistics of each thread, in nanosecond steps.
    pub(crate) cpu: f64,
    /// `VmRSS` in MB (10⁶ bytes).
    pub(crate) rss: f64,
    /// `VmHWM`.
    pub(crate) peak: f64,
}

impl ProcessCost {
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).with_context(|| format!("read {path}"))
        };
        let status = read("status")?;
        let cpu_stat = stat_seconds(&read("stat")?).context("/proc/PID/stat has an unknown format")?;
        let mut nanos = 0_u64;
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may exit meanwhile.
            let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
            nanos += text
                .split(' ')
                .next()
                .and_then(|n| n.parse::<u64>().ok())
                .unwrap_or(0);
        }
        Ok(Self {
            cpu_stat,
            cpu: if nanos == 0 {
                cpu_stat
            } else {
                Duration::from_nanos(nanos).as_secs_f64()
            },
            rss: field_mb(&status, "VmRSS:").unwrap_or(0.0),
            peak: field_mb(&status, "VmHWM:").unwrap_or(0.0),
        })
    }
}

/// Parses fields 14 and 15, counted after the name, which may contain anything.
fn stat_seconds(stat: &str) -> Option<f64> {
    let behind = stat.rsplit_once(") ")?.1;
    let mut fields = behind.split(' ').skip(11).map(str::parse::<u32>);
    let ticks = fields.next()?.ok()?.checked_add(fields.next()?.ok()?)?;
    // USER_HZ is 100 on every supported architecture.
    Some(f64::from(ticks) / 100.0)
}

fn field_mb(status: &str, name: &str) -> Option<f64> {
    let kib = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u32 = kib.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(f64::from(kib) * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_a_name_with_spaces_and_brackets() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 0 0 0";
        assert_eq!(stat_seconds(stat), Some(3.0));
    }

    #[test]
    fn memory_is_in_megabytes_of_a_million_bytes() {
        assert_eq!(field_mb("Name:\tx\nVmRSS:\t  1000 kB\n", "VmRSS:"), Some(1.024));
        assert_eq!(field_mb("Name:\tx\n", "VmRSS:"), None);
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let cost = ProcessCost::of(std::process::id()).unwrap();
        assert!(cost.rss > 0.0 && cost.peak >= cost.rss && cost.cpu > 0.0);
    }
}
