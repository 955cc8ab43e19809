//! From a finding to what people read: the sentence, the table, who answered, what was ruled out and what to do.

mod table;
mod words;

use std::collections::BTreeSet;

use parallax_model::{Front, Probability, TtlEvidence, Vantage};

use crate::{
    causes::{self, Situation},
    cells::RoundCells,
    ids::{World, class_position},
    judge::{Finding, Judgement, Unit},
    kinds::Profile,
    region::{Region, alpha},
    scene::Scene,
    separate,
    slow::Step,
    topology::{Service, Topology},
    verdict::{Fact, Subject, Verdict},
    weights::probes,
};

/// What asked probes have to say to a verdict.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    pub(crate) ways: separate::Ways,
    pub(crate) decided_by: Option<String>,
    pub(crate) answers: Vec<String>,
}

/// What a verdict is written from.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) world: &'a World,
    pub(crate) scene: &'a Scene,
    pub(crate) unit: &'a Unit,
    /// The front that clients of the unit connect to.
    pub(crate) front: Option<Front>,
    /// The Service whose endpoints they reach.
    pub(crate) service: Option<&'a Service>,
    /// Cells of the other fronts of the same Service, since the window began.
    pub(crate) siblings: Vec<(Front, RoundCells)>,
    /// Cells of all fronts and their endpoints, for findings about nodes.
    pub(crate) everywhere: Option<RoundCells>,
    /// Who answered for the front's address, by vantage.
    pub(crate) ttl: Vec<(Vantage, TtlEvidence)>,
    /// How slow and against what, where slowness is judged.
    pub(crate) step: Option<Step>,
    /// What was asked beyond the plan, and what it decided.
    pub(crate) asked: Asked,
    pub(crate) facts: Vec<Fact>,
    pub(crate) targets: Vec<parallax_model::TargetId>,
}

/// Rows of a sentence list at most this many names.
const NAMES: usize = 6;

pub(crate) use words::listed;

impl Desk<'_> {
    pub(crate) fn verdict(&self, judgement: &Judgement, finding: &Finding) -> Verdict {
        let region = finding.region;
        let locality = self.locality(finding);
        let situation = self.situation(judgement, finding, &locality);
        let mut ranked = causes::rank(region.kind(), &situation);
        if self.unit.is_slow() {
            // Most causes break; few delay.
            ranked.retain(|(cause, _)| causes::DELAYING.contains(&cause.id));
        }
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
            separating: separate::separating(finding, &self.asked.ways, self.world),
            decided_by: self.asked.decided_by.clone(),
            answers: self.asked.answers.clone(),
            facts: self
                .facts
                .iter()
                .cloned()
                .chain(causes::moved(region.kind(), &situation))
                .collect(),
            remedies: causes::remedies(&ranked, &situation),
            not_excluded: causes::unseen::by_verdict(region.kind(), &situation, self.scene),
            targets: self.targets.clone(),
        }
    }

    fn situation(&self, judgement: &Judgement, finding: &Finding, locality: &Locality) -> Situation<'_> {
        let info = self.front.as_ref().and_then(|f| self.topology.front(f));
        Situation {
            topology: self.topology,
            info,
            service: self.service,
            origin: self.origin(),
            members: finding.region.describe(self.world).members,
            kinds: self.kinds_inside(&judgement.case.cells, finding.region),
            own_node_answers: locality.own_node_answers,
        }
    }

    /// The Service behind a route, where one target is judged.
    fn origin(&self) -> Option<&Service> {
        let (Unit::Target(target) | Unit::Whole(target)) = self.unit.plain() else {
            return None;
        };
        let placed = self.topology.targets().get(target)?;
        self.topology.service(placed.origin.as_ref()?)
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
            Region::Client(n) | Region::Bnode(n) | Region::BnodeRemote(n) | Region::DnsClient(n) => {
                Subject::Node(self.world.nodes.name(n).clone())
            }
            Region::Pair(..) | Region::Zone(..) | Region::Cross => Subject::Network,
            Region::DnsAll => Subject::Name("every name".to_owned()),
            Region::DnsName(name) => Subject::Name(self.world.names.name(name).clone()),
            _ => match self.unit.plain() {
                Unit::Front(front) => Subject::Front(*front),
                Unit::Endpoints(service, _) => Subject::Service(service.clone()),
                Unit::Target(target) | Unit::Whole(target) => Subject::Target(target.clone()),
                Unit::Mesh | Unit::Dns | Unit::Slow(_) => Subject::Network,
            },
        }
    }

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
