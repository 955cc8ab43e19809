//! Targets that must not answer: at all, at an address, or to some vantages.
//!
//! Two consecutive answers make a finding. These answers are not compared with others: the prober decides whether a
//! target stayed silent.

use std::collections::BTreeMap;

use parallax_model::{AnswerPrint, EventTime, FailureKind, Forbidden, TargetId, Vantage};

use super::{
    ExposureState, Finding, FindingKind, ForbiddenView, Severity,
    exposure::{LatestAnswer, STABLE, patience, put, status_words},
};
use crate::{
    evidence::row::{ProbeEnd, Row},
    ids::NameRegistry,
    settings::Settings,
    topology::Topology,
    verdict::Remedy,
};

/// Maximum number of remembered answers over all targets and vantages; each belongs to a declared target.
const REMEMBERED: usize = 4096;

/// The latest outcome of each forbidden probe at each vantage. For targets that must be silent to all vantages, only
/// answers are kept: silence is a success and shows in the cells.
#[derive(Debug, Default)]
pub(super) struct ForbiddenAnswers {
    last: BTreeMap<(TargetId, Vantage), LatestAnswer>,
}

impl ForbiddenAnswers {
    /// Adds the outcome of a target that must not answer anywhere.
    pub(super) fn everywhere(&mut self, row: &Row, world: &NameRegistry) {
        let key = || {
            let target = world.targets.name(row.target).clone();
            (target, world.vantages.name(row.client).clone())
        };
        let forbidden = |kind| *world.kinds.name(kind) == FailureKind::AnsweredThoughForbidden;
        match row.end {
            ProbeEnd::Failed(_, (kind, status)) if forbidden(kind) && self.last.len() < REMEMBERED => {
                let print = AnswerPrint {
                    status,
                    ..AnswerPrint::default()
                };
                put(&mut self.last, key(), row.at, Some(print));
            }
            ProbeEnd::NotAsked => {}
            ProbeEnd::Ok | ProbeEnd::Failed(..) => {
                if !self.last.is_empty() {
                    self.last.remove(&key());
                }
            }
        }
    }

    /// Adds the outcome of a probe that must not be answered. Silence is remembered as well, so that it differs from a
    /// probe that was never sent.
    pub(super) fn somewhere(&mut self, row: &Row, world: &NameRegistry) {
        let target = world.targets.name(row.target).clone();
        let key = (target, world.vantages.name(row.client).clone());
        let print = match row.end {
            ProbeEnd::NotAsked => return,
            ProbeEnd::Ok => None,
            ProbeEnd::Failed(_, (kind, status)) => {
                if *world.kinds.name(kind) != FailureKind::AnsweredThoughForbidden {
                    // Neither the expected silence nor an answer.
                    self.last.remove(&key);
                    return;
                }
                Some(AnswerPrint {
                    status,
                    ..AnswerPrint::default()
                })
            }
        };
        if self.last.len() < REMEMBERED || self.last.contains_key(&key) {
            put(&mut self.last, key, row.at, print);
        }
    }

    pub(super) fn forget(&mut self, end: EventTime, topology: &Topology, settings: Settings) {
        self.last.retain(|(target, _), last| {
            let asked = topology
                .forbidden()
                .get(target)
                .map_or(target, |question| &question.of);
            topology.targets().get(asked).is_some_and(|placed| {
                let interval = placed.target.interval.unwrap_or(settings.interval);
                end - last.at <= patience(interval.max(settings.interval), settings)
            })
        });
    }

    /// Returns every probe that must not be answered, with its worst state.
    pub(super) fn views(&self, topology: &Topology) -> Vec<ForbiddenView> {
        let state = |id: &TargetId| {
            let known = self.last.iter().filter(|((target, _), _)| target == id);
            let stable = known.filter(|(_, last)| last.in_a_row >= STABLE);
            let states = stable.map(|(_, last)| match last.print {
                Some(_) => ExposureState::Served,
                None => ExposureState::NotServed,
            });
            states.max().unwrap_or(ExposureState::Unknown)
        };
        let all = topology.forbidden().iter();
        all.map(|(id, question)| ForbiddenView {
            target: question.of.clone(),
            at: question.at,
            from: question.from.clone(),
            state: state(id),
        })
        .collect()
    }

    /// Returns findings for targets that answer although they must not.
    pub(super) fn findings(&self, topology: &Topology) -> Vec<Finding> {
        let mut by_target: BTreeMap<&TargetId, Vec<(&Vantage, &LatestAnswer)>> = BTreeMap::new();
        for ((target, vantage), last) in &self.last {
            if last.in_a_row >= STABLE && last.print.is_some() {
                by_target.entry(target).or_default().push((vantage, last));
            }
        }
        by_target
            .into_iter()
            .map(|(target, seen)| {
                let vantages: Vec<Vantage> = seen.iter().map(|(vantage, _)| (*vantage).clone()).collect();
                let names: Vec<String> = vantages.iter().map(ToString::to_string).collect();
                let question = topology.forbidden().get(target);
                let asked = question.map_or(target, |question| &question.of);
                let place = match question {
                    Some(Forbidden { at: Some(at), .. }) => format!(" at {at}"),
                    Some(Forbidden { at: None, from, .. }) => {
                        let kinds: Vec<String> = from.iter().map(ToString::to_string).collect();
                        format!(" to {}", crate::wording::listed(&kinds))
                    }
                    None => String::new(),
                };
                Finding {
                    id: format!("{}:{target}", FindingKind::Exposed),
                    kind: FindingKind::Exposed,
                    severity: Severity::Critical,
                    subject: format!("{asked}{place}"),
                    sentence: format!(
                        "{asked} must not respond{place}, but responds to {}",
                        crate::wording::listed(&names)
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
                        .not_when(
                            "the answer comes from outside the cluster: then that server must be reconfigured",
                        ),
                    ],
                    targets: vec![asked.clone()],
                    since: seen.iter().map(|(_, last)| last.first).min().unwrap_or_default(),
                }
            })
            .collect()
    }
}
