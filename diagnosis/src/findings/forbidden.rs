//! Targets that must not answer: at all, at an address, or to some vantages.
//!
//! Two consecutive answers make a finding. These answers are not compared with others: the prober decides whether a
//! target stayed silent.

use std::collections::BTreeMap;

use parallax_model::{AnswerPrint, EventTime, FailureKind, Forbidden, TargetId, Vantage};

use super::{
    ExposureState, Finding, FindingKind, ForbiddenView, Severity,
    exposure::{LatestAnswer, MIN_CONSECUTIVE, answer_validity, record, status_words},
};
use crate::{
    evidence::row::{ProbeEnd, Row},
    ids::NameRegistry,
    settings::Settings,
    topology::Topology,
    verdict::Remedy,
};

/// Maximum number of remembered answers over all targets and vantages; each belongs to a declared target.
const MAX_ANSWERS: usize = 4096;

/// The latest outcome of each forbidden probe at each vantage. For targets that must be silent to all vantages, only
/// answers are kept: silence is a success and shows in the cells.
#[derive(Debug, Default)]
pub(super) struct ForbiddenAnswers {
    latest: BTreeMap<(TargetId, Vantage), LatestAnswer>,
}

impl ForbiddenAnswers {
    /// Adds the outcome of a target that must not answer anywhere.
    pub(super) fn add_global(&mut self, row: &Row, world: &NameRegistry) {
        let key = || {
            let target = world.targets.name(row.target).clone();
            (target, world.vantages.name(row.client).clone())
        };
        let forbidden = |kind| *world.kinds.name(kind) == FailureKind::AnsweredThoughForbidden;
        match row.outcome {
            ProbeEnd::Failed(_, (kind, status)) if forbidden(kind) && self.latest.len() < MAX_ANSWERS => {
                let print = AnswerPrint {
                    status,
                    ..AnswerPrint::default()
                };
                record(&mut self.latest, key(), row.at, Some(print));
            }
            ProbeEnd::NotAsked => {}
            ProbeEnd::Ok | ProbeEnd::Failed(..) => {
                if !self.latest.is_empty() {
                    self.latest.remove(&key());
                }
            }
        }
    }

    /// Adds the outcome of a probe that must not be answered. Silence is remembered as well, so that it differs from a
    /// probe that was never sent; but only if the vantage was answered by something else in the same round.
    pub(super) fn add_scoped(&mut self, row: &Row, world: &NameRegistry, was_answered: bool) {
        let target = world.targets.name(row.target).clone();
        let key = (target, world.vantages.name(row.client).clone());
        let print = match row.outcome {
            ProbeEnd::NotAsked => return,
            ProbeEnd::Ok if was_answered => None,
            ProbeEnd::Ok => {
                self.latest.remove(&key);
                return;
            }
            ProbeEnd::Failed(_, (kind, status)) => {
                if *world.kinds.name(kind) != FailureKind::AnsweredThoughForbidden {
                    // Neither the expected silence nor an answer.
                    self.latest.remove(&key);
                    return;
                }
                Some(AnswerPrint {
                    status,
                    ..AnswerPrint::default()
                })
            }
        };
        if self.latest.len() < MAX_ANSWERS || self.latest.contains_key(&key) {
            record(&mut self.latest, key, row.at, print);
        }
    }

    pub(super) fn prune(&mut self, end: EventTime, topology: &Topology, settings: Settings) {
        self.latest.retain(|(target, _), last| {
            let probed_target = topology
                .forbidden()
                .get(target)
                .map_or(target, |question| &question.target);
            topology.targets().get(probed_target).is_some_and(|placed| {
                let interval = placed.target.interval.unwrap_or(settings.interval);
                end - last.at <= answer_validity(interval.max(settings.interval), settings)
            })
        });
    }

    /// Returns every probe that must not be answered, with its worst state.
    pub(super) fn views(&self, topology: &Topology) -> Vec<ForbiddenView> {
        let state = |id: &TargetId| {
            let known = self.latest.iter().filter(|((target, _), _)| target == id);
            let stable = known.filter(|(_, last)| last.consecutive >= MIN_CONSECUTIVE);
            let states = stable.map(|(_, last)| match last.print {
                Some(_) => ExposureState::Served,
                None => ExposureState::NotServed,
            });
            states.max().unwrap_or(ExposureState::Unknown)
        };
        let all = topology.forbidden().iter();
        all.map(|(id, question)| ForbiddenView {
            target: question.target.clone(),
            at: question.address,
            from: question.vantages.clone(),
            state: state(id),
        })
        .collect()
    }

    /// Returns findings for targets that answer although they must not.
    pub(super) fn findings(&self, topology: &Topology) -> Vec<Finding> {
        let mut by_target: BTreeMap<&TargetId, Vec<(&Vantage, &LatestAnswer)>> = BTreeMap::new();
        for ((target, vantage), last) in &self.latest {
            if last.consecutive >= MIN_CONSECUTIVE && last.print.is_some() {
                by_target.entry(target).or_default().push((vantage, last));
            }
        }
        by_target
            .into_iter()
            .map(|(target, seen)| {
                let vantages: Vec<Vantage> = seen.iter().map(|(vantage, _)| (*vantage).clone()).collect();
                let names: Vec<String> = vantages.iter().map(ToString::to_string).collect();
                let question = topology.forbidden().get(target);
                let probed_target = question.map_or(target, |question| &question.target);
                let place = match question {
                    Some(Forbidden { address: Some(at), .. }) => format!(" at {at}"),
                    Some(Forbidden { address: None, vantages: from, .. }) => {
                        let kinds: Vec<String> = from.iter().map(ToString::to_string).collect();
                        format!(" to {}", crate::wording::join_names(&kinds))
                    }
                    None => String::new(),
                };
                Finding {
                    id: format!("{}:{target}", FindingKind::Exposed),
                    kind: FindingKind::Exposed,
                    severity: Severity::Critical,
                    subject: format!("{probed_target}{place}"),
                    sentence: format!(
                        "{probed_target} must not respond{place}, but responds to {}",
                        crate::wording::join_names(&names)
                    ),
                    evidence: seen
                        .iter()
                        .map(|(vantage, last)| format!("{vantage}: {}", status_words(last.print)))
                        .collect(),
                    vantages,
                    remedies: vec![
                        Remedy::new(
                            "find out which controller serves the host and remove the host from its routes",
                            Some("kubectl get ingress -A -o wide".to_owned()),
                            "clients that use the host this way lose access",
                        )
                        .with_ineffective_when(
                            "the answer comes from outside the cluster: then that server must be reconfigured",
                        ),
                    ],
                    targets: vec![probed_target.clone()],
                    since: seen.iter().map(|(_, last)| last.first).min().unwrap_or_default(),
                }
            })
            .collect()
    }
}
