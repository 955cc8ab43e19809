//! Judges the evidence on a name as a forecast for one Certificate. Pure.
//!
//! A renewal *would fail* only because of conditions that last until someone changes them, as the CA would observe
//! them. It *would pass* only if no condition of a renewal is open. Everything else is not known.

use std::collections::BTreeSet;

use parallax_api::{
    forecasts::{ForecastCause, RenewalForecast, RenewalOutlook},
    names::{NameFacts, NameVerdict},
};
use parallax_diagnosis::topology::Topology;
use parallax_model::{
    ChallengeClient, EventTime, FailureKind, Front, Outcome, Phase, ServiceKey, Vantage, dns::NameSight,
};
use parallax_preflight::{QueriedResolvers, SolverRoute, VantageAnswer, ca_message, judge_names, name_facts};

use super::subjects::RenewalSubject;

/// The results of the last check of a name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evidence {
    pub(super) checked_at: EventTime,
    pub(super) name_sights: Vec<(Vantage, NameSight)>,
    pub(super) resolvers: QueriedResolvers,
    pub(super) self_check: Vec<VantageAnswer>,
    pub(super) ca: Vec<VantageAnswer>,
    /// Why the name could not be checked.
    pub(super) not_checked_reason: Option<String>,
}

/// Why the renewal would fail.
struct ForecastFailure {
    cause: ForecastCause,
    reason: String,
    ca_message: Option<String>,
    remedy: String,
}

/// Returns the forecast, from the last check if there was one.
pub(super) fn forecast(
    subject: &RenewalSubject,
    evidence: Option<&Evidence>,
    topology: &Topology,
) -> RenewalForecast {
    let mut forecast = RenewalForecast {
        namespace: subject.validity.namespace.clone(),
        certificate: subject.validity.certificate.clone(),
        host: subject.host.to_string(),
        issuer: subject.issuer.clone(),
        solver: subject
            .route
            .as_ref()
            .map_or_else(Clone::clone, SolverRoute::description),
        renewal: subject.validity.renewal,
        not_after: subject.validity.not_after,
        evaluated_at: None,
        outlook: RenewalOutlook::Unknown,
        cause: None,
        sentence: "not checked yet".to_owned(),
        ca_error: None,
        remedy: None,
        unknowns: Vec::new(),
        notes: Vec::new(),
    };
    let approach = match &subject.route {
        Ok(approach) => approach,
        Err(refused) => {
            set_would_fail(
                &mut forecast,
                ForecastFailure {
                    cause: ForecastCause::Solver,
                    reason: format!("cert-manager rejects the solver: {refused}"),
                    ca_message: None,
                    remedy: "fix the issuer's solver, or the annotations that override it".to_owned(),
                },
            );
            return forecast;
        }
    };
    let Some(evidence) = evidence else {
        return forecast;
    };
    forecast.evaluated_at = Some(evidence.checked_at);
    if let Some(reason) = &evidence.not_checked_reason {
        forecast.sentence.clone_from(reason);
        return forecast;
    }
    let facts = name_facts(subject.host.as_str(), &evidence.name_sights, evidence.resolvers);
    let names = judge_names(&facts, &subject.identities, subject.account.as_deref());
    let look = ForecastInput {
        subject,
        evidence,
        topology,
        controllers: solver_services(approach, &subject.validity.namespace, topology),
        facts: &facts,
        names: &names,
    };
    forecast.notes = look.notes();
    if let Some(failure) = look.find_failure() {
        if subject.identities.is_empty() {
            // A CA that is unknown here may be in the same network and use its own resolver.
            forecast.unknowns = vec![format!(
                "{}; whether that affects the CA of {} is unknown",
                failure.reason, subject.issuer
            )];
        } else {
            set_would_fail(&mut forecast, failure);
            return forecast;
        }
    }
    forecast.unknowns.extend(look.open_questions());
    if forecast.unknowns.is_empty() {
        forecast.outlook = RenewalOutlook::WouldPass;
        forecast.sentence = format!(
            "as far as can be known without a token, it would pass: {}",
            look.pass_reason()
        );
    } else {
        forecast.sentence = format!("open questions: {}", forecast.unknowns.join("; "));
    }
    forecast
}

fn set_would_fail(forecast: &mut RenewalForecast, failure: ForecastFailure) {
    forecast.outlook = RenewalOutlook::WouldFail;
    forecast.cause = Some(failure.cause);
    forecast.sentence = failure.reason;
    forecast.ca_error = failure.ca_message;
    forecast.remedy = Some(failure.remedy);
}

/// Returns the Services through which clients would reach the solver's own route; empty if unknown.
fn solver_services(route: &SolverRoute, namespace: &str, topology: &Topology) -> BTreeSet<ServiceKey> {
    let published = &topology.spec().published;
    let of = |class: &str| {
        let same = published
            .iter()
            .filter(|published| published.class.as_ref().is_some_and(|own| own.as_str() == class));
        let named = topology.services().values();
        let named = named.filter(|service| {
            let own = service.ingress_class.as_ref();
            own.is_some_and(|own| own.as_str() == class)
        });
        same.map(|published| published.service.clone())
            .chain(named.map(|service| service.key.clone()))
            .collect()
    };
    match route {
        SolverRoute::Ingress(solver) => {
            let class = Some(&solver.ingress_class_name)
                .filter(|class| !class.is_empty())
                .or_else(|| Some(&solver.class).filter(|class| !class.is_empty()));
            class.map_or_else(BTreeSet::new, |class| of(class))
        }
        SolverRoute::Route(solver) => solver
            .parent_refs
            .iter()
            .filter_map(|parent| {
                let namespace = parent["namespace"].as_str().unwrap_or(namespace);
                Some(format!("gateway:{namespace}/{}", parent["name"].as_str()?))
            })
            .flat_map(|class| of(&class))
            .collect(),
        // An existing Ingress serves the host through the Service that serves it now.
        SolverRoute::EditInPlace { .. } => BTreeSet::new(),
    }
}

pub(super) struct ForecastInput<'a> {
    pub(super) subject: &'a RenewalSubject,
    pub(super) evidence: &'a Evidence,
    pub(super) topology: &'a Topology,
    pub(super) controllers: BTreeSet<ServiceKey>,
    pub(super) facts: &'a NameFacts,
    pub(super) names: &'a NameVerdict,
}

impl ForecastInput<'_> {
    /// The fetches that resolved the name as the CA does: through public resolvers, or from the internet.
    pub(super) fn fetches_as_ca(&self) -> impl Iterator<Item = &VantageAnswer> {
        let public = self.evidence.resolvers.public;
        self.evidence
            .ca
            .iter()
            .filter(move |answer| public || answer.vantage.is_on_internet())
    }

    fn find_failure(&self) -> Option<ForecastFailure> {
        self.name_failure()
            .or_else(|| self.wrong_controller())
            .or_else(|| self.no_endpoints())
            .or_else(|| self.port_failure())
            .or_else(|| self.ipv6_failure())
    }

    fn name_failure(&self) -> Option<ForecastFailure> {
        self.names.problems.iter().find_map(|problem| {
            Some(ForecastFailure {
                cause: ForecastCause::from_name_cause(problem.cause)?,
                reason: problem.description.clone(),
                ca_message: Some(problem.ca_error.clone()),
                remedy: problem.remedy.clone(),
            })
        })
    }

    /// The Service behind the address that a fetch connected to first.
    pub(super) fn entry_service(&self, answer: &VantageAnswer) -> Option<&ServiceKey> {
        let first = answer
            .sight
            .dials
            .iter()
            .find(|dial| !dial.abandoned && dial.failure.is_none())?;
        let service = self.topology.service_of(&Front::tcp(first.address))?;
        Some(&service.key)
    }

    /// A controller may have several Services, such as an internal one: all Services with the same Pods belong to
    /// it.
    fn belongs_to_controller(&self, entered: &ServiceKey) -> bool {
        let pods = |key: &ServiceKey| -> BTreeSet<_> {
            let endpoints = self
                .topology
                .service(key)
                .into_iter()
                .flat_map(|service| &service.endpoints);
            endpoints.map(|endpoint| &endpoint.pod).collect()
        };
        let own = pods(entered);
        self.controllers.contains(entered) || self.controllers.iter().any(|key| !pods(key).is_disjoint(&own))
    }

    fn wrong_controller(&self) -> Option<ForecastFailure> {
        if self.controllers.is_empty() {
            return None;
        }
        let wrong = self
            .fetches_as_ca()
            .filter_map(|answer| self.entry_service(answer))
            .find(|entered| !self.belongs_to_controller(entered))?;
        let right: Vec<String> = self.controllers.iter().map(ToString::to_string).collect();
        let solver = self
            .subject
            .route
            .as_ref()
            .map_or_else(Clone::clone, SolverRoute::description);
        Some(ForecastFailure {
            cause: ForecastCause::WrongController,
            reason: format!(
                "the name leads to {wrong}, but {solver} is served by {}, so the solver's route is not served there",
                right.join(", ")
            ),
            ca_message: None,
            remedy: "set the class or Gateway of the issuer's solver to the one that the name leads to, or change the name's address"
                .to_owned(),
        })
    }

    /// The Services that the name leads to have no ready endpoint.
    fn no_endpoints(&self) -> Option<ForecastFailure> {
        let mut services = BTreeSet::new();
        for answer in self.fetches_as_ca() {
            if !answer.outcome.is_failure() {
                return None;
            }
            let last = answer.sight.dials.iter().rfind(|dial| !dial.abandoned)?;
            let service = self.topology.service_of(&Front::tcp(last.address))?;
            if !service.usable().is_empty() {
                return None;
            }
            services.insert(service.key.to_string());
        }
        let services: Vec<String> = services.into_iter().collect();
        (!services.is_empty()).then(|| ForecastFailure {
            cause: ForecastCause::NoEndpoints,
            reason: format!(
                "the name leads to {}, which has no ready endpoint",
                services.join(", ")
            ),
            ca_message: None,
            remedy: "make the ingress controller's Pods ready".to_owned(),
        })
    }

    /// No vantage on the internet can connect to port 80.
    fn port_failure(&self) -> Option<ForecastFailure> {
        let mut refused = true;
        let mut first = None;
        for answer in self
            .evidence
            .ca
            .iter()
            .filter(|answer| answer.vantage.is_on_internet())
        {
            match &answer.outcome {
                Outcome::Failed {
                    phase: Phase::Connect,
                    kind: kind @ (FailureKind::Refused | FailureKind::ConnectTimeout),
                    ..
                } if answer.sight.redirects.is_empty() => {
                    refused &= *kind == FailureKind::Refused;
                    first = first.or(Some((answer, kind)));
                }
                Outcome::NotProbed { .. } => {}
                _ => return None,
            }
        }
        let (answer, kind) = first?;
        let at = answer.sight.dials.iter().rfind(|dial| !dial.abandoned);
        let at = at.map_or_else(String::new, |dial| format!(" at {}", dial.address));
        Some(ForecastFailure {
            cause: if refused {
                ForecastCause::PortRefused
            } else {
                ForecastCause::PortSilent
            },
            reason: format!("port 80 is not reachable from the internet ({}): {}{at}", answer.vantage, kind.description()),
            ca_message: self.ca_message(answer),
            remedy: "open port 80 to all clients on the path to the ingress controller, because the CA does not publish its addresses"
                .to_owned(),
        })
    }

    /// Every vantage on the internet connects over IPv6 and gets no response, whatever the path.
    fn ipv6_failure(&self) -> Option<ForecastFailure> {
        let mut first = None;
        for answer in self
            .evidence
            .ca
            .iter()
            .filter(|answer| answer.vantage.is_on_internet())
        {
            let last = answer.sight.dials.iter().rfind(|dial| !dial.abandoned);
            match (&answer.outcome, last) {
                (
                    Outcome::Failed {
                        phase: Phase::FirstByte,
                        kind: kind @ (FailureKind::Eof | FailureKind::Reset | FailureKind::FirstByteTimeout),
                        ..
                    },
                    Some(dial),
                ) if dial.address.is_ipv6()
                    && dial.failure.is_none()
                    && answer.sight.redirects.is_empty() =>
                {
                    first = first.or(Some((answer, kind, dial)));
                }
                (Outcome::NotProbed { .. }, _) => {}
                _ => return None,
            }
        }
        let (answer, kind, dial) = first?;
        Some(ForecastFailure {
            cause: ForecastCause::AaaaUnserved,
            reason: format!(
                "{} accepts connections but does not respond ({}), and the CA falls back to IPv4 only if it cannot connect",
                dial.address.ip(),
                kind.description()
            ),
            ca_message: self.ca_message(answer),
            remedy: "serve port 80 on the IPv6 address, or remove the AAAA record".to_owned(),
        })
    }

    pub(super) fn challenge_url(&self) -> String {
        format!("http://{}/.well-known/acme-challenge/…", self.subject.host)
    }

    fn ca_message(&self, answer: &VantageAnswer) -> Option<String> {
        ca_message(
            ChallengeClient::Boulder,
            &answer.outcome,
            &answer.sight,
            &self.challenge_url(),
        )
        .map(|(problem, detail)| format!("{problem}: {detail}"))
    }
}
