//! The whole story: a healthy cluster, real probers and a real aggregator, a fault, and the verdict that must follow.

mod report;
mod status;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use crate::{
    aggregator_config,
    api_client::State,
    incident::{Incident, Look, Outcome},
    judge::{self, Judgement},
    lab::Lab,
    parallax::{self, Aggregator},
    run_dir::RunDir,
    screen::Screen,
};

pub use report::Report;

/// Time between two looks at the aggregator.
const PAUSE: Duration = Duration::from_millis(500);

/// Looks at the aggregator between two looks at the processes inside.
const LOOKS_PER_CHECK: u32 = 10;

/// Longest time from the start of the probers until everything is seen to be well.
const ALL_WELL: Duration = Duration::from_mins(1);

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// End with the result; otherwise the cluster stays until Ctrl-C.
    pub once: bool,
    /// Intervals before the first fault, instead of the file's.
    pub healthy_rounds: Option<u32>,
    /// Where the aggregator's page and API listen.
    pub listen: SocketAddr,
    /// Leave the run's folder.
    pub keep_log: bool,
    /// Where the aggregator records what it is told, for `parallax replay`.
    pub record: Option<PathBuf>,
    /// The result as JSON.
    pub json: bool,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Parallax said what it should.
    AsExpected,
    /// It did not, or not in time.
    NotAsExpected,
    /// Somebody ended it before.
    Interrupted,
}

/// Runs an incident to its end. An error means that it could not be run.
pub async fn run(incident: Incident, options: Options) -> anyhow::Result<Ended> {
    let mut conductor = Conductor {
        options,
        screen: Screen::default(),
        aggregator: None,
        lab: None,
        ended: None,
    };
    let interrupted = interruption()?;
    let played = tokio::select! {
        played = conductor.play(incident) => played,
        () = interrupted => Ok(conductor.ended.unwrap_or(Ended::Interrupted)),
    };
    conductor
        .finish(played.is_err() || matches!(played, Ok(Ended::NotAsExpected)))
        .await;
    played
}

/// Ctrl-C, or a request to end.
fn interruption() -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for the signal to end")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

struct Conductor {
    options: Options,
    screen: Screen,
    aggregator: Option<Aggregator>,
    lab: Option<Lab>,
    ended: Option<Ended>,
}

impl Conductor {
    async fn play(&mut self, incident: Incident) -> anyhow::Result<Ended> {
        self.screen.line(&format!("{}: {}", incident.id, incident.title));
        self.set_up(&incident).await?;
        let report = match &incident.expected.outcome {
            Outcome::Verdict(expected) => {
                let mut broken = self.healthy_phase(&incident).await?;
                if broken.is_none() {
                    broken = self.faults(&incident).await?;
                }
                let faulted = Instant::now();
                let judgement = if let Some(broken) = broken {
                    Judgement::Wrong(broken)
                } else {
                    let left =
                        Duration::from_secs(expected.within_seconds).saturating_sub(self.screen.elapsed());
                    self.watch(left, |state| judge::verdict(&incident, expected, state))
                        .await?
                };
                Report::verdict(&incident, judgement, self.screen.elapsed(), faulted.elapsed())
            }
            Outcome::Quiet { seconds } => {
                let broken = self.healthy_phase(&incident).await?;
                let judgement = if let Some(broken) = broken {
                    Judgement::Wrong(broken)
                } else {
                    self.watch(Duration::from_secs(*seconds), judge::quiet).await?
                };
                Report::quiet(&incident, judgement, self.screen.elapsed())
            }
        };
        let ended = if report.ok {
            Ended::AsExpected
        } else {
            Ended::NotAsExpected
        };
        self.ended = Some(ended);
        self.screen.line(if report.ok {
            "as expected"
        } else {
            "NOT as expected"
        });
        report.print(self.options.json)?;
        if !self.options.once {
            let page = aggregator_config::page(self.aggregator()?.address());
            self.screen
                .line(&format!("the cluster stays until Ctrl-C; look at {page}"));
            self.watch(Duration::MAX, |_| Judgement::Waiting(String::new()))
                .await?;
        }
        Ok(ended)
    }

    /// Aggregator, machine, cluster, probers. The cluster is shown to forward as it should before anything is probed.
    async fn set_up(&mut self, incident: &Incident) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("finding the path of this program")?;
        let parallax = parallax::beside(&program)?;
        let listen = parallax::free_address(self.options.listen)?;
        let run = RunDir::create(self.options.keep_log)?;
        let cluster = crate::cluster::Cluster::derive(incident)?;
        let config = aggregator_config::write(&run, incident, &cluster, listen)?;
        let aggregator =
            Aggregator::start(&parallax, &config, listen, &run, self.options.record.as_deref()).await?;
        self.screen
            .line(&format!("aggregator: {}", aggregator_config::page(listen)));
        self.aggregator = Some(aggregator);

        self.screen.status("booting user-mode Linux…");
        let mut lab = Lab::boot(&program, run, incident.clone()).await?;
        self.screen.line(&format!("booted, kernel {}", lab.kernel()));
        let built = lab.build().await?;
        let (nodes, pods) = (lab.cluster().nodes.len(), built.pods);
        self.screen.line(&format!(
            "cluster built ({nodes} nodes, {pods} pods, {:.1} s)",
            built.took.as_secs_f64()
        ));
        let lab = self.lab.insert(lab);
        let truth = ground_truth(lab, &incident.expected.packets.healthy).await?;
        self.screen.line(&truth);
        lab.start_probers(&parallax, listen.port()).await?;
        Ok(())
    }

    /// Until everything is seen to be well. Answers what was wrongly said meanwhile, or that it never was.
    async fn healthy_phase(&mut self, incident: &Incident) -> anyhow::Result<Option<String>> {
        let start = Instant::now();
        while start.elapsed() < ALL_WELL {
            let state = self.state().await?;
            if let Judgement::Wrong(wrong) = judge::quiet(&state) {
                return Ok(Some(wrong));
            }
            if state.all_well() {
                self.screen.line(&format!(
                    "all well: {} targets from {} vantages",
                    state.matrix.len(),
                    state.vantages.len()
                ));
                return Ok(None);
            }
            sleep(PAUSE).await;
        }
        let lab = self.lab.as_mut().context("there is no lab")?;
        let truth = ground_truth(lab, &incident.expected.packets.healthy).await?;
        Ok(Some(format!(
            "not everything is seen to be well {} s after the start of the probers, though {truth}",
            ALL_WELL.as_secs()
        )))
    }

    /// Lets the faults happen, each at its time. Answers what was wrongly said before the first.
    async fn faults(&mut self, incident: &Incident) -> anyhow::Result<Option<String>> {
        for (i, fault) in incident.faults.iter().enumerate() {
            let file = fault.after_rounds;
            let rounds = if i == 0 {
                self.options.healthy_rounds.unwrap_or(file)
            } else {
                file
            };
            let wait = Duration::from_millis(incident.interval_ms) * rounds;
            if i == 0 {
                if let Judgement::Wrong(wrong) = self.watch(wait, judge::quiet).await? {
                    return Ok(Some(wrong));
                }
            } else {
                self.watch(wait, |_| Judgement::Waiting(String::new())).await?;
            }
            let lab = self.lab.as_mut().context("there is no lab")?;
            lab.fault(i).await?;
            aggregator_config::publish(lab.run(), lab.cluster())?;
            self.screen.line(&format!("FAULT: {}", fault.name));
        }
        Ok(None)
    }

    /// Looks at the aggregator until the judge has decided or the time is over.
    async fn watch(
        &mut self,
        longest: Duration,
        judge: impl Fn(&State) -> Judgement,
    ) -> anyhow::Result<Judgement> {
        let start = Instant::now();
        let mut looks = 0_u32;
        loop {
            let state = self.state().await?;
            let judgement = judge(&state);
            if !matches!(judgement, Judgement::Waiting(_)) || start.elapsed() >= longest {
                return Ok(judgement);
            }
            looks += 1;
            if looks.is_multiple_of(LOOKS_PER_CHECK) {
                self.lab
                    .as_mut()
                    .context("there is no lab")?
                    .check_processes()
                    .await?;
            }
            sleep(PAUSE.min(longest.saturating_sub(start.elapsed()))).await;
        }
    }

    async fn state(&mut self) -> anyhow::Result<State> {
        let state = self.aggregator()?.state().await?;
        self.screen.status(&status::line(&state));
        Ok(state)
    }

    fn aggregator(&self) -> anyhow::Result<&Aggregator> {
        self.aggregator.as_ref().context("there is no aggregator")
    }

    /// Stops everything, in order; after a failure the ends of the logs are shown first.
    async fn finish(mut self, failed: bool) {
        if failed {
            if let Some(aggregator) = &self.aggregator {
                self.screen.line(&format!(
                    "the aggregator's log ends with:\n{}",
                    aggregator.log_tail()
                ));
            }
            if let Some(lab) = &self.lab {
                self.screen
                    .line(&format!("the machine's log ends with:\n{}", lab.log_tail()));
            }
        }
        if let Some(lab) = &self.lab
            && self.options.keep_log
        {
            self.screen
                .line(&format!("logs are kept in {}", lab.run().path().display()));
        }
        if let Some(aggregator) = self.aggregator.take() {
            aggregator.stop().await;
        }
        if let Some(lab) = self.lab.take() {
            lab.stop(self.options.keep_log).await;
        }
    }
}

/// What an ordinary client sees must be what the incident file says, or the lab itself is broken.
async fn ground_truth(lab: &mut Lab, looks: &[Look]) -> anyhow::Result<String> {
    let seen = lab.look(looks).await?;
    let wrong: Vec<String> = seen
        .iter()
        .filter(|seen| !seen.as_expected())
        .map(ToString::to_string)
        .collect();
    if wrong.is_empty() {
        return Ok(format!(
            "an ordinary client sees what it should ({} of {})",
            seen.len(),
            seen.len()
        ));
    }
    bail!(
        "the lab does not forward as the incident says:\n  {}",
        wrong.join("\n  ")
    )
}
