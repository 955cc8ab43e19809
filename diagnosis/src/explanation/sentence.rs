//! The sentence of a verdict: who fails, how and why.

use std::collections::BTreeSet;

use parallax_model::{FailureKind, KindClass};

use super::VerdictContext;
use crate::{
    catalogue::{
        Cause, CauseContext, Claim, Clause, Wording, join_clauses,
        table::{PredictedFailure, TablePart},
    },
    evidence::latency::LatencyStep,
    inference::{judgement::ExplainedRegion, judgement_unit::JudgementUnit},
    regions::{Region, RegionKind},
    wording::join_names,
};

impl VerdictContext<'_> {
    pub(super) fn sentence(
        &self,
        finding: &ExplainedRegion,
        situation: &CauseContext<'_>,
        ranked: &[(&Cause, f64)],
    ) -> String {
        join_clauses(&self.clauses(finding, situation, ranked.first().map(|(cause, _)| *cause)))
    }

    /// The clauses of the sentence.
    pub(super) fn clauses(
        &self,
        finding: &ExplainedRegion,
        situation: &CauseContext<'_>,
        cause: Option<&Cause>,
    ) -> Vec<Clause> {
        let mut clauses = self.failing_clients(finding, situation);
        clauses.push(Clause::clause_without_claims(format!(
            " {}",
            self.symptom(finding, situation)
        )));
        let mechanism = cause.map_or_else(Vec::new, |cause| (cause.mechanism)(situation));
        if !mechanism.is_empty() {
            clauses.push(Clause::clause_without_claims(": ".to_owned()));
            clauses.extend(mechanism);
        }
        clauses
    }

    /// The symptom of the failing clients.
    fn symptom(&self, finding: &ExplainedRegion, situation: &CauseContext<'_>) -> String {
        if situation.is_latency {
            return self.latency_clause();
        }
        let fails = failure_symptom(situation);
        let by = match (
            situation.own_node_answers && finding.region == Region::NoLocal,
            fails,
        ) {
            (false, _) => "",
            (true, "are refused") => " by their own node",
            (true, _) => " at their own node",
        };
        let sure = situation
            .table
            .sum(|key| key.part == TablePart::Own && key.prediction == PredictedFailure::Certain);
        let seldom = if sure.some_fail() && sure.failures * 2 <= sure.probes {
            " intermittently"
        } else {
            ""
        };
        format!("{fails}{by}{seldom}")
    }

    /// The latency compared with the usual one.
    fn latency_clause(&self) -> String {
        let symptom = match self.unit.without_latency() {
            JudgementUnit::Dns => "wait for DNS responses",
            JudgementUnit::Target(_) => "wait for the first byte",
            _ => "wait for connections to open",
        };
        match self.latency_step {
            Some(LatencyStep {
                duration: took,
                median: Some(usual),
            }) => format!("{symptom} (up to {took} instead of {usual})"),
            Some(LatencyStep {
                duration: took,
                median: None,
            }) => format!("{symptom} (up to {took})"),
            None => symptom.to_owned(),
        }
    }

    /// The failing clients and their location.
    fn failing_clients(&self, finding: &ExplainedRegion, situation: &CauseContext<'_>) -> Vec<Clause> {
        let subject = self.subject(finding.region);
        let members = finding.region.describe(self.registry).members;
        let name = |client: &crate::ids::VantageIx| {
            let vantage = self.registry.vantages.name(*client);
            vantage
                .node()
                .map_or_else(|| vantage.to_string(), ToString::to_string)
        };
        let names: BTreeSet<String> = finding.failing_clients.iter().map(name).collect();
        let clients = join_names(&names.into_iter().collect::<Vec<_>>());
        let wording = Wording::new(situation);
        let wording = match (finding.region.kind(), members.as_slice()) {
            (RegionKind::NoLocal, _) => wording.add(format!(
                "clients of {subject} on nodes without {} ({clients})",
                self.endpoint_word()
            )),
            (RegionKind::Client, [node]) => wording.add_first([
                (
                    &[Claim::MemberReachesOwnPods][..],
                    format!("probes from node {node} to other nodes"),
                ),
                (
                    &[Claim::AllFail, Claim::SeveralChannels],
                    format!("all probes from node {node}"),
                ),
                (&[], format!("probes from node {node}")),
            ]),
            (RegionKind::ClientVip, [node]) => wording.add(format!("clients of {subject} on node {node}")),
            (RegionKind::Backend, [pod]) => {
                let pods = situation.endpoints_text().unwrap_or_else(|| pod.clone());
                wording.add(if situation.perhaps_every_endpoint {
                    format!("clients of {subject}, perhaps only those that reach endpoint {pods},")
                } else {
                    format!("clients of {subject} that reach endpoint {pods}")
                })
            }
            (RegionKind::Bnode, [node]) => wording.add_first([
                (&[Claim::AllFail][..], format!("all probes to node {node}")),
                (&[], format!("probes to node {node}")),
            ]),
            (RegionKind::BnodeRemote, [node]) => {
                wording.add(format!("probes from other nodes to node {node}"))
            }
            (RegionKind::Pair | RegionKind::Zone, [from, to]) => {
                wording.add(format!("probes from {from} to {to}"))
            }
            (RegionKind::NodeLink, [node]) => {
                wording.add(format!("probes between node {node} and other nodes, in both directions,"))
            }
            (RegionKind::Link | RegionKind::ZoneLink, [a, b]) => {
                wording.add(format!("probes between {a} and {b}"))
            }
            (RegionKind::ZoneVip, [zone]) => wording.add(format!("clients of {subject} in zone {zone}")),
            (RegionKind::Cross, _) => wording.add("probes between nodes"),
            (RegionKind::Same, _) => wording.add("probes within a node"),
            (RegionKind::SameVip, _) => wording.add(format!(
                "clients of {subject} on the same node as the endpoint that serves them ({clients})"
            )),
            (RegionKind::SelfPod | RegionKind::SelfVip, _) => {
                wording.add(format!("clients of {subject} that connect to themselves"))
            }
            (RegionKind::DnsClient, [node]) => wording.add(format!("lookups from node {node}")),
            (RegionKind::DnsAll, _) => wording.add_first([
                (
                    &[Claim::EveryClient][..],
                    "lookups from every node".to_owned(),
                ),
                (&[], format!("lookups from {clients}")),
            ]),
            (RegionKind::DnsName, [name]) => wording.add(format!("lookups of {name}")),
            (RegionKind::LbOwnNode, _) => wording.add(format!(
                "clients of {subject} that the load balancer sends back to their own node ({clients})"
            )),
            (RegionKind::OutsideFrontNode, _) => wording.add(format!(
                "clients of {subject} outside the cluster ({clients}) that the load balancer sends to a node without \
                 {}",
                self.endpoint_word()
            )),
            (RegionKind::OutsideAll, _) => {
                wording.add(format!("clients of {subject} outside the cluster ({clients})"))
            }
            (RegionKind::Vip | RegionKind::ProtoVip, _) => wording
                .add_first([
                    (
                        &[Claim::EveryClient][..],
                        format!("clients of {subject} on every node ({clients})"),
                    ),
                    (&[], format!("clients of {subject} ({clients})")),
                ])
                .add_if(&[Claim::EndpointsPass], ", although its endpoints answer,"),
            _ => wording.add(format!("clients of {subject} ({clients})")),
        };
        wording.clauses()
    }
}

impl Clause {
    /// A clause without claims.
    pub(super) const fn clause_without_claims(text: String) -> Self {
        Self {
            text,
            claims: Vec::new(),
        }
    }
}

/// Requirements on the certificate or TLS version that a completed handshake violated.
const TLS_REQUIREMENT_FAILURES: &[FailureKind] = &[
    FailureKind::CertificateExpiresSoon,
    FailureKind::CertificateWrongIssuer,
    FailureKind::TlsTooOld,
];

/// The symptom, by the most frequent failure class.
fn failure_symptom(situation: &CauseContext<'_>) -> &'static str {
    let share = |class| situation.share(&[class]);
    let (class, most) =
        KindClass::ALL
            .iter()
            .map(|c| (*c, share(*c)))
            .fold((KindClass::Timeout, 0.0), |best, next| {
                if next.1 > best.1 { next } else { best }
            });
    if most < 0.5 {
        return "fail";
    }
    match class {
        KindClass::Timeout => "time out",
        KindClass::Refused => "are refused",
        KindClass::Reset => "are disconnected",
        KindClass::Unreachable => "get unreachable errors",
        KindClass::Stall => "stall",
        KindClass::Tls if Claim::MostlyKinds(TLS_REQUIREMENT_FAILURES).holds(situation) => {
            "get a certificate or TLS version that the target does not allow"
        }
        KindClass::Tls => "fail the TLS handshake",
        KindClass::Http4xx => "get an unexpected response",
        KindClass::Http5xx => "get a server error",
        KindClass::NxDomain => "get NXDOMAIN or no address",
        KindClass::ServFail => "get no answer from the resolver",
    }
}
