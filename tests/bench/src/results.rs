//! The measurements, as stored in `bench/results.json`.

use std::{fs, path::Path};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::machine::MachineFacts;

/// The probing tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProbeTool {
    /// The whole agent: plan stream, schedule, probes, reports, metrics.
    Parallax,
    /// Only `parallax_prober::run`.
    Bare,
    /// Debian's `prometheus-blackbox-exporter`.
    Blackbox,
    /// Connect, write, read, close.
    Floor,
}

/// A whole run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BenchResults {
    pub(crate) command: String,
    pub(crate) date: String,
    pub(crate) machine: MachineFacts,
    pub(crate) load_before: f64,
    pub(crate) load_after: f64,
    pub(crate) window_s: u64,
    /// Completed repeats.
    pub(crate) repeats: u32,
    pub(crate) samples: Vec<WindowSample>,
}

/// One window of one tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WindowSample {
    pub(crate) row: String,
    pub(crate) tool: ProbeTool,
    pub(crate) repeat: u32,
    /// Length of the window.
    pub(crate) seconds: f64,
    /// Probes answered by the target server within the window.
    pub(crate) probes: u64,
    /// Per second.
    pub(crate) rate: f64,
    /// Probes that failed or were not made, according to the tool.
    pub(crate) failures: u64,
    /// CPU time of the probing process over the window, according to the scheduler.
    pub(crate) cpu_s: f64,
    /// The same as `utime + stime` of `/proc/PID/stat`, in steps of 10 ms.
    pub(crate) cpu_stat_s: f64,
    /// Resident memory at the end of the window, MB.
    pub(crate) rss_mb: f64,
    pub(crate) peak_mb: f64,
    /// Number of targets in the plan, if the tool has one.
    pub(crate) targets: u64,
    /// Delay of probe starts, if the tool reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) late_p50_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) late_p99_us: Option<u64>,
    /// CPU that other programs and the hypervisor used meanwhile, in cores.
    pub(crate) foreign_cores: f64,
    /// Whether the server counted the expected number ±1 % and nothing failed.
    pub(crate) valid: bool,
}

impl WindowSample {
    /// CPU seconds per thousand probes.
    pub(crate) fn per_thousand(&self) -> f64 {
        self.cpu_s * 1000.0 / count(self.probes.max(1))
    }

    /// Share of a core, in thousandths ("m" in Kubernetes).
    pub(crate) fn milli_cores(&self) -> f64 {
        self.cpu_s * 1000.0 / self.seconds
    }
}

/// Converts a count to a divisor.
#[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2⁵²")]
pub(crate) fn count(n: u64) -> f64 {
    n as f64
}

/// Median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SampleSpread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl SampleSpread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self {
            median,
            min: least,
            max: most,
        })
    }
}

impl BenchResults {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        fs::write(path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Returns the windows that count: the valid ones, except in the search for a limit, whose last window is the one
    /// that fails.
    pub(crate) fn of(&self, row: &str, tool: ProbeTool) -> impl Iterator<Item = &WindowSample> {
        self.samples
            .iter()
            .filter(move |s| s.row == row && s.tool == tool && s.valid)
    }

    pub(crate) fn spread(
        &self,
        row: &str,
        tool: ProbeTool,
        value: impl Fn(&WindowSample) -> f64,
    ) -> Option<SampleSpread> {
        SampleSpread::of(self.of(row, tool).map(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = SampleSpread::of([4.0, 1.0, 2.0, 9.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (3.0, 1.0, 9.0));
        assert_eq!(SampleSpread::of([]), None);
    }
}
