//! One run in memory: its results, and the clients that follow it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parallax_api::runs::{NameFactsRequest, PreflightRun, RunEvent, RunState, VantageResult};
use parallax_diagnosis::{Settings, topology::Topology};
use parallax_model::{
    Assignment, AssignmentId, EventTime, Outcome, Placement, Recorded, Vantage,
    dns::{NameSight, NamesProbe},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    MESH_SUBJECT,
    judge::{JudgementInput, RunJudgement, decides_outcome},
    name_request,
};

/// Returns the expected results per vantage, counting only the probes that decide the outcome.
pub(super) fn planned_results(
    parts: &BTreeMap<Vantage, Vec<Assignment>>,
    rounds: u32,
    of_the_mesh: bool,
) -> Vec<VantageResult> {
    let planned = |own: &[Assignment]| {
        own.iter()
            .filter(|a| decides_outcome(a.channel, of_the_mesh))
            .count() as u64
    };
    parts
        .iter()
        .map(|(vantage, own)| VantageResult {
            vantage: vantage.clone(),
            placement: Placement::Unknown,
            planned: planned(own) * u64::from(rounds),
            probes: 0,
            failures: 0,
            not_made: 0,
            detail: None,
            fastest: None,
        })
        .collect()
}

/// The stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunStage {
    Waiting,
    Judging,
    Done,
}

/// The events so far, and whether more will follow. Bounded by the maximum number of probes per run.
#[derive(Debug, Default)]
struct RunLog {
    events: Vec<Arc<RunEvent>>,
    ended: bool,
}

/// The name probe, and the CA for which its results are evaluated.
pub(super) type NameRequest = (NamesProbe, NameFactsRequest);

#[derive(Debug)]
pub(super) struct LiveRun {
    run: PreflightRun,
    stage: RunStage,
    topology: Arc<Topology>,
    settings: Settings,
    /// The name query, and each vantage's latest response.
    names: Option<(NameRequest, BTreeMap<Vantage, NameSight>)>,
    observations: Vec<Recorded>,
    /// Sequence numbers already counted, by vantage and incarnation: a report may arrive twice.
    counted: BTreeSet<(Vantage, String, u64)>,
    rounds: BTreeMap<(Vantage, AssignmentId), u32>,
    /// The planned deadline. The run's own deadline is later if a vantage received its order late.
    planned_deadline: EventTime,
    log: Arc<Mutex<RunLog>>,
    length: watch::Sender<usize>,
}

impl LiveRun {
    pub(super) fn new(
        (run, names): (PreflightRun, Option<NameRequest>),
        topology: Arc<Topology>,
        settings: Settings,
    ) -> Self {
        let live = Self {
            stage: RunStage::Waiting,
            topology,
            settings,
            names: names.map(|query| (query, BTreeMap::new())),
            observations: Vec::new(),
            counted: BTreeSet::new(),
            rounds: BTreeMap::new(),
            planned_deadline: run.deadline,
            log: Arc::default(),
            length: watch::Sender::new(0),
            run,
        };
        let run = Box::new(live.run.clone());
        live.append(RunEvent::Started { run });
        live
    }

    pub(super) const fn run(&self) -> &PreflightRun {
        &self.run
    }

    pub(super) fn is_running(&self) -> bool {
        self.stage != RunStage::Done
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.stage == RunStage::Waiting
    }

    fn append(&self, event: RunEvent) {
        let mut log = self.log.lock();
        log.ended |= matches!(event, RunEvent::Done { .. });
        log.events.push(Arc::new(event));
        self.length.send_replace(log.events.len());
    }

    /// Records one result. Returns whether it was the last one.
    pub(super) fn record(&mut self, recorded: &Recorded) -> bool {
        let observation = &recorded.observation;
        let Some(part) = self
            .run
            .vantages
            .iter_mut()
            .find(|v| v.vantage == recorded.vantage)
        else {
            return false;
        };
        let Some(id) = observation.assignment.clone() else {
            return false;
        };
        let number = (
            recorded.vantage.clone(),
            recorded.incarnation.to_string(),
            observation.seq.0,
        );
        if self.stage != RunStage::Waiting
            || self.run.completed >= self.run.expected
            || !self.counted.insert(number)
        {
            return false;
        }
        let round = self.rounds.entry((recorded.vantage.clone(), id)).or_default();
        *round += 1;
        let round = *round;
        if round == 1 {
            // A vantage whose plan stream was interrupted starts later and takes as long as the others. No first probe
            // extends the run to more than twice its planned duration.
            let planned_duration = self.planned_deadline - self.run.requested_at;
            let first = observation.started.min(self.planned_deadline);
            self.run.deadline = self.run.deadline.max(first.plus(planned_duration));
        }
        self.run.completed += 1;
        let after = observation.started - self.run.requested_at;
        self.run.first_probe = Some(self.run.first_probe.map_or(after, |first| first.min(after)));
        let placement = observation.front.is_some().then(|| {
            self.topology.placement(
                &recorded.vantage,
                observation.front.as_ref(),
                observation.entry.as_ref(),
            )
        });
        if decides_outcome(observation.channel, self.run.target.as_str() == MESH_SUBJECT) {
            part.probes += 1;
            match &observation.outcome {
                Outcome::Ok { .. } => {
                    let total = observation.times.total;
                    part.fastest = part.fastest.into_iter().chain(total).min();
                }
                Outcome::Failed { phase, kind, status } => {
                    part.failures += 1;
                    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
                    part.detail = Some(format!("{} in {phase}{status}", kind.label().replace('_', " ")));
                }
                Outcome::NotProbed { fault: own } => {
                    part.not_made += 1;
                    part.detail = Some(own.reason().to_owned());
                }
            }
            part.placement = placement.unwrap_or(part.placement);
        }
        if let (Some((_, sights)), Some(sight)) = (&mut self.names, &observation.names) {
            sights.insert(recorded.vantage.clone(), NameSight::clone(sight));
        }
        self.observations.push(recorded.clone());
        self.append(RunEvent::Result {
            vantage: recorded.vantage.clone(),
            channel: observation.channel,
            round,
            started: observation.started,
            target: observation.target.clone(),
            outcome: observation.outcome.clone(),
            total: observation.times.total,
            challenge: observation.challenge.clone(),
            placement: observation.challenge.as_ref().and(placement),
        });
        self.run.completed >= self.run.expected
    }

    /// Returns the input of the judgement once the run is due.
    pub(super) fn judgement_input(&mut self, now: EventTime) -> Option<JudgementInput> {
        let over = self.run.completed >= self.run.expected || now >= self.run.deadline;
        if self.stage != RunStage::Waiting || !over {
            return None;
        }
        self.stage = RunStage::Judging;
        self.counted = BTreeSet::new();
        self.run.vantages.sort_by(|a, b| {
            b.failures
                .cmp(&a.failures)
                .then_with(|| a.vantage.cmp(&b.vantage))
        });
        Some(JudgementInput {
            topology: Arc::clone(&self.topology),
            settings: self.settings,
            rounds: self.run.rounds,
            requested_at: self.run.requested_at,
            observations: std::mem::take(&mut self.observations),
            vantages: self.run.vantages.clone(),
        })
    }

    /// Ends the run. `None` means that the judgement itself failed, which is a defect of the aggregator and never a
    /// pass.
    pub(super) fn finish(&mut self, judged: Option<RunJudgement>, now: EventTime) -> &PreflightRun {
        let judged = judged.unwrap_or_else(|| RunJudgement {
            outcome: parallax_api::runs::RunOutcome::Unknown,
            sentence: "the aggregator failed to judge the run; see its log".to_owned(),
            verdict: None,
        });
        self.stage = RunStage::Done;
        self.run.state = RunState::Done;
        self.run.ended = Some(now);
        self.run.outcome = Some(judged.outcome);
        self.run.sentence = judged.sentence;
        self.run.verdict = judged.verdict;
        if let Some(((probe, ask), sights)) = &self.names {
            self.run.names = Some(Box::new(name_request::name_facts_result((probe, ask), sights)));
        }
        let run = Box::new(self.run.clone());
        self.append(RunEvent::Done { run });
        &self.run
    }

    pub(super) fn follow(&self) -> LogReader {
        LogReader {
            log: Arc::clone(&self.log),
            length: self.length.subscribe(),
            position: 0,
        }
    }
}

/// A reader of one run's events, at its own pace.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<Mutex<RunLog>>,
    length: watch::Receiver<usize>,
    position: usize,
}

impl LogReader {
    /// Returns the next events; `None` after the last one, or if the run was dropped.
    pub async fn next(&mut self) -> Option<Vec<Arc<RunEvent>>> {
        loop {
            self.length.borrow_and_update();
            {
                let log = self.log.lock();
                if self.position < log.events.len() {
                    let new = log.events[self.position..].to_vec();
                    self.position = log.events.len();
                    return Some(new);
                }
                if log.ended {
                    return None;
                }
            }
            self.length.changed().await.ok()?;
        }
    }
}
