//! Compares answers with the baseline of a working target ([`crate::evidence::baseline`]), and attributes changed
//! answers to rollouts of the application.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{
    Channel, EventTime, ExpectedStatus, FailureKind, Micros, Outcome, Phase, PodName, ProbeSpec, Recorded,
    Round, ServiceKey, TargetId,
};

use super::Engine;
use crate::{
    evidence::{
        baseline::{AnswerChange, AnswerClass, Baseline, BaselineAnswer, OpenAnswers},
        ledger::OutcomeSplit,
    },
    findings::{Finding, FindingKind, Severity},
    topology::Topology,
    verdict::Remedy,
};

/// How long after its last Pod change an application may answer differently from Pod to Pod, while proxies in front
/// of it may not have updated their routes. If the first worse answer comes later, the rollout is not its cause.
const SETTLING_TIME: Micros = Micros::from_secs(60);
/// The same in rounds, for long intervals.
const SETTLING_ROUNDS: u64 = 4;
/// Consecutive rounds with only worse answers until the change is attributed to the application.
const CONFIRMATION_ROUNDS: u32 = 6;
/// How long a changed answer is reported before it becomes the baseline.
const ADOPTION_TIME: Micros = Micros::from_secs(3600);
/// A changed answer is over if no client got it for this long.
const CHANGE_EXPIRY: Micros = Micros::from_secs(60);

/// Baselines and changes of the answers of all targets.
#[derive(Debug, Default)]
pub(super) struct AnswerBaselines {
    pub(super) baselines: BTreeMap<TargetId, Baseline>,
    open_answers: BTreeMap<TargetId, OpenAnswers>,
    /// Time of the last rollout of the application behind each target.
    pub(super) rollouts: BTreeMap<TargetId, EventTime>,
    pub(super) changes: BTreeMap<TargetId, AnswerChange>,
}

/// The application behind a target: its Service and that Service's Pods.
fn application<'a>(
    topology: &'a Topology,
    target: &TargetId,
) -> Option<(&'a ServiceKey, BTreeSet<&'a PodName>)> {
    let placed = topology.targets().get(target)?;
    let entry = placed.entry.as_ref().map(|(service, _)| service);
    let key = match &placed.origin {
        Some(origin) => origin,
        // The Service behind an ingress controller is unknown unless the route names it.
        None => entry.filter(|key| {
            let service = topology.service(key);
            service.is_some_and(|service| service.ingress_class.is_none())
        })?,
    };
    let service = topology.service(key)?;
    Some((
        &service.key,
        service.endpoints.iter().map(|endpoint| &endpoint.pod).collect(),
    ))
}

impl Engine {
    /// Returns the answer of an observation if the baseline of its target applies to it.
    fn baseline_answer(&self, recorded: &Recorded) -> Option<BaselineAnswer> {
        let seen = &recorded.observation;
        let Outcome::Ok { status: Some(status) } = seen.outcome else {
            return None;
        };
        if self.rules.outcome_split == OutcomeSplit::PerChannel
            || !matches!(seen.channel, Channel::Vip | Channel::Direct)
        {
            return None;
        }
        let placed = self.cluster.topology.targets().get(&seen.target)?;
        let ProbeSpec::Http(http) = &placed.target.probe else {
            return None;
        };
        // A target that declares its expected status needs no baseline.
        let free = http.expect_status == ExpectedStatus::Below500 && http.must_not_answer.is_none();
        free.then(|| BaselineAnswer {
            status,
            server: seen.server.clone(),
        })
    }

    /// Returns the observation as a failure if its answer is worse than the baseline, and tracks answers changed by a
    /// rollout.
    pub(super) fn deviating_answer(&mut self, recorded: &Recorded) -> Option<Recorded> {
        let answer = self.baseline_answer(recorded)?;
        let target = &recorded.observation.target;
        let baseline = self.history.answers.baselines.get(target)?;
        if !baseline.deviates(&answer) {
            return None;
        }
        let before = baseline.answers.first().map_or(200, |usual| usual.status);
        if self.came_with_rollout(recorded, before, answer.status) {
            return None;
        }
        let mut recorded = recorded.clone();
        recorded.observation.outcome = Outcome::Failed {
            phase: Phase::Check,
            kind: FailureKind::DiffersFromBaseline,
            status: Some(answer.status),
        };
        Some(recorded)
    }

    /// Reports whether a worse answer came with a rollout of an application that has endpoints; the application then
    /// answers so on purpose.
    fn came_with_rollout(&mut self, recorded: &Recorded, before: u16, status: u16) -> bool {
        let (target, at) = (&recorded.observation.target, recorded.observation.started);
        let serves = application(&self.cluster.topology, target).is_some_and(|(key, _)| {
            let service = self.cluster.topology.service(key);
            service.is_some_and(|service| !service.usable().is_empty())
        });
        if !serves {
            return false;
        }
        let settling = settling_time(self.settings.interval);
        let rollout = self.history.answers.rollouts.get(target).copied();
        if let Some(changed) = self.history.answers.changes.get_mut(target) {
            let last_pod = rollout.map_or(changed.rollout, |rollout| rollout.max(changed.rollout));
            if changed.uniform_rounds == 0 && at - last_pod > settling {
                return false;
            }
            changed.last = changed.last.max(at);
            changed.status = status;
            changed.vantages.insert(recorded.vantage.clone());
            return true;
        }
        let Some(rollout) = rollout.filter(|rollout| at >= *rollout && at - *rollout <= settling) else {
            return false;
        };
        self.history.answers.changes.insert(
            target.clone(),
            AnswerChange {
                status,
                previous_status: before,
                rollout,
                since: at,
                last: at,
                vantages: BTreeSet::from([recorded.vantage.clone()]),
                uniform_rounds: 0,
            },
        );
        true
    }

    /// Records the answer of an observation that will be judged with its round.
    pub(super) fn record_answer(&mut self, recorded: &Recorded) {
        if recorded.observation.channel != Channel::Vip {
            return;
        }
        if let Some(answer) = self.baseline_answer(recorded) {
            let round = recorded.observation.started.round(self.settings.interval);
            let open = self
                .history
                .answers
                .open_answers
                .entry(recorded.observation.target.clone())
                .or_default();
            open.add(round, answer);
        }
    }

    /// Adds the answers of a closed round to the baselines.
    pub(super) fn learn_answers(&mut self, round: Round) {
        let interval = self.settings.interval;
        let end = round.end(interval);
        let AnswerBaselines {
            baselines,
            open_answers: open,
            changes: changed,
            ..
        } = &mut self.history.answers;
        for (target, open) in open {
            let answers = open.close(round);
            if answers.is_empty() {
                continue;
            }
            let baseline = baselines.entry(target.clone()).or_default();
            if let Some(changed) = changed.get_mut(target).filter(|changed| !changed.is_confirmed()) {
                let uniform = answers.iter().all(|answer| baseline.deviates(answer));
                changed.uniform_rounds = if uniform { changed.uniform_rounds + 1 } else { 0 };
            }
            baseline.learn(round, &answers, interval);
        }
        changed.retain(|target, changed| {
            let adopted = end - changed.since > ADOPTION_TIME;
            if adopted && let Some(baseline) = baselines.get_mut(target) {
                baseline.reset();
            }
            !adopted && end - changed.last <= CHANGE_EXPIRY
        });
    }

    /// Records which applications a new topology has changed.
    pub(super) fn record_rollouts(&mut self, old: &Topology, at: EventTime) {
        let topology = &self.cluster.topology;
        for target in topology.targets().keys() {
            let (before, now) = (application(old, target), application(topology, target));
            if before.is_some() && now.is_some() && before != now {
                self.history.answers.rollouts.insert(target.clone(), at);
            }
        }
        let settling = settling_time(self.settings.interval);
        let kept = |target: &TargetId| topology.targets().contains_key(target);
        self.history.answers.baselines.retain(|target, _| kept(target));
        self.history.answers.open_answers.retain(|target, _| kept(target));
        self.history.answers.changes.retain(|target, _| kept(target));
        self.history
            .answers
            .rollouts
            .retain(|target, rollout| kept(target) && at - *rollout <= settling);
    }

    /// Forgets the baseline of a target; its answers from now on define what works. Returns whether there was a
    /// baseline.
    pub fn reset_baseline(&mut self, target: &TargetId) -> bool {
        self.history.answers.changes.remove(target);
        self.history.answers.open_answers.remove(target);
        self.history.answers.baselines.remove(target).is_some()
    }

    /// Findings about answers that changed with the application.
    pub(super) fn changed_answers(&self) -> Vec<Finding> {
        let changed = self.history.answers.changes.iter();
        changed
            .filter(|(_, changed)| changed.is_confirmed())
            .map(|(target, changed)| changed.finding(target, &self.cluster.topology))
            .collect()
    }
}

/// Returns [`SETTLING_TIME`], or [`SETTLING_ROUNDS`] if longer.
fn settling_time(interval: Micros) -> Micros {
    SETTLING_TIME.max(Micros(interval.0.saturating_mul(SETTLING_ROUNDS)))
}

impl AnswerChange {
    const fn is_confirmed(&self) -> bool {
        self.uniform_rounds >= CONFIRMATION_ROUNDS
    }

    fn finding(&self, target: &TargetId, topology: &Topology) -> Finding {
        let vantages: Vec<String> = self.vantages.iter().map(ToString::to_string).collect();
        let service =
            application(topology, target).map_or_else(String::new, |(key, _)| format!(" Service {key}"));
        let worse = AnswerClass::of(self.status) == AnswerClass::Missing;
        let change = if worse {
            "no longer knows the path"
        } else {
            "refuses the request"
        };
        Finding {
            id: format!("{}:{target}", FindingKind::ChangedAnswer),
            kind: FindingKind::ChangedAnswer,
            severity: Severity::Warning,
            subject: target.to_string(),
            sentence: format!(
                "{target} answers {} instead of {} since the pods of{service} changed: the application {change}",
                self.status, self.previous_status
            ),
            evidence: vec![
                format!("{} after the change, seen from {}", self.since - self.rollout, crate::wording::join_names(&vantages)),
            ],
            vantages: self.vantages.iter().cloned().collect(),
            remedies: vec![
                Remedy::new(
                    "roll the application back if the new answer is not intended",
                    None,
                    "a rollback also undoes the other changes of the rollout",
                ),
                Remedy::new(
                    "declare the expected status (annotation parallax.dev/expect), or reset the baseline of the target",
                    None,
                    "an expected answer is never reported again",
                )
                .with_ineffective_when("clients need the former answer"),
            ],
            targets: vec![target.clone()],
            since: self.since,
        }
    }
}
