//! What was seen of a name, as a forecast for one Certificate. Pure.
//!
//! A renewal *would fail* only for what stays so until somebody changes something, seen the way the CA takes. It *would
//! pass* only where nothing that a renewal needs is open. Everything else is not known.

use std::collections::BTreeSet;

use parallax_api::{
    forecasts::{ForecastCause, RenewalForecast, RenewalOutlook},
    names::{NameFacts, NameVerdict},
};
use parallax_diagnosis::topology::Topology;
use parallax_model::{
    ChallengeClient, EventTime, FailureKind, Front, Outcome, Phase, Reach, ServiceKey, Vantage,
    dns::NameSight,
};
use parallax_preflight::{
    QueriedResolvers, SolverRoute, VantageAnswer, authority_says, judge_names, name_facts,
};

use super::subjects::RenewalSubject;

/// What came of the last look at a name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evidence {
    pub(super) at: EventTime,
    pub(super) sights: Vec<(Vantage, NameSight)>,
    pub(super) wanted: QueriedResolvers,
    pub(super) self_check: Vec<VantageAnswer>,
    pub(super) ca: Vec<VantageAnswer>,
    /// Why nobody looked.
    pub(super) nobody: Option<String>,
}

/// Why it would fail, in all words.
struct ForecastFailure {
    cause: ForecastCause,
    words: String,
    theirs: Option<String>,
    remedy: String,
}

/// The forecast, by the last look where there was one.
pub(super) fn judge(
    subject: &RenewalSubject,
    evidence: Option<&Evidence>,
    topology: &Topology,
) -> RenewalForecast {
    let mut forecast = RenewalForecast {
        namespace: subject.term.namespace.clone(),
        certificate: subject.term.certificate.clone(),
        host: subject.host.to_string(),
        issuer: subject.issuer.clone(),
        solver: subject
            .approach
            .as_ref()
            .map_or_else(Clone::clone, SolverRoute::words),
        renewal: subject.term.renewal,
        not_after: subject.term.not_after,
        looked: None,
        outlook: RenewalOutlook::Unknown,
        cause: None,
        sentence: "it has not been looked at yet".to_owned(),
        theirs: None,
        remedy: None,
        open: Vec::new(),
        notes: Vec::new(),
    };
    let approach = match &subject.approach {
        Ok(approach) => approach,
        Err(refused) => {
            fails(
                &mut forecast,
                ForecastFailure {
                    cause: ForecastCause::Solver,
                    words: format!("cert-manager refuses the solver: {refused}"),
                    theirs: None,
                    remedy: "mend the solver of the issuer, or the annotations that override it".to_owned(),
                },
            );
            return forecast;
        }
    };
    let Some(evidence) = evidence else {
        return forecast;
    };
    forecast.looked = Some(evidence.at);
    if let Some(why) = &evidence.nobody {
        forecast.sentence.clone_from(why);
        return forecast;
    }
    let facts = name_facts(subject.host.as_str(), &evidence.sights, evidence.wanted);
    let names = judge_names(&facts, &subject.identities, subject.account.as_deref());
    let look = ForecastInput {
        subject,
        evidence,
        topology,
        controllers: controllers(approach, &subject.term.namespace, topology),
        facts: &facts,
        names: &names,
    };
    forecast.notes = look.notes();
    if let Some(failure) = look.failure() {
        if subject.identities.is_empty() {
            // An authority that nobody here knows may stand in the same network and ask its own resolver.
            forecast.open = vec![format!(
                "{}; whether that matters to the authority of {} is not known",
                failure.words, subject.issuer
            )];
        } else {
            fails(&mut forecast, failure);
            return forecast;
        }
    }
    forecast.open.extend(look.open());
    if forecast.open.is_empty() {
        forecast.outlook = RenewalOutlook::WouldPass;
        forecast.sentence = format!(
            "as far as it can be known without a token, it would pass: {}",
            look.why()
        );
    } else {
        forecast.sentence = format!("it cannot be told: {}", forecast.open.join("; "));
    }
    forecast
}

fn fails(forecast: &mut RenewalForecast, failure: ForecastFailure) {
    forecast.outlook = RenewalOutlook::WouldFail;
    forecast.cause = Some(failure.cause);
    forecast.sentence = failure.words;
    forecast.theirs = failure.theirs;
    forecast.remedy = Some(failure.remedy);
}

/// The Services through which the solver's own route would be entered; none where that is not known.
fn controllers(approach: &SolverRoute, namespace: &str, topology: &Topology) -> BTreeSet<ServiceKey> {
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
    match approach {
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
        // An Ingress that is there serves the host through whatever it serves it through now.
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
    /// Fetches that resolved the name as the CA does: by public resolvers, or from the internet.
    pub(super) fn as_the_ca(&self) -> impl Iterator<Item = &VantageAnswer> {
        let public = self.evidence.wanted.public;
        self.evidence
            .ca
            .iter()
            .filter(move |answer| public || is_internet(&answer.vantage))
    }

    fn failure(&self) -> Option<ForecastFailure> {
        self.of_the_name()
            .or_else(|| self.at_the_wrong_door())
            .or_else(|| self.without_endpoints())
            .or_else(|| self.at_the_port())
            .or_else(|| self.by_ipv6())
    }

    fn of_the_name(&self) -> Option<ForecastFailure> {
        self.names.problems.iter().find_map(|problem| {
            Some(ForecastFailure {
                cause: ForecastCause::of_the_name(problem.cause)?,
                words: problem.words.clone(),
                theirs: Some(problem.theirs.clone()),
                remedy: problem.remedy.clone(),
            })
        })
    }

    /// The Service behind what a fetch connected to first.
    pub(super) fn entered(&self, answer: &VantageAnswer) -> Option<&ServiceKey> {
        let first = answer
            .sight
            .dials
            .iter()
            .find(|dial| !dial.overtaken && dial.failed.is_none())?;
        let service = self.topology.service_of(&Front::tcp(first.address))?;
        Some(&service.key)
    }

    /// A controller may have several Services, as one for the inside: those that lead to the same pods are all its own.
    fn is_the_controllers(&self, entered: &ServiceKey) -> bool {
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

    fn at_the_wrong_door(&self) -> Option<ForecastFailure> {
        if self.controllers.is_empty() {
            return None;
        }
        let wrong = self
            .as_the_ca()
            .filter_map(|answer| self.entered(answer))
            .find(|entered| !self.is_the_controllers(entered))?;
        let right: Vec<String> = self.controllers.iter().map(ToString::to_string).collect();
        let solver = self
            .subject
            .approach
            .as_ref()
            .map_or_else(Clone::clone, SolverRoute::words);
        Some(ForecastFailure {
            cause: ForecastCause::WrongController,
            words: format!(
                "the name leads to {wrong}, and {solver} is served by {}: nobody there knows the solver's route",
                right.join(", ")
            ),
            theirs: None,
            remedy: "let the issuer's solver name the class or Gateway that the name leads to, or let the name lead there"
                .to_owned(),
        })
    }

    /// Nobody is there to answer, whichever way leads there.
    fn without_endpoints(&self) -> Option<ForecastFailure> {
        let mut services = BTreeSet::new();
        for answer in self.as_the_ca() {
            if !answer.outcome.is_failure() {
                return None;
            }
            let last = answer.sight.dials.iter().rfind(|dial| !dial.overtaken)?;
            let service = self.topology.service_of(&Front::tcp(last.address))?;
            if !service.usable().is_empty() {
                return None;
            }
            services.insert(service.key.to_string());
        }
        let services: Vec<String> = services.into_iter().collect();
        (!services.is_empty()).then(|| ForecastFailure {
            cause: ForecastCause::NoEndpoints,
            words: format!(
                "the name leads to {}, which has no endpoint that is ready",
                services.join(", ")
            ),
            theirs: None,
            remedy: "let the ingress controller's pods become ready".to_owned(),
        })
    }

    /// Nobody on the internet gets through to port 80.
    fn at_the_port(&self) -> Option<ForecastFailure> {
        let mut refused = true;
        let mut first = None;
        for answer in self
            .evidence
            .ca
            .iter()
            .filter(|answer| is_internet(&answer.vantage))
        {
            match &answer.outcome {
                Outcome::Failed {
                    phase: Phase::Connect,
                    kind: kind @ (FailureKind::Refused | FailureKind::ConnectTimeout),
                    ..
                } if answer.sight.hops.is_empty() => {
                    refused &= *kind == FailureKind::Refused;
                    first = first.or(Some((answer, kind)));
                }
                Outcome::NotAsked { .. } => {}
                _ => return None,
            }
        }
        let (answer, kind) = first?;
        let at = answer.sight.dials.iter().rfind(|dial| !dial.overtaken);
        let at = at.map_or_else(String::new, |dial| format!(" at {}", dial.address));
        Some(ForecastFailure {
            cause: if refused {
                ForecastCause::PortRefused
            } else {
                ForecastCause::PortSilent
            },
            words: format!("from the internet ({}) port 80 does not open: {}{at}", answer.vantage, kind.words()),
            theirs: self.says(answer),
            remedy: "open port 80 for everybody on the way to the ingress controller: the CA's addresses are not published"
                .to_owned(),
        })
    }

    /// Everybody on the internet connects by IPv6 and hears nothing, whatever would be asked for.
    fn by_ipv6(&self) -> Option<ForecastFailure> {
        let mut first = None;
        for answer in self
            .evidence
            .ca
            .iter()
            .filter(|answer| is_internet(&answer.vantage))
        {
            let last = answer.sight.dials.iter().rfind(|dial| !dial.overtaken);
            match (&answer.outcome, last) {
                (
                    Outcome::Failed {
                        phase: Phase::FirstByte,
                        kind: kind @ (FailureKind::Eof | FailureKind::Reset | FailureKind::FirstByteTimeout),
                        ..
                    },
                    Some(dial),
                ) if dial.address.is_ipv6() && dial.failed.is_none() && answer.sight.hops.is_empty() => {
                    first = first.or(Some((answer, kind, dial)));
                }
                (Outcome::NotAsked { .. }, _) => {}
                _ => return None,
            }
        }
        let (answer, kind, dial) = first?;
        Some(ForecastFailure {
            cause: ForecastCause::AaaaUnserved,
            words: format!(
                "{} takes connections and does not answer ({}), and the CA goes by IPv4 only where it cannot connect",
                dial.address.ip(),
                kind.words()
            ),
            theirs: self.says(answer),
            remedy: "serve port 80 on the IPv6 address, or remove the AAAA record".to_owned(),
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/.well-known/acme-challenge/…", self.subject.host)
    }

    fn says(&self, answer: &VantageAnswer) -> Option<String> {
        authority_says(
            ChallengeClient::Boulder,
            &answer.outcome,
            &answer.sight,
            &self.url(),
        )
        .map(|(problem, detail)| format!("{problem}: {detail}"))
    }
}

pub(super) const fn is_internet(vantage: &Vantage) -> bool {
    matches!(
        vantage,
        Vantage::Outside {
            reach: Reach::Internet,
            ..
        }
    )
}
