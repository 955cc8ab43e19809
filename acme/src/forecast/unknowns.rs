//! What a look leaves open, and what is to be known besides.

use std::collections::BTreeSet;

use parallax_api::names::{CaaState, NameProblem, ResolverSide};
use parallax_model::{FailureKind, Outcome};
use parallax_preflight::{VantageAnswer, self_check_says};

use super::judge::{ForecastInput, is_internet};

impl ForecastInput<'_> {
    /// What a renewal needs and cannot be told.
    pub(super) fn open(&self) -> Vec<String> {
        let mut open = Vec::new();
        if self.facts.of_side(ResolverSide::Public).next().is_none() {
            open.push(
                "what public DNS says: nobody was asked who sees it (resolvers.public in the aggregator's configuration, or a vantage on the internet)"
                    .to_owned(),
            );
        } else if self.facts.addresses(ResolverSide::Public).is_empty() {
            open.push("the name's public addresses: public servers gave none".to_owned());
        }
        match self.names.caa {
            CaaState::NotAsked => {
                open.push("CAA records: nobody was asked who sees what the public sees".to_owned());
            }
            CaaState::Forbidden | CaaState::Unknown if self.names.unknown.is_empty() => {
                open.push(self.names.caa_words.clone());
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
                .map(|problem| format!("{} (it may pass)", problem.words)),
        );
        self.open_at_the_ca(&mut open);
        self.open_at_the_self_check(&mut open);
        open.dedup();
        open
    }

    fn open_at_the_ca(&self, open: &mut Vec<String>) {
        let outside = self.as_the_ca().any(|answer| is_internet(&answer.vantage));
        // What fails on the way out of a node says nothing of the CA where somebody stands outside.
        let counted: Vec<&VantageAnswer> = self
            .as_the_ca()
            .filter(|answer| !outside || is_internet(&answer.vantage))
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
                    ", though the solver's own route may answer otherwise"
                } else {
                    ""
                };
                open.push(format!(
                    "by the CA's rules, from {}: {} in {phase}{but}",
                    answer.vantage,
                    kind.words()
                ));
            }
        }
        if passed.is_empty() && counted.iter().all(|answer| !answer.outcome.is_failure()) {
            open.push("whether port 80 is answered: nobody fetched it as the CA does".to_owned());
        }
        if self.controllers.is_empty() {
            open.push("which controller would serve the solver's route".to_owned());
        } else if let Some(answer) = passed.iter().find(|answer| self.entered(answer).is_none()) {
            let at = answer.sight.dials.iter().find(|dial| dial.failed.is_none());
            let at = at.map_or_else(String::new, |dial| dial.address.ip().to_string());
            open.push(format!(
                "whether the solver's controller stands behind {at}: no Service of the cluster has that address"
            ));
        }
    }

    fn open_at_the_self_check(&self, open: &mut Vec<String>) {
        if self.subject.waits.is_some() {
            return;
        }
        let answers = &self.evidence.self_check;
        for answer in answers.iter().filter(|answer| answer.outcome.is_failure()) {
            let says = self_check_says(&answer.outcome, &answer.sight, &self.url()).unwrap_or_default();
            open.push(format!("the self check fails from {}: {says}", answer.vantage));
        }
        if !answers
            .iter()
            .any(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
            && !answers.iter().any(|answer| answer.outcome.is_failure())
        {
            open.push("the self check: no node answered".to_owned());
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
            .as_the_ca()
            .filter(|answer| matches!(answer.outcome, Outcome::Ok { .. }))
            .flat_map(|answer| &answer.sight.dials)
            .filter(|dial| dial.address.is_ipv6() && dial.failed.is_some())
            .map(|dial| dial.address.ip().to_string())
            .collect();
        if !dead.is_empty() {
            let dead: Vec<String> = dead.into_iter().collect();
            notes.push(format!(
                "{} does not answer: the CA asks there first, and goes by IPv4 only where it cannot connect (F17)",
                dead.join(", ")
            ));
        }
        if !self.evidence.ca.iter().any(|answer| is_internet(&answer.vantage)) {
            notes.push("seen from inside only: whether the internet gets in is not known".to_owned());
        }
        if let Some(time) = &self.subject.waits {
            notes.push(format!(
                "the solver waits {time} in place of the self check: the CA alone decides"
            ));
        }
        notes
    }

    pub(super) fn why(&self) -> String {
        let controllers: Vec<String> = self.controllers.iter().map(ToString::to_string).collect();
        format!(
            "port 80 is answered by {}; {}",
            controllers.join(", "),
            self.names.caa_words
        )
    }
}
