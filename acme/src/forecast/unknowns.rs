//! What a check leaves open, and notes that do not affect the forecast.

use std::collections::BTreeSet;

use parallax_api::names::{CaaState, NameProblem, ResolverSide};
use parallax_model::{FailureKind, Outcome};
use parallax_preflight::{VantageAnswer, self_check_message};

use super::judge::ForecastInput;

impl ForecastInput<'_> {
    /// Lists the conditions of a renewal that are not known.
    pub(super) fn open_questions(&self) -> Vec<String> {
        let mut open = Vec::new();
        if self.facts.on_side(ResolverSide::Public).next().is_none() {
            open.push(
                "the public DNS records: no public view was queried (set resolvers.public in the aggregator's configuration, or enrol a vantage on the internet)"
                    .to_owned(),
            );
        } else if self.facts.addresses(ResolverSide::Public).is_empty() {
            open.push("the name's public addresses: public servers returned none".to_owned());
        }
        match self.names.caa {
            CaaState::NotQueried => {
                open.push("CAA records: no public view was queried".to_owned());
            }
            CaaState::Forbidden | CaaState::Unknown if self.names.unknown.is_empty() => {
                open.push(self.names.caa_description.clone());
            }
            CaaState::Unrestricted | CaaState::Allowed | CaaState::Forbidden | CaaState::Unknown => {}
        }
        open.extend(self.names.unknown.iter().cloned());
        let lasting = |problem: &&NameProblem| !problem.cause.is_certain();
        open.extend(
            self.names
                .problems
                .iter()
                .filter(lasting)
                .map(|problem| format!("{} (may be temporary)", problem.description)),
        );
        self.open_ca_questions(&mut open);
        self.open_self_check_questions(&mut open);
        open.dedup();
        open
    }

    fn open_ca_questions(&self, open: &mut Vec<String>) {
        let outside = self.fetches_as_ca().any(|answer| answer.vantage.is_on_internet());
        // If there is a vantage outside, a failure on the path out of a node says nothing about the CA.
        let counted: Vec<&VantageAnswer> = self
            .fetches_as_ca()
            .filter(|answer| !outside || answer.vantage.is_on_internet())
            .collect();
        let passed = counted
            .iter()
            .filter(|answer| matches!(answer.outcome, Outcome::Ok { .. }));
        let passed: Vec<&&VantageAnswer> = passed.collect();
        for answer in &counted {
            if let Outcome::Failed { kind, phase, .. } = &answer.outcome {
                let route = matches!(
                    kind,
                    FailureKind::RedirectRefused | FailureKind::RedirectLoop | FailureKind::RedirectTooMany
                );
                let but = if route {
                    ", but the solver's own route may respond differently"
                } else {
                    ""
                };
                open.push(format!(
                    "the fetch by the CA's rules fails from {}: {} in {phase}{but}",
                    answer.vantage,
                    kind.description()
                ));
            }
        }
        if passed.is_empty() && counted.iter().all(|answer| !answer.outcome.is_failure()) {
            open.push("whether port 80 responds: no fetch by the CA's rules was made".to_owned());
        }
        if self.controllers.is_empty() {
            open.push("which controller would serve the solver's route".to_owned());
        } else if let Some(answer) = passed.iter().find(|answer| self.entry_service(answer).is_none()) {
            let at = answer.sight.dials.iter().find(|dial| dial.failure.is_none());
            let at = at.map_or_else(String::new, |dial| dial.address.ip().to_string());
            open.push(format!(
                "whether the solver's controller is behind {at}: no Service of the cluster has that address"
            ));
        }
    }

    fn open_self_check_questions(&self, open: &mut Vec<String>) {
        if self.subject.skip_self_check_delay.is_some() {
            return;
        }
        let answers = &self.evidence.self_check;
        for answer in answers.iter().filter(|answer| answer.outcome.is_failure()) {
            let message =
                self_check_message(&answer.outcome, &answer.sight, &self.challenge_url()).unwrap_or_default();
            open.push(format!("the self check fails from {}: {message}", answer.vantage));
        }
        if !answers
            .iter()
            .any(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
            && !answers.iter().any(|answer| answer.outcome.is_failure())
        {
            open.push("the self check: no node responded".to_owned());
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .names
            .findings
            .iter()
            .map(|finding| format!("{} ({})", finding.text, finding.id))
            .collect();
        let dead: BTreeSet<String> = self
            .fetches_as_ca()
            .filter(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
            .flat_map(|answer| &answer.sight.dials)
            .filter(|dial| dial.address.is_ipv6() && dial.failure.is_some())
            .map(|dial| dial.address.ip().to_string())
            .collect();
        if !dead.is_empty() {
            let dead: Vec<String> = dead.into_iter().collect();
            notes.push(format!(
                "{} does not respond: the CA tries it first, and falls back to IPv4 only if it cannot connect (F17)",
                dead.join(", ")
            ));
        }
        if !self
            .evidence
            .ca
            .iter()
            .any(|answer| answer.vantage.is_on_internet())
        {
            notes.push(
                "tested from inside only: whether clients on the internet get through is unknown".to_owned(),
            );
        }
        if let Some(time) = &self.subject.skip_self_check_delay {
            notes.push(format!(
                "the solver waits {time} instead of making the self check: only the CA decides"
            ));
        }
        notes
    }

    pub(super) fn pass_reason(&self) -> String {
        let controllers: Vec<String> = self.controllers.iter().map(ToString::to_string).collect();
        format!(
            "port 80 is served by {}; {}",
            controllers.join(", "),
            self.names.caa_description
        )
    }
}
