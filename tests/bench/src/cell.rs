//! One cell of the table: start a subject, let it settle, sample the clocks, wait, sample again.

use std::{
    cell::Cell as Count,
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use hyper::body::Bytes;
use parallax_model::Micros;
use tokio::{process::Command, task::spawn_local, time};

use crate::{
    aggregator::{Aggregator, ReportCounts},
    blackbox::Blackbox,
    machine,
    plan::{ProbeMix, TargetPorts, assignments},
    process::{ChildProcess, CpuCore, ProcessCost},
    results::{ProbeTool, WindowSample, count},
    target_server::{RequestCounts, ServerHello, keep_ca},
};

/// State shared by all cells.
pub(crate) struct BenchContext {
    server: ChildProcess,
    pub(crate) ports: TargetPorts,
    ca: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) window: Duration,
    pub(crate) repeat: u32,
}

/// Time for a subject to settle.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(2_200);

/// One sample of the clocks.
struct ClockSample {
    at: Instant,
    counts: RequestCounts,
    subject: ProcessCost,
    busy: f64,
    ours: f64,
}

/// Parameters of a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CellSpec {
    pub(crate) row: &'static str,
    pub(crate) tool: ProbeTool,
    pub(crate) kind: ProbeMix,
    /// Probes per second; 0 for as many as possible.
    pub(crate) rate: u64,
}

impl BenchContext {
    pub(crate) async fn start(window: Duration) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve");
        let mut server = ChildProcess::start(&mut command, CpuCore::Rest)?;
        let hello: ServerHello =
            serde_json::from_str(&server.line().await?).context("read the server's ports")?;
        Ok(Self {
            server,
            ports: hello.ports,
            ca: keep_ca(&hello, folder.path())?,
            folder,
            window,
            repeat: 0,
        })
    }

    async fn counts(&mut self) -> anyhow::Result<RequestCounts> {
        use tokio::io::AsyncWriteExt;
        let input = self.server.input.as_mut().context("the server has no input")?;
        input.write_all(b"\n").await?;
        Ok(serde_json::from_str(&self.server.line().await?)?)
    }

    async fn sample(&mut self, subject: &ChildProcess) -> anyhow::Result<ClockSample> {
        let counts = self.counts().await?;
        let subject = subject.cost()?;
        let harness = ProcessCost::of(std::process::id())?.cpu;
        Ok(ClockSample {
            at: Instant::now(),
            counts,
            ours: harness + self.server.cost()?.cpu + subject.cpu,
            subject,
            busy: machine::busy_seconds(),
        })
    }

    /// Starts one of the benchmark's own programs.
    fn subject(
        &self,
        tool_name: &str,
        kind: ProbeMix,
        rate: u64,
        aggregator: Option<&Aggregator>,
    ) -> anyhow::Result<ChildProcess> {
        let word = match kind {
            ProbeMix::Http => "http",
            ProbeMix::Https => "https",
            ProbeMix::Tcp => "tcp",
            ProbeMix::Dns => "dns",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["subject", tool_name, "--kind", word, "--rate", &rate.to_string()])
            .arg("--ca")
            .arg(&self.ca);
        for (option, kind) in [
            ("--http-port", ProbeMix::Http),
            ("--https-port", ProbeMix::Https),
            ("--tcp-port", ProbeMix::Tcp),
            ("--dns-port", ProbeMix::Dns),
        ] {
            command.args([option, &self.ports.of(kind).to_string()]);
        }
        if let Some(aggregator) = aggregator {
            command.args(["--aggregator", &format!("http://{}", aggregator.address)]);
        }
        ChildProcess::start(&mut command, CpuCore::Subject)
    }

    /// Measures one cell in a separate process.
    pub(crate) async fn measure(&mut self, wanted: CellSpec) -> anyhow::Result<WindowSample> {
        match wanted.tool {
            ProbeTool::Parallax => {
                let mut agent = self.agent(wanted.kind).await?;
                agent.plan(self.ports, wanted.kind, wanted.rate, Micros::from_secs(1));
                let sample = self
                    .agent_window(&mut agent, wanted, SETTLE_TIME, self.window)
                    .await;
                agent.process.stop().await?;
                sample
            }
            ProbeTool::Bare | ProbeTool::Floor => {
                let tool_name = if wanted.tool == ProbeTool::Bare {
                    "bare"
                } else {
                    "floor"
                };
                let mut subject = self.subject(tool_name, wanted.kind, wanted.rate, None)?;
                subject.line().await?;
                time::sleep(SETTLE_TIME).await;
                let sample = self.window(&subject, wanted, self.window).await;
                subject.stop().await?;
                sample
            }
            ProbeTool::Blackbox => {
                let exporter = Rc::new(Blackbox::start(self.ports, &self.ca, self.folder.path()).await?);
                let failed = Rc::new(Count::new(0));
                let driving =
                    spawn_local(Rc::clone(&exporter).drive(wanted.kind, wanted.rate, Rc::clone(&failed)));
                time::sleep(SETTLE_TIME).await;
                failed.set(0);
                let sample = self.window(&exporter.process, wanted, self.window).await;
                driving.abort();
                let mut sample = sample?;
                sample.failures = failed.get();
                sample.valid &= failed.get() == 0;
                Ok(sample)
            }
        }
    }

    pub(crate) async fn agent(&self, kind: ProbeMix) -> anyhow::Result<RunningAgent> {
        let aggregator = Aggregator::start().await?;
        let mut process = self.subject("agent", kind, 0, Some(&aggregator))?;
        let echo = process.line().await?;
        Ok(RunningAgent {
            process,
            aggregator,
            metrics: format!("http://{echo}/metrics"),
            plans: 0,
            targets: 0,
        })
    }

    /// Measures a window of an agent that has its plan; its metrics are scraped once, more often than every 15 s.
    pub(crate) async fn agent_window(
        &mut self,
        agent: &mut RunningAgent,
        wanted: CellSpec,
        settle: Duration,
        window: Duration,
    ) -> anyhow::Result<WindowSample> {
        time::sleep(settle).await;
        drop(agent.aggregator.take_counts());
        let url = agent.metrics.clone();
        let scrape = spawn_local(async move {
            time::sleep(window / 2).await;
            let text: Bytes = reqwest::get(url).await?.error_for_status()?.bytes().await?;
            reqwest::Result::Ok(text.len())
        });
        let mut sample = self.window(&agent.process, wanted, window).await?;
        let scraped = scrape.await?.context("scrape the prober's metrics")?;
        let ReportCounts {
            failed,
            not_made: not_asked,
            mut late,
            ok,
        } = agent.aggregator.take_counts();
        late.sort_unstable();
        let at = |percent: usize| {
            late.get((late.len() * percent / 100).min(late.len().saturating_sub(1)))
                .copied()
        };
        sample.late_p50_us = at(50);
        sample.late_p99_us = at(99);
        sample.failures = failed + not_asked;
        sample.targets = agent.targets;
        sample.valid &= sample.failures == 0 && ok > 0 && scraped > 0;
        Ok(sample)
    }

    /// Measures the window itself.
    async fn window(
        &mut self,
        subject: &ChildProcess,
        wanted: CellSpec,
        window: Duration,
    ) -> anyhow::Result<WindowSample> {
        let before = self.sample(subject).await?;
        time::sleep(window).await;
        let after = self.sample(subject).await?;
        let seconds = (after.at - before.at).as_secs_f64();
        let probes = after.counts.of(wanted.kind) - before.counts.of(wanted.kind);
        let expected = count(wanted.rate) * seconds;
        let as_expected = wanted.rate == 0 || (count(probes) - expected).abs() <= (expected * 0.01).max(2.0);
        let foreign = (after.busy - before.busy) - (after.ours - before.ours);
        Ok(WindowSample {
            row: wanted.row.to_owned(),
            tool: wanted.tool,
            repeat: self.repeat,
            seconds,
            probes,
            rate: count(probes) / seconds,
            failures: 0,
            cpu_s: after.subject.cpu - before.subject.cpu,
            cpu_stat_s: after.subject.cpu_stat - before.subject.cpu_stat,
            rss_mb: after.subject.rss,
            peak_mb: after.subject.peak,
            targets: 0,
            late_p50_us: None,
            late_p99_us: None,
            foreign_cores: (foreign / seconds).max(0.0),
            valid: as_expected && probes > 0,
        })
    }
}

/// A running agent with its own plan server.
pub(crate) struct RunningAgent {
    pub(crate) process: ChildProcess,
    aggregator: Aggregator,
    metrics: String,
    plans: u64,
    targets: u64,
}

impl RunningAgent {
    /// Gives it a new plan.
    pub(crate) fn plan(&mut self, ports: TargetPorts, kind: ProbeMix, targets: u64, interval: Micros) {
        self.plans += 1;
        self.targets = targets;
        self.aggregator
            .publish_plan(self.plans, assignments(kind, ports, targets, interval));
    }
}
