//! One cell of the table: start a subject, let it settle, look at the clocks, wait, look again.

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
    aggregator::{Aggregator, Seen},
    blackbox::Blackbox,
    machine,
    plan::{Kind, Ports, assignments},
    process::{Core, Cost, Process},
    results::{Sample, Tool, count},
    target_server::{Counts, Hello, keep_ca},
};

/// What every cell needs.
pub(crate) struct Bench {
    server: Process,
    pub(crate) ports: Ports,
    ca: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) window: Duration,
    pub(crate) repeat: u32,
}

/// The time a subject gets to reach its stride.
pub(crate) const SETTLE: Duration = Duration::from_millis(2_200);

/// What one look at the clocks sees.
struct Look {
    at: Instant,
    counts: Counts,
    subject: Cost,
    busy: f64,
    ours: f64,
}

/// What a cell asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) row: &'static str,
    pub(crate) tool: Tool,
    pub(crate) kind: Kind,
    /// Probes a second, 0 for as many as possible.
    pub(crate) rate: u64,
}

impl Bench {
    pub(crate) async fn start(window: Duration) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve");
        let mut server = Process::start(&mut command, Core::Rest)?;
        let hello: Hello = serde_json::from_str(&server.line().await?).context("read the server's ports")?;
        Ok(Self {
            server,
            ports: hello.ports,
            ca: keep_ca(&hello, folder.path())?,
            folder,
            window,
            repeat: 0,
        })
    }

    async fn counts(&mut self) -> anyhow::Result<Counts> {
        use tokio::io::AsyncWriteExt;
        let input = self.server.input.as_mut().context("the server has no input")?;
        input.write_all(b"\n").await?;
        Ok(serde_json::from_str(&self.server.line().await?)?)
    }

    async fn look(&mut self, subject: &Process) -> anyhow::Result<Look> {
        let counts = self.counts().await?;
        let subject = subject.cost()?;
        let harness = Cost::of(std::process::id())?.cpu;
        Ok(Look {
            at: Instant::now(),
            counts,
            ours: harness + self.server.cost()?.cpu + subject.cpu,
            subject,
            busy: machine::busy(),
        })
    }

    /// Starts one of our own programs.
    fn subject(
        &self,
        which: &str,
        kind: Kind,
        rate: u64,
        aggregator: Option<&Aggregator>,
    ) -> anyhow::Result<Process> {
        let word = match kind {
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::Tcp => "tcp",
            Kind::Dns => "dns",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["subject", which, "--kind", word, "--rate", &rate.to_string()])
            .arg("--ca")
            .arg(&self.ca);
        for (option, kind) in [
            ("--http-port", Kind::Http),
            ("--https-port", Kind::Https),
            ("--tcp-port", Kind::Tcp),
            ("--dns-port", Kind::Dns),
        ] {
            command.args([option, &self.ports.of(kind).to_string()]);
        }
        if let Some(aggregator) = aggregator {
            command.args(["--aggregator", &format!("http://{}", aggregator.address)]);
        }
        Process::start(&mut command, Core::Subject)
    }

    /// Measures one cell with a process of its own.
    pub(crate) async fn measure(&mut self, wanted: Wanted) -> anyhow::Result<Sample> {
        match wanted.tool {
            Tool::Parallax => {
                let mut agent = self.agent(wanted.kind).await?;
                agent.plan(self.ports, wanted.kind, wanted.rate, Micros::from_secs(1));
                let sample = self.agent_window(&mut agent, wanted, SETTLE, self.window).await;
                agent.process.stop().await?;
                sample
            }
            Tool::Bare | Tool::Floor => {
                let which = if wanted.tool == Tool::Bare {
                    "bare"
                } else {
                    "floor"
                };
                let mut subject = self.subject(which, wanted.kind, wanted.rate, None)?;
                subject.line().await?;
                time::sleep(SETTLE).await;
                let sample = self.window(&subject, wanted, self.window).await;
                subject.stop().await?;
                sample
            }
            Tool::Blackbox => {
                let exporter = Rc::new(Blackbox::start(self.ports, &self.ca, self.folder.path()).await?);
                let failed = Rc::new(Count::new(0));
                let driving =
                    spawn_local(Rc::clone(&exporter).drive(wanted.kind, wanted.rate, Rc::clone(&failed)));
                time::sleep(SETTLE).await;
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

    pub(crate) async fn agent(&self, kind: Kind) -> anyhow::Result<Agent> {
        let aggregator = Aggregator::start().await?;
        let mut process = self.subject("agent", kind, 0, Some(&aggregator))?;
        let echo = process.line().await?;
        Ok(Agent {
            process,
            aggregator,
            metrics: format!("http://{echo}/metrics"),
            plans: 0,
            targets: 0,
        })
    }

    /// A window of an agent that has its plan; its metrics are scraped once, which is more often than every 15 s.
    pub(crate) async fn agent_window(
        &mut self,
        agent: &mut Agent,
        wanted: Wanted,
        settle: Duration,
        window: Duration,
    ) -> anyhow::Result<Sample> {
        time::sleep(settle).await;
        drop(agent.aggregator.take());
        let url = agent.metrics.clone();
        let scrape = spawn_local(async move {
            time::sleep(window / 2).await;
            let text: Bytes = reqwest::get(url).await?.error_for_status()?.bytes().await?;
            reqwest::Result::Ok(text.len())
        });
        let mut sample = self.window(&agent.process, wanted, window).await?;
        let scraped = scrape.await?.context("scrape the prober's metrics")?;
        let Seen {
            failed,
            not_asked,
            mut late,
            ok,
        } = agent.aggregator.take();
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

    /// The window itself.
    async fn window(
        &mut self,
        subject: &Process,
        wanted: Wanted,
        window: Duration,
    ) -> anyhow::Result<Sample> {
        let before = self.look(subject).await?;
        time::sleep(window).await;
        let after = self.look(subject).await?;
        let seconds = (after.at - before.at).as_secs_f64();
        let probes = after.counts.of(wanted.kind) - before.counts.of(wanted.kind);
        let expected = count(wanted.rate) * seconds;
        let as_expected = wanted.rate == 0 || (count(probes) - expected).abs() <= (expected * 0.01).max(2.0);
        let foreign = (after.busy - before.busy) - (after.ours - before.ours);
        Ok(Sample {
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
pub(crate) struct Agent {
    pub(crate) process: Process,
    aggregator: Aggregator,
    metrics: String,
    plans: u64,
    targets: u64,
}

impl Agent {
    /// Gives it a new plan.
    pub(crate) fn plan(&mut self, ports: Ports, kind: Kind, targets: u64, interval: Micros) {
        self.plans += 1;
        self.targets = targets;
        self.aggregator
            .plan(self.plans, assignments(kind, ports, targets, interval));
    }
}
