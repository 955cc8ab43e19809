//! From a finding to what people read: the sentence, the table, who answered, what was ruled out and what to do.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, Front, KindClass, Placement, Probability, TtlEvidence, Vantage};

use crate::{
    causes::{self, Situation},
    cells::{CellKey, Counts, Dest, RoundCells},
    ids::{World, class_position},
    judge::{Finding, Judgement, Unit},
    kinds::Profile,
    region::{Region, RegionKind, alpha},
    scene::Scene,
    separate,
    topology::Topology,
    verdict::{EvidenceRow, Fact, RuledOut, Subject, Verdict},
    weights::{probes, whole},
};

/// What a verdict is written from.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) world: &'a World,
    pub(crate) scene: &'a Scene,
    pub(crate) unit: &'a Unit,
    /// The front that clients of the unit connect to.
    pub(crate) front: Option<Front>,
    /// Cells of the other fronts of the same Service, since the window began.
    pub(crate) siblings: Vec<(Front, RoundCells)>,
    /// Cells of all fronts and their endpoints, for findings about nodes.
    pub(crate) everywhere: Option<RoundCells>,
    /// Who answered for the front's address, by vantage.
    pub(crate) ttl: Vec<(Vantage, TtlEvidence)>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) targets: Vec<parallax_model::TargetId>,
}

/// Rows of a sentence list at most this many names.
const NAMES: usize = 6;
/// Regions that are listed as ruled out.
const RULED_OUT: usize = 6;

impl Desk<'_> {
    pub(crate) fn verdict(&self, judgement: &Judgement, finding: &Finding) -> Verdict {
        let region = finding.region;
        let locality = self.locality(finding);
        let situation = self.situation(judgement, finding, &locality);
        let ranked = causes::rank(region.kind(), &situation);
        let mut evidence = self.rows(&judgement.case.cells, region, None);
        for (front, cells) in &self.siblings {
            evidence.extend(self.rows(cells, region, Some(*front)));
        }
        if let Some(cells) = &self.everywhere {
            evidence.extend(self.rows(cells, region, None));
        }
        // A posterior lies between 0 and 1.
        let probability = Probability::new(finding.probability).unwrap_or_default();
        Verdict {
            subject: self.subject(region),
            region: region.describe(self.world),
            class: finding.class.iter().map(|r| r.describe(self.world)).collect(),
            probability,
            sentence: self.sentence(finding, &situation, &ranked),
            causes: causes::named(&ranked),
            evidence,
            locality: locality.lines,
            ruled_out: self.ruled_out(judgement, finding),
            separating: separate::separating(finding, self.world),
            facts: self.facts.clone(),
            remedies: causes::remedies(&ranked, &situation),
            targets: self.targets.clone(),
        }
    }

    fn situation(&self, judgement: &Judgement, finding: &Finding, locality: &Locality) -> Situation<'_> {
        let info = self.front.as_ref().and_then(|f| self.topology.fronts().get(f));
        Situation {
            topology: self.topology,
            front: self.front,
            info,
            service: self.front.as_ref().and_then(|f| self.topology.service_of(f)),
            members: finding.region.describe(self.world).members,
            failing: finding
                .failing
                .iter()
                .map(|c| self.world.vantages.name(*c).to_string())
                .collect(),
            kinds: self.kinds_inside(&judgement.case.cells, finding.region),
            own_node_answers: locality.own_node_answers,
        }
    }

    /// Failures inside a region by class.
    fn kinds_inside(&self, cells: &RoundCells, region: Region) -> Profile {
        let mut sums = Profile::default();
        for (key, counts) in cells {
            if alpha(&[region], key, self.scene).is_zero() {
                continue;
            }
            for ((kind, status), (weight, _)) in &counts.kinds {
                sums[class_position(self.world.class_of(*kind, *status))] += probes(*weight);
            }
        }
        sums
    }

    fn subject(&self, region: Region) -> Subject {
        match region {
            Region::Client(n)
            | Region::Bnode(n)
            | Region::BnodeRemote(n)
            | Region::DnsClient(n) => Subject::Node(self.world.nodes.name(n).clone()),
            Region::Pair(..) | Region::Zone(..) | Region::Cross => Subject::Network,
            Region::DnsAll => Subject::Name("every name".to_owned()),
            Region::DnsName(name) => Subject::Name(self.world.names.name(name).clone()),
            _ => match self.unit {
                Unit::Front(front) => Subject::Front(*front),
                Unit::Target(target) | Unit::Whole(target) => Subject::Target(target.clone()),
                Unit::Mesh | Unit::Dns => Subject::Network,
            },
        }
    }

    fn sentence(&self, finding: &Finding, situation: &Situation<'_>, ranked: &[(&causes::Cause, f64)]) -> String {
        let who = self.who(finding);
        let fails = fails(situation);
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
        let by = if situation.own_node_answers && finding.region == Region::NoLocal {
            " by their own node"
        } else {
            ""
        };
        format!("{who} {fails}{by}{mechanism}, {probability}{tie}")
    }

    /// Who fails, where.
    fn who(&self, finding: &Finding) -> String {
        let subject = self.subject(finding.region);
        let members = finding.region.describe(self.world).members;
        let clients = || {
            let names: BTreeSet<String> = finding
                .failing
                .iter()
                .map(|c| self.world.vantages.name(*c).node().map_or_else(
                    || self.world.vantages.name(*c).to_string(),
                    ToString::to_string,
                ))
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
                format!("clients of {subject} next to the endpoint that answers them ({})", clients())
            }
            (RegionKind::SelfPod | RegionKind::SelfVip, _) => format!("clients of {subject} that reach themselves"),
            (RegionKind::DnsClient, [node]) => format!("names asked from node {node}"),
            (RegionKind::DnsAll, _) => "names asked from every node".to_owned(),
            (RegionKind::DnsName, [name]) => format!("questions for {name}"),
            (RegionKind::OutsideAll, _) => format!("clients of {subject} outside the cluster ({})", clients()),
            (RegionKind::Vip | RegionKind::ProtoVip, _) => {
                format!("clients of {subject} on every node ({}), though its endpoints answer,", clients())
            }
            _ => format!("clients of {subject} ({})", clients()),
        }
    }

    /// "an ingress pod" where the Service is an ingress controller's, as far as its targets tell; else "an endpoint".
    fn endpoint_word(&self) -> &'static str {
        let service = self.front.as_ref().and_then(|f| self.topology.fronts().get(f)).map(|i| &i.service);
        let hosts = self
            .targets
            .iter()
            .filter(|t| {
                let placed = self.topology.targets().get(*t);
                placed.is_some_and(|p| p.dial.is_none() && p.entry.as_ref().map(|(s, _)| s) == service)
            })
            .count();
        if hosts > 0 { "an ingress pod" } else { "an endpoint" }
    }

    // === the table ===

    /// Rows by channel and by whether the region predicts failure; fronts by placement too.
    fn rows(&self, cells: &RoundCells, region: Region, sibling: Option<Front>) -> Vec<EvidenceRow> {
        let mut rows: BTreeMap<(Channel, bool, Option<Placement>), Counts> = BTreeMap::new();
        for (key, counts) in cells {
            let predicted = sibling.is_none() && !alpha(&[region], key, self.scene).is_zero();
            let placement = self.placement(key, region);
            rows.entry((key.channel, !predicted, placement)).or_default().add(counts);
        }
        rows.into_iter()
            .map(|((channel, unpredicted, placement), counts)| EvidenceRow {
                who: self.row_words(channel, !unpredicted, placement, region, sibling),
                channel,
                placement,
                probes: whole(counts.seen_n),
                failures: whole(counts.seen_f),
                kinds: self.kind_list(&counts),
                predicted: !unpredicted,
            })
            .collect()
    }

    /// Placement matters for probes through an address, and for those of regions that placement defines.
    fn placement(&self, key: &CellKey, region: Region) -> Option<Placement> {
        if !matches!(key.channel, Channel::Vip | Channel::Proxied | Channel::NodePort) {
            return None;
        }
        let node = match self.scene.node_of_client(key.client) {
            None => return Some(Placement::Outside),
            Some(node) => node,
        };
        if self.scene.local.is_empty() {
            return None;
        }
        if !self.scene.local.contains(&node) {
            return Some(Placement::NoLocal);
        }
        let by_answer = matches!(
            region.kind(),
            RegionKind::Same | RegionKind::SameVip | RegionKind::Cross | RegionKind::SelfPod | RegionKind::SelfVip
        );
        let entry_node = match key.dest {
            Dest::Entry(pod) => self.scene.pod_nodes.get(&pod).copied(),
            _ => {
                let eligible = self.scene.eligible(key.client);
                let all_local = !eligible.is_empty()
                    && eligible.iter().all(|pod| self.scene.pod_nodes.get(pod) == Some(&node));
                all_local.then_some(node)
            }
        };
        match entry_node {
            Some(entry) if entry == node => Some(Placement::SameNode),
            Some(_) => Some(Placement::CrossNode),
            None if by_answer => Some(Placement::Unknown),
            None => Some(Placement::Unknown),
        }
    }

    fn row_words(
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
                let kind = self.topology.fronts().get(&front).map(|i| i.kind);
                match kind {
                    Some(crate::topology::FrontKind::ClusterIp) => format!("through the cluster address {front}"),
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
            (RegionKind::Pair | RegionKind::Zone, _, false) if sibling.is_none() => " on other paths".to_owned(),
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

    fn kind_list(&self, counts: &Counts) -> Vec<(String, u64)> {
        let mut by_label: BTreeMap<String, u64> = BTreeMap::new();
        for ((kind, status), (_, seen)) in &counts.kinds {
            let kind = self.world.kinds.name(*kind);
            let label = match status {
                Some(status) => format!("{kind} {status}"),
                None => kind.to_string(),
            };
            *by_label.entry(label).or_default() += seen;
        }
        let mut list: Vec<(String, u64)> = by_label
            .into_iter()
            .map(|(label, seen)| (label, whole(seen).max(1)))
            .collect();
        list.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        list
    }

    // === what was ruled out ===

    fn ruled_out(&self, judgement: &Judgement, finding: &Finding) -> Vec<RuledOut> {
        let mut scored: Vec<_> = judgement
            .posterior
            .scored
            .iter()
            .filter(|s| s.region != Region::Healthy && s.p < 0.05 && !finding.class.contains(&s.region))
            .filter(|s| !judgement.findings.iter().any(|f| f.class.contains(&s.region)))
            .filter(|s| self.failures_in(&judgement.case.cells, s.region) > 0)
            .collect();
        scored.sort_by(|a, b| {
            b.score().total_cmp(&a.score()).then(a.region.cmp(&b.region))
        });
        let mut kinds = BTreeSet::new();
        scored
            .into_iter()
            .filter(|s| kinds.insert(s.region.kind()))
            .take(RULED_OUT)
            .map(|s| RuledOut {
                region: s.region.describe(self.world),
                because: self.against(&judgement.case.cells, s.region, finding.region),
            })
            .collect()
    }

    fn failures_in(&self, cells: &RoundCells, region: Region) -> u64 {
        cells
            .iter()
            .filter(|(key, counts)| counts.f > 0 && !alpha(&[region], key, self.scene).is_zero())
            .map(|(_, counts)| counts.seen_f)
            .sum()
    }

    /// Successes it would have to break, by channel, and failures it would leave unexplained.
    fn against(&self, cells: &RoundCells, region: Region, named: Region) -> String {
        let mut inside: BTreeMap<Channel, (u64, u64)> = BTreeMap::new();
        let mut outside = 0;
        for (key, counts) in cells {
            let share = alpha(&[region], key, self.scene).get();
            if share >= 0.5 && alpha(&[named], key, self.scene).is_zero() {
                let sum = inside.entry(key.channel).or_default();
                sum.0 += counts.seen_n;
                sum.1 += counts.seen_f;
            } else if share <= 0.0 {
                outside += counts.seen_f;
            }
        }
        let mut reasons: Vec<String> = inside
            .into_iter()
            .filter(|(_, (n, f))| n > f)
            .map(|(channel, (n, f))| format!("{} of {} {channel} probes it would break succeed", whole(n - f), whole(n)))
            .collect();
        if whole(outside) > 0 {
            reasons.push(format!("{} failures lie outside of it", whole(outside)));
        }
        if reasons.is_empty() {
            "it fits the counts less well".to_owned()
        } else {
            reasons.join("; ")
        }
    }

    // === who answered ===

    fn locality(&self, finding: &Finding) -> Locality {
        let failing: BTreeSet<&Vantage> = finding
            .failing
            .iter()
            .map(|c| self.world.vantages.name(*c))
            .collect();
        let mut lines = Vec::new();
        let (mut own, mut asked) = (0, 0);
        for (vantage, evidence) in self.ttl.iter().filter(|(v, _)| failing.contains(v)).take(NAMES) {
            asked += 1;
            own += u32::from(evidence.untouched());
            let says = if evidence.untouched() {
                "an untouched TTL of"
            } else {
                "a TTL of"
            };
            let so = if evidence.untouched() {
                ": the client's own node answers"
            } else {
                ": the answer crossed a router"
            };
            lines.push(format!(
                "{} answers {vantage} (failing) with {says} {}{so}",
                evidence.address, evidence.ttl
            ));
        }
        for (vantage, evidence) in self.ttl.iter().filter(|(v, _)| !failing.contains(v)).take(2) {
            let so = if evidence.untouched() {
                ": its own node answers too, and has somewhere to send it"
            } else {
                ": the answer crossed a router"
            };
            lines.push(format!(
                "{} answers {vantage} (passing) with a TTL of {}{so}",
                evidence.address, evidence.ttl
            ));
        }
        Locality {
            lines,
            own_node_answers: asked > 0 && own == asked,
        }
    }
}

struct Locality {
    lines: Vec<String>,
    own_node_answers: bool,
}

/// What happens to the failing, by the most frequent class.
fn fails(situation: &Situation<'_>) -> &'static str {
    let share = |class| situation.share(&[class]);
    let (class, most) = KindClass::ALL
        .iter()
        .map(|c| (*c, share(*c)))
        .fold((KindClass::Timeout, 0.0), |best, next| if next.1 > best.1 { next } else { best });
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
