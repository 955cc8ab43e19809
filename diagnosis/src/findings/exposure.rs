//! A host of one ingress class that is served by a front of another class (incident I4).
//!
//! "Served" means more than "answered": the front returns the same certificate or body as the host's own front. A
//! default backend's 404, another certificate or a refused connection is correct behaviour. What the front also returns
//! for its own hosts (a wildcard certificate, a catch-all page) proves nothing about this host.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{AnswerPrint, Digest, EventTime, Front, Micros, Outcome, Recorded, TargetId, Vantage};

use super::{ExposureState, ExposureView, Finding, FindingKind, Severity};
use crate::{
    plan::exposure_interval,
    settings::Settings,
    topology::{Exposure, Topology, is_private},
    verdict::Remedy,
};

/// Number of consecutive answers that make a finding.
pub(super) const MIN_CONSECUTIVE: u32 = 2;

/// The latest answer to one probe at one vantage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LatestAnswer {
    pub(super) at: EventTime,
    pub(super) first: EventTime,
    /// Absent if there was no answer.
    pub(super) print: Option<AnswerPrint>,
    pub(super) consecutive: u32,
}

/// The latest answers by target and vantage.
#[derive(Debug, Default)]
pub(super) struct ExposureAnswers {
    latest: BTreeMap<(TargetId, Vantage), LatestAnswer>,
}

impl ExposureAnswers {
    /// Adds the answer to an exposure probe. Faults of the prober itself are ignored.
    pub(super) fn add(&mut self, recorded: &Recorded) {
        let observation = &recorded.observation;
        // A success without a print comes from a prober that does not support prints.
        let unreadable = match observation.outcome {
            Outcome::NotProbed { .. } => true,
            Outcome::Ok { .. } => observation.fingerprint.is_none(),
            Outcome::Failed { .. } => false,
        };
        if unreadable {
            return;
        }
        let key = (observation.target.clone(), recorded.vantage.clone());
        record(
            &mut self.latest,
            key,
            observation.started,
            observation.fingerprint,
        );
    }

    pub(super) fn prune(&mut self, end: EventTime, topology: &Topology, settings: Settings) {
        let seldom = answer_validity(exposure_interval(topology, settings.interval), settings);
        self.latest
            .retain(|(target, _), last| topology.exposures().contains_key(target) && end - last.at <= seldom);
    }

    pub(super) fn views(&self, topology: &Topology) -> Vec<ExposureView> {
        let reference = ExposureReference::of(self, topology);
        topology
            .exposures()
            .iter()
            .filter(|(_, exposure)| !exposure.is_reference())
            .map(|(id, exposure)| ExposureView {
                host: exposure.host.clone(),
                class: exposure.class.clone(),
                front: exposure.front,
                front_class: exposure.front_class.clone(),
                state: reference.state(self, id, exposure),
            })
            .collect()
    }

    pub(super) fn findings(&self, topology: &Topology) -> Vec<Finding> {
        let reference = ExposureReference::of(self, topology);
        topology
            .exposures()
            .iter()
            .filter(|(_, exposure)| !exposure.is_reference())
            .filter_map(|(id, exposure)| reference.finding(self, id, exposure))
            .collect()
    }
}

/// How long an answer to a probe with this interval remains valid.
pub(super) fn answer_validity(interval: Micros, settings: Settings) -> Micros {
    Micros(interval.0.saturating_mul(3)).max(settings.timeout)
}

pub(super) fn record(
    all: &mut BTreeMap<(TargetId, Vantage), LatestAnswer>,
    key: (TargetId, Vantage),
    at: EventTime,
    print: Option<AnswerPrint>,
) {
    let last = all.entry(key).or_insert(LatestAnswer {
        at,
        first: at,
        print,
        consecutive: 0,
    });
    // Two answers of the same time: the larger print wins, in any order of arrival.
    if at < last.at || (at == last.at && last.consecutive > 0 && print <= last.print) {
        return;
    }
    // A page may change between answers; the status and the certificate do not.
    let manner = |print: Option<AnswerPrint>| print.map(|p| (p.status, p.certificate));
    let same = manner(last.print) == manner(print);
    *last = LatestAnswer {
        at,
        first: if same { last.first } else { at },
        print,
        consecutive: if same {
            last.consecutive.saturating_add(1)
        } else {
            1
        },
    };
}

/// Result of comparing an answer at another class's front with the host's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerSimilarity {
    /// The host's own answer is not known.
    Incomparable,
    /// Different, or the same as the front returns for other hosts.
    Different,
    /// The host's own answer, with the evidence.
    Same(&'static str),
}

/// The answers of the fronts' own hosts, used as reference.
struct ExposureReference<'a> {
    /// The host's own prints, over all vantages.
    own: BTreeMap<&'a TargetId, BTreeSet<AnswerPrint>>,
    certificates: BTreeMap<Front, BTreeSet<(Digest, &'a TargetId)>>,
    bodies: BTreeMap<Front, BTreeSet<(Digest, &'a TargetId)>>,
}

impl<'a> ExposureReference<'a> {
    fn of(all: &ExposureAnswers, topology: &'a Topology) -> Self {
        let mut reference = Self {
            own: BTreeMap::new(),
            certificates: BTreeMap::new(),
            bodies: BTreeMap::new(),
        };
        for ((id, _), last) in &all.latest {
            let (Some(exposure), Some(print)) = (topology.exposures().get(id), last.print) else {
                continue;
            };
            if !exposure.is_reference() {
                continue;
            }
            reference.own.entry(&exposure.target).or_default().insert(print);
            if let Some(certificate) = print.certificate {
                let shown = reference.certificates.entry(exposure.front).or_default();
                shown.insert((certificate, &exposure.target));
            }
            if let Some(body) = print.body {
                reference
                    .bodies
                    .entry(exposure.front)
                    .or_default()
                    .insert((body, &exposure.target));
            }
        }
        reference
    }

    /// Compares an answer at another class's front with the host's own.
    fn compare(&self, exposure: &Exposure, print: AnswerPrint) -> AnswerSimilarity {
        let Some(own) = self.own.get(&exposure.target) else {
            return AnswerSimilarity::Incomparable;
        };
        let shown_to_others = |shown: &BTreeMap<Front, BTreeSet<(Digest, &TargetId)>>, digest: Digest| {
            shown.get(&exposure.front).is_some_and(|all| {
                all.iter()
                    .any(|(other, target)| *other == digest && **target != exposure.target)
            })
        };
        let status = print.status.unwrap_or(0);
        let success = (200..300).contains(&status);
        let same_body = success
            && print.body.is_some_and(|body| {
                own.iter()
                    .any(|o| o.body == Some(body) && o.status == print.status)
                    && !shown_to_others(&self.bodies, body)
            });
        if same_body {
            return AnswerSimilarity::Same("the same body as at its own front");
        }
        // 404: no such host; 421: wrong server for the host; 5xx: no backend.
        let refused = matches!(status, 0 | 404 | 421 | 500..);
        let same_certificate = !refused
            && print.certificate.is_some_and(|certificate| {
                own.iter()
                    .any(|o| o.certificate == Some(certificate) && o.status == print.status)
                    && !shown_to_others(&self.certificates, certificate)
            });
        if same_certificate {
            AnswerSimilarity::Same("the same certificate and status as at its own front")
        } else {
            AnswerSimilarity::Different
        }
    }

    fn state(&self, all: &ExposureAnswers, id: &TargetId, exposure: &Exposure) -> ExposureState {
        all.latest
            .iter()
            .filter(|((target, _), last)| target == id && last.consecutive >= MIN_CONSECUTIVE)
            .map(|(_, last)| match last.print {
                None => ExposureState::NotServed,
                Some(print) => match self.compare(exposure, print) {
                    AnswerSimilarity::Incomparable => ExposureState::Unknown,
                    AnswerSimilarity::Different => ExposureState::NotServed,
                    AnswerSimilarity::Same(_) => ExposureState::Served,
                },
            })
            .max()
            .unwrap_or(ExposureState::Unknown)
    }

    fn finding(&self, all: &ExposureAnswers, id: &TargetId, exposure: &Exposure) -> Option<Finding> {
        let mut vantages = Vec::new();
        let mut evidence = Vec::new();
        let mut since: Option<EventTime> = None;
        for ((target, vantage), last) in &all.latest {
            if target != id || last.consecutive < MIN_CONSECUTIVE {
                continue;
            }
            let Some(AnswerSimilarity::Same(reason)) = last.print.map(|print| self.compare(exposure, print))
            else {
                continue;
            };
            vantages.push(vantage.clone());
            evidence.push(format!("{vantage}: {}, {reason}", status_words(last.print)));
            since = Some(since.map_or(last.first, |known| known.min(last.first)));
        }
        let since = since?;
        let Exposure {
            host,
            class,
            front,
            front_class,
            ..
        } = exposure;
        let public = !is_private(front.address.ip());
        let reach = if public {
            "a public address"
        } else {
            "an internal address"
        };
        Some(Finding {
            id: format!("{}:{id}", FindingKind::Exposed),
            kind: FindingKind::Exposed,
            severity: if public {
                Severity::Critical
            } else {
                Severity::Warning
            },
            subject: format!("{host} at {front}"),
            sentence: format!(
                "{host} of ingress class {class} is exposed on {front} of class {front_class}, {reach}: any client \
                 that sends this host name there reaches it"
            ),
            vantages,
            evidence,
            remedies: vec![
                Remedy::new(
                    format!("restrict the controller of class {front_class} to its own class"),
                    Some("kubectl get ingress -A -o wide".to_owned()),
                    "the controller restarts; Ingresses without a class are not served until they specify one",
                )
                .with_ineffective_when("both controllers use the same controller name: then each needs its own \
                           (--controller-class)"),
                Remedy::new(
                    format!("reject the host {host} at {front} (a server block that closes the connection)"),
                    None,
                    "one rule per host, maintained by hand",
                )
                .with_ineffective_when("new hosts of the class appear: each needs its own rule"),
            ],
            targets: vec![exposure.target.clone()],
            since,
        })
    }
}

pub(super) fn status_words(print: Option<AnswerPrint>) -> String {
    print
        .and_then(|print| print.status)
        .map_or_else(|| "answered".to_owned(), |status| format!("answered {status}"))
}
