//! The machine of the measurements, and its other load.

use std::{fs, process::Command, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::time::{self, Instant};

/// Facts that readers need to compare figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MachineFacts {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gb: f64,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    pub(crate) blackbox: String,
    /// Commit of the measured sources, followed by "+" if files differ from it.
    pub(crate) commit: String,
}

impl MachineFacts {
    pub(crate) fn here(commit: Option<String>) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = cpuinfo
            .lines()
            .find_map(|line| {
                line.strip_prefix("model name")?
                    .split_once(": ")
                    .map(|(_, name)| name)
            })
            .unwrap_or("unknown");
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib: f64 = meminfo
            .lines()
            .find_map(|line| {
                line.strip_prefix("MemTotal:")?
                    .trim()
                    .strip_suffix(" kB")?
                    .parse()
                    .ok()
            })
            .unwrap_or(0.0);
        let commit = commit.unwrap_or_else(|| {
            let dirty = !command_output("git", &["status", "--porcelain", "prober", "model"]).is_empty();
            command_output("git", &["rev-parse", "--short", "HEAD"]) + if dirty { "+" } else { "" }
        });
        Self {
            cpu: cpu.to_owned(),
            cores: cpuinfo
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count(),
            memory_gb: (kib * 1024.0 / 1e8).round() / 10.0,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            rustc: command_output("rustc", &["--version"]),
            blackbox: command_output(crate::blackbox::PROGRAM, &["--version"])
                .chars()
                .take_while(|c| *c != '(')
                .collect(),
            commit,
        }
    }
}

/// Returns the first line of a command's output.
fn command_output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.map(|o| [o.stdout, o.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&output)
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the load average of the last minute.
pub(crate) fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0)
}

/// Waits until the machine is quiet, up to a limit.
pub(crate) async fn wait_until_quiet(most: f64, patience: Duration) {
    let until = Instant::now() + patience;
    while load_average() > most && Instant::now() < until {
        eprintln!(
            "load average {:.2}; waiting until it is at most {most}",
            load_average()
        );
        time::sleep(Duration::from_secs(5)).await;
    }
}

/// Returns the CPU seconds used by all processes and stolen by the hypervisor.
pub(crate) fn busy_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<f64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal: all except idle and iowait. guest is included in user.
    fields
        .iter()
        .take(8)
        .enumerate()
        .filter(|(i, _)| !matches!(i, 3 | 4))
        .map(|(_, ticks)| ticks)
        .sum::<f64>()
        / 100.0
}
