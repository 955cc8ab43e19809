//! The sentence of a verdict: who fails, how and why.

use std::collections::BTreeSet;

use parallax_model::{FailureKind, KindClass};

use super::VerdictContext;
use crate::{
    catalogue::{
        Cause, CauseContext, Claim, Clause, Wording, joined,
        table::{PredictedFailure, TablePart},
    },
    evidence::latency::LatencyStep,
    inference::{judgement::Finding, unit::JudgementUnit},
    regions::{Region, RegionKind},
    wording::listed,
};

impl VerdictContext<'_> {
    pub(super) fn sentence(
        &self,
        finding: &Finding,
        situation: &CauseContext<'_>,
        ranked: &[(&Cause, f64)],
    ) -> String {
        joined(&self.clauses(finding, situation, ranked.first().map(|(cause, _)| *cause)))
    }

    /// The clauses of the sentence.
    pub(super) fn clauses(
        &self,
        finding: &Finding,
        situation: &CauseContext<'_>,
        cause: Option<&Cause>,
    ) -> Vec<Clause> {
        let mut clauses = self.who(finding, situation);
        clauses.push(Clause::plain(format!(" {}", self.how(finding, situation))));
        let mechanism = cause.map_or_else(Vec::new, |cause| (cause.mechanism)(situation));
        if !mechanism.is_empty() {
            clauses.push(Clause::plain(": ".to_owned()));
            clauses.extend(mechanism);
        }
        clauses
    }

    /// The symptom of the failing clients.
    fn how(&self, finding: &Finding, situation: &CauseContext<'_>) -> String {
        if situation.slow {
            return self.delay();
        }
        let fails = fails(situation);
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
            .sum(|key| key.part == TablePart::Own && key.reach == PredictedFailure::Sure);
        let seldom = if sure.some_fail() && sure.failures * 2 <= sure.probes {
            " intermittently"
        } else {
            ""
        };
        format!("{fails}{by}{seldom}")
    }

    /// The latency compared with the usual one.
    fn delay(&self) -> String {
        let what = match self.unit.plain() {
            JudgementUnit::Dns => "wait for DNS responses",
            JudgementUnit::Target(_) => "wait for the first byte",
            _ => "wait for connections to open",
        };
        match self.step {
            Some(LatencyStep {
                took,
                usual: Some(usual),
            }) => format!("{what} (up to {took} instead of {usual})"),
            Some(LatencyStep { took, usual: None }) => format!("{what} (up to {took})"),
            None => what.to_owned(),
        }
    }

    /// The failing clients and their location.
    fn who(&self, finding: &Finding, situation: &CauseContext<'_>) -> Vec<Clause> {
        let subject = self.subject(finding.region);
        let members = finding.region.describe(self.world).members;
        let name = |client: &crate::ids::VantageIx| {
            let vantage = self.world.vantages.name(*client);
            vantage
                .node()
                .map_or_else(|| vantage.to_string(), ToString::to_string)
        };
        let names: BTreeSet<String> = finding.failing.iter().map(name).collect();
        let clients = listed(&names.into_iter().collect::<Vec<_>>());
        let wording = Wording::of(situation);
        let wording = match (finding.region.kind(), members.as_slice()) {
            (RegionKind::NoLocal, _) => wording.say(format!(
                "clients of {subject} on nodes without {} ({clients})",
                self.endpoint_word()
            )),
            (RegionKind::Client, [node]) => wording.say_first([
                (
                    &[Claim::AllFail, Claim::SeveralChannels][..],
                    format!("all probes from node {node}"),
                ),
                (&[], format!("probes from node {node}")),
            ]),
            (RegionKind::ClientVip, [node]) => wording.say(format!("clients of {subject} on node {node}")),
            (RegionKind::Backend, [pod]) => {
                wording.say(format!("clients of {subject} that reach endpoint {pod}"))
            }
            (RegionKind::Bnode, [node]) => wording.say_first([
                (&[Claim::AllFail][..], format!("all probes to node {node}")),
                (&[], format!("probes to node {node}")),
            ]),
            (RegionKind::BnodeRemote, [node]) => {
                wording.say(format!("probes from other nodes to node {node}"))
            }
            (RegionKind::Pair | RegionKind::Zone, [from, to]) => {
                wording.say(format!("probes from {from} to {to}"))
            }
            (RegionKind::Cross, _) => wording.say("probes between nodes"),
            (RegionKind::Same, _) => wording.say("probes within a node"),
            (RegionKind::SameVip, _) => wording.say(format!(
                "clients of {subject} on the same node as the endpoint that serves them ({clients})"
            )),
            (RegionKind::SelfPod | RegionKind::SelfVip, _) => {
                wording.say(format!("clients of {subject} that connect to themselves"))
            }
            (RegionKind::DnsClient, [node]) => wording.say(format!("lookups from node {node}")),
            (RegionKind::DnsAll, _) => wording.say_first([
                (
                    &[Claim::EveryClient][..],
                    "lookups from every node".to_owned(),
                ),
                (&[], format!("lookups from {clients}")),
            ]),
            (RegionKind::DnsName, [name]) => wording.say(format!("lookups of {name}")),
            (RegionKind::LbOwnNode, _) => wording.say(format!(
                "clients of {subject} that the load balancer sends back to their own node ({clients})"
            )),
            (RegionKind::OutsideFrontNode, _) => wording.say(format!(
                "clients of {subject} outside the cluster ({clients}) that the load balancer sends to a node without \
                 {}",
                self.endpoint_word()
            )),
            (RegionKind::OutsideAll, _) => {
                wording.say(format!("clients of {subject} outside the cluster ({clients})"))
            }
            (RegionKind::Vip | RegionKind::ProtoVip, _) => wording
                .say_first([
                    (
                        &[Claim::EveryClient][..],
                        format!("clients of {subject} on every node ({clients})"),
                    ),
                    (&[], format!("clients of {subject} ({clients})")),
                ])
                .say_if(&[Claim::EndpointsPass], ", although its endpoints answer,"),
            _ => wording.say(format!("clients of {subject} ({clients})")),
        };
        wording.clauses()
    }
}

impl Clause {
    /// A clause without claims.
    pub(super) const fn plain(text: String) -> Self {
        Self {
            text,
            claims: Vec::new(),
        }
    }
}

/// Requirements on the certificate or TLS version that a completed handshake violated.
const DEMANDS: &[FailureKind] = &[
    FailureKind::CertificateExpiresSoon,
    FailureKind::CertificateWrongIssuer,
    FailureKind::TlsTooOld,
];

/// The symptom, by the most frequent failure class.
fn fails(situation: &CauseContext<'_>) -> &'static str {
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
        KindClass::Tls if Claim::Of(DEMANDS).holds(situation) => {
            "get a certificate or TLS version that the target does not allow"
        }
        KindClass::Tls => "fail the TLS handshake",
        KindClass::Http4xx => "get an unexpected response",
        KindClass::Http5xx => "get a server error",
        KindClass::NxDomain => "get NXDOMAIN or no address",
        KindClass::ServFail => "get no answer from the resolver",
    }
}
