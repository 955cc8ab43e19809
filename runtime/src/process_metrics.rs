//! The `process_…` metrics of this process, with the names and meanings of the official Prometheus clients
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).

use std::fmt;

use procfs::{
    ProcResult, WithCurrentSystemInfo,
    process::{LimitValue, Process},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

/// Reads the kernel's counts at each scrape. A count that the kernel does not show has no series.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessMetrics;

/// The counts of one reading.
#[derive(Debug, Clone, Copy)]
struct ProcessUsage {
    cpu_seconds: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    start_seconds: f64,
    threads: f64,
    open_files: f64,
    /// `None` without a limit.
    max_open_files: Option<f64>,
}

impl ProcessUsage {
    #[expect(
        clippy::cast_precision_loss,
        reason = "Prometheus' numbers are floats, and these are far below 2^53"
    )]
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks_per_second = procfs::ticks_per_second() as f64;
        let max_open_files = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Unlimited => None,
            LimitValue::Value(limit) => Some(limit as f64),
        };
        Ok(Self {
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks_per_second,
            resident_bytes: stat.rss_bytes().get() as f64,
            virtual_bytes: stat.vsize as f64,
            start_seconds: procfs::boot_time_secs()? as f64 + stat.starttime as f64 / ticks_per_second,
            threads: stat.num_threads as f64,
            open_files: process.fd_count()? as f64,
            max_open_files,
        })
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(usage) = ProcessUsage::read() else {
            return Ok(());
        };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        let help = "Total user and system CPU time spent in seconds";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory size in bytes",
                Some(usage.resident_bytes),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes",
                Some(usage.virtual_bytes),
            ),
            (
                "process_start_time_seconds",
                "Start time of the process since the Unix epoch in seconds",
                Some(usage.start_seconds),
            ),
            ("process_threads", "Number of threads", Some(usage.threads)),
            (
                "process_open_fds",
                "Number of open file descriptors",
                Some(usage.open_files),
            ),
            (
                "process_max_fds",
                "Maximum number of open file descriptors",
                usage.max_open_files,
            ),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;

    fn value(text: &str, series: &str) -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("no {series} in {text}"))
            .trim()
            .parse()
            .unwrap()
    }

    #[test]
    fn a_scrape_shows_this_process() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics));
        let mut body = String::new();
        text::encode(&mut body, &registry).unwrap();
        assert!(value(&body, "process_cpu_seconds_total ") >= 0.0);
        assert!(value(&body, "process_resident_memory_bytes ") > 100_000.0);
        let (resident, reserved) = (
            value(&body, "process_resident_memory_bytes "),
            value(&body, "process_virtual_memory_bytes "),
        );
        assert!(resident <= reserved, "{body}");
        assert!(value(&body, "process_threads ") >= 1.0);
        assert!(value(&body, "process_open_fds ") >= 3.0);
        let started = value(&body, "process_start_time_seconds ");
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        assert!(
            started <= now + 1.0 && started > now - 86_400.0,
            "{started} of {now}"
        );
    }
}
