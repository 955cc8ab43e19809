//! The words of a verdict: who fails, how, and what each row of the table is about.

use std::collections::BTreeSet;

use parallax_model::{Channel, Front, KindClass, Placement};

use super::{Desk, NAMES};
use crate::{
    causes::{self, Situation},
    judge::{Finding, Unit},
    region::{Region, RegionKind},
    slow::Step,
};

impl Desk<'_> {
    pub(super) fn sentence(
        &self,
        finding: &Finding,
        situation: &Situation<'_>,
        ranked: &[(&causes::Cause, f64)],
    ) -> String {
        let who = self.who(finding);
        let delay = self.unit.is_slow().then(|| self.delay());
        let fails = delay.as_deref().unwrap_or_else(|| fails(situation));
        let mechanism = ranked
            .first()
            .map(|(cause, _)| format!(": {}", (cause.mechanism)(situation)))
            .unwrap_or_default();
        let tie = if finding.class.len() > 1 {
            let others: Vec<String> = finding
                .class
                .iter()
                .filter(|r| **r != finding.region)
                .map(|r| r.describe(self.world).to_string())
                .collect();
            format!(" (cannot be told from {})", listed(&others))
        } else {
            String::new()
        };
        // Two digits would round to certainty, which no evidence gives.
        let probability = if finding.probability > 0.99 {
            "over 0.99".to_owned()
        } else {
            format!("{:.2}", finding.probability)
        };
        let by = match (
            situation.own_node_answers && finding.region == Region::NoLocal,
            fails,
        ) {
            (false, _) => "",
            (true, "are refused") => " by their own node",
            (true, _) => " at their own node",
        };
        format!("{who} {fails}{by}{mechanism}, {probability}{tie}")
    }

    /// How slow, against what.
    fn delay(&self) -> String {
        let what = match self.unit.plain() {
            Unit::Dns => "wait for answers to their questions",
            Unit::Target(_) => "wait for the first byte",
            _ => "wait for their connections",
        };
        match self.step {
            Some(Step {
                took,
                usual: Some(usual),
            }) => format!("{what}: up to {took} instead of {usual}"),
            Some(Step { took, usual: None }) => format!("{what}: up to {took}"),
            None => what.to_owned(),
        }
    }

    /// Who fails, where.
    fn who(&self, finding: &Finding) -> String {
        let subject = self.subject(finding.region);
        let members = finding.region.describe(self.world).members;
        let clients = || {
            let names: BTreeSet<String> = finding
                .failing
                .iter()
                .map(|c| {
                    self.world
                        .vantages
                        .name(*c)
                        .node()
                        .map_or_else(|| self.world.vantages.name(*c).to_string(), ToString::to_string)
                })
                .collect();
            listed(&names.into_iter().collect::<Vec<_>>())
        };
        match (finding.region.kind(), members.as_slice()) {
            (RegionKind::NoLocal, _) => {
                let what = self.endpoint_word();
                format!("clients of {subject} on nodes without {what} ({})", clients())
            }
            (RegionKind::Client, [node]) => format!("all probes from node {node}"),
            (RegionKind::ClientVip, [node]) => format!("clients of {subject} on node {node}"),
            (RegionKind::Backend, [pod]) => format!("clients of {subject} that reach endpoint {pod}"),
            (RegionKind::Bnode, [node]) => format!("all probes to node {node}"),
            (RegionKind::BnodeRemote, [node]) => format!("probes from other nodes to node {node}"),
            (RegionKind::Pair | RegionKind::Zone, [from, to]) => format!("probes from {from} to {to}"),
            (RegionKind::Cross, _) => "probes between nodes".to_owned(),
            (RegionKind::Same, _) => "probes within a node".to_owned(),
            (RegionKind::SameVip, _) => {
                format!(
                    "clients of {subject} next to the endpoint that answers them ({})",
                    clients()
                )
            }
            (RegionKind::SelfPod | RegionKind::SelfVip, _) => {
                format!("clients of {subject} that reach themselves")
            }
            (RegionKind::DnsClient, [node]) => format!("names asked from node {node}"),
            (RegionKind::DnsAll, _) => "names asked from every node".to_owned(),
            (RegionKind::DnsName, [name]) => format!("questions for {name}"),
            (RegionKind::LbOwnNode, _) => {
                format!(
                    "clients of {subject} that the balancer hands back to their own node ({})",
                    clients()
                )
            }
            (RegionKind::OutsideFrontNode, _) => format!(
                "clients of {subject} outside the cluster ({}) that the balancer sends to a node without {}",
                clients(),
                self.endpoint_word()
            ),
            (RegionKind::OutsideAll, _) => {
                format!("clients of {subject} outside the cluster ({})", clients())
            }
            (RegionKind::Vip | RegionKind::ProtoVip, _) => {
                format!(
                    "clients of {subject} on every node ({}), though its endpoints answer,",
                    clients()
                )
            }
            _ => format!("clients of {subject} ({})", clients()),
        }
    }

    /// "an ingress pod" where the Service is an ingress controller's, as far as its targets tell; else "an endpoint".
    fn endpoint_word(&self) -> &'static str {
        let service = self
            .front
            .as_ref()
            .and_then(|f| self.topology.front(f))
            .map(|i| &i.service);
        let hosts = self
            .targets
            .iter()
            .filter(|t| {
                let placed = self.topology.targets().get(*t);
                placed.is_some_and(|p| p.dial.is_none() && p.entry.as_ref().map(|(s, _)| s) == service)
            })
            .count();
        if hosts > 0 {
            "an ingress pod"
        } else {
            "an endpoint"
        }
    }

    pub(super) fn row_words(
        &self,
        channel: Channel,
        predicted: bool,
        placement: Option<Placement>,
        region: Region,
        sibling: Option<Front>,
    ) -> String {
        let members = region.describe(self.world).members;
        let what = self.endpoint_word();
        let via = match (channel, sibling.or(self.front)) {
            (Channel::Vip | Channel::NodePort, Some(front)) => {
                let kind = self.topology.front(&front).map(|i| i.kind);
                match (kind, self.topology.machine(&front)) {
                    (Some(crate::topology::FrontKind::ClusterIp), _) => {
                        format!("through the cluster address {front}")
                    }
                    (_, Some(node)) => format!("through {front} of node {node}"),
                    _ => format!("through {front}"),
                }
            }
            (Channel::Vip | Channel::NodePort, None) => "through the fronts".to_owned(),
            (Channel::Proxied, _) => "through the front with a PROXY header".to_owned(),
            (Channel::Direct, _) => "directly to the endpoints".to_owned(),
            (Channel::Mesh, _) => "between probers".to_owned(),
            (Channel::Dns, _) => "names".to_owned(),
        };
        let part = match (region.kind(), members.as_slice(), predicted) {
            (RegionKind::Client | RegionKind::ClientVip | RegionKind::DnsClient, [node], true) => {
                format!(" from node {node}")
            }
            (RegionKind::Client | RegionKind::ClientVip | RegionKind::DnsClient, [node], false)
                if sibling.is_none() =>
            {
                format!(" apart from those of {node} that concern it")
            }
            (RegionKind::Backend, [pod], true) => format!(" to {pod}"),
            (RegionKind::Backend, [pod], false) if sibling.is_none() => format!(" to others than {pod}"),
            (RegionKind::Bnode | RegionKind::BnodeRemote, [node], true) => format!(" to node {node}"),
            (RegionKind::Bnode | RegionKind::BnodeRemote, [node], false) if sibling.is_none() => {
                format!(" to other nodes than {node}")
            }
            (RegionKind::Pair | RegionKind::Zone, [from, to], true) => format!(" from {from} to {to}"),
            (RegionKind::Pair | RegionKind::Zone, _, false) if sibling.is_none() => {
                " on other paths".to_owned()
            }
            (RegionKind::DnsName, [name], true) => format!(" {name}"),
            _ => String::new(),
        };
        let place = match placement {
            Some(Placement::NoLocal) => format!(" from nodes without {what}"),
            Some(Placement::SameNode) => format!(" from nodes with {what}, answered there"),
            Some(Placement::CrossNode) => format!(" from nodes with {what}, answered by another node"),
            Some(Placement::Unknown) => format!(" from nodes with {what}"),
            Some(Placement::Outside) => " from outside the cluster".to_owned(),
            Some(Placement::SelfPod) | None => String::new(),
        };
        format!("{via}{part}{place}")
    }
}

/// What happens to the failing, by the most frequent class.
fn fails(situation: &Situation<'_>) -> &'static str {
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
        KindClass::Reset => "are cut off",
        KindClass::Unreachable => "find no route",
        KindClass::Stall => "stall",
        KindClass::Tls => "fail in the TLS handshake",
        KindClass::Http4xx => "get a wrong answer",
        KindClass::Http5xx => "get a server error",
        KindClass::NxDomain => "are told that the name does not exist",
        KindClass::ServFail => "get no answer from the resolver",
    }
}

/// "n2", "n2 and n3", "n2, n3 and 4 more".
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        _ if names.len() <= NAMES => {
            let (last, rest) = names.split_last().map_or(("", &[][..]), |(l, r)| (l.as_str(), r));
            format!("{} and {last}", rest.join(", "))
        }
        _ => format!("{} and {} more", names[..NAMES].join(", "), names.len() - NAMES),
    }
}
