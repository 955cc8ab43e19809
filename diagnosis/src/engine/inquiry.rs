//! On-demand probes: what is still open after a round, which probes would settle it, and what their results decided.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use parallax_model::{AssignmentId, Channel, EventTime, Front, Round, TargetId};

use super::Engine;
use crate::{
    evidence::{
        block::{CellBlock, EvidenceKind},
        cells::{CellCounts, CellKey, Destination, RoundCells},
        ledger::OutcomeSplit,
    },
    explanation::{RequestedProbes, separation::SeparatingProbes},
    inference::{
        judgement::{FailingCells, Finding, Judgement, judge},
        likelihood::Likelihood,
        prior::PriorFact,
        unit::JudgementUnit,
    },
    regions::{Region, share::alpha},
    requests::{
        ASIDE, ExplanationWeights, ProbeCapabilities, ProbeRequest, ProbeRequests, ProbeRoute, ProbeVariant,
        RequestDestination, WantedProbe, by_kinds, candidates, choose, decided_by, follow_ups, why_not,
    },
};

/// Maximum number of subjects that request probes in one round; more failing subjects share a few common causes.
const SUBJECTS: usize = 64;
/// Below this probability of "nothing further", probes for a further fault are requested.
const SETTLED: f64 = 0.95;
/// Minimum difference of path shares that tells two regions apart.
const APART: f64 = 0.1;

/// Effect of on-demand probes on one judgement.
#[derive(Debug, Default)]
pub(super) struct Inquiry {
    ways: SeparatingProbes,
    /// Results of the on-demand probes alone; empty if none was answered.
    asked: RoundCells,
    /// The judgement of the same window without those probes.
    without: Option<Box<Judgement>>,
    answers: Vec<String>,
}

impl Inquiry {
    /// Returns the part that a verdict reports.
    pub(super) fn of(&self, engine: &Engine, judgement: &Judgement, finding: &Finding) -> RequestedProbes {
        let decided_by = if self.asked.is_empty() {
            None
        } else {
            let without = self.without.as_deref();
            decided_by(judgement, finding, without, &self.asked, &engine.world)
        };
        RequestedProbes {
            ways: self.ways.clone(),
            decided_by,
            answers: self.answers.clone(),
        }
    }
}

impl Engine {
    /// Outstanding on-demand probes beyond the plan.
    #[must_use]
    pub fn asks(&self) -> &[ProbeRequest] {
        self.asking.asks()
    }

    /// On-demand probes that were requested or repeated with the round that was judged last.
    pub(crate) fn fresh_asks(&self) -> &[ProbeRequest] {
        self.asking.fresh()
    }

    /// Requests probes for what is open about a subject, and determines which results were decisive.
    pub(super) fn inquire(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        failing: &FailingCells,
        facts: &[PriorFact],
        round: Round,
        likelihood: &mut Likelihood,
    ) -> Inquiry {
        let mut inquiry = Inquiry {
            answers: self.asking.asides(unit),
            ..Inquiry::default()
        };
        if self.asking.pleading() < SUBJECTS {
            let plea = self.plea(unit, judgement, failing, round, &mut inquiry.ways, likelihood);
            self.asking.plead(unit, plea);
        }
        if judgement.findings.iter().any(|f| f.named) {
            self.unask(unit, judgement, facts, &mut inquiry, likelihood);
        }
        inquiry
    }

    /// Builds the open questions of a judgement: each fixes the settled regions and weighs what may join them.
    fn questions(judgement: &Judgement, likelihood: &mut Likelihood) -> Vec<ExplanationWeights> {
        let problem = judgement.case.problem();
        let regions: Vec<Region> = judgement.findings.iter().map(|f| f.region).collect();
        let mut fixed_sets: Vec<Vec<Region>> = judgement
            .findings
            .iter()
            .filter(|f| !f.named || f.class.len() > 1 || !f.near.is_empty())
            .map(|f| regions.iter().copied().filter(|r| *r != f.region).collect())
            .collect();
        let all_named = judgement.findings.iter().all(|f| f.named);
        if all_named {
            fixed_sets.push(regions);
        }
        let mut questions = Vec::new();
        for fixed in fixed_sets {
            let given = if fixed.is_empty() {
                judgement.posterior.clone()
            } else {
                problem.given(&fixed, likelihood)
            };
            // If the named regions explain everything, a further fault is unlikely.
            if !fixed.is_empty() && all_named && given.p_none > SETTLED {
                continue;
            }
            let case = &judgement.case;
            questions.push(ExplanationWeights::new(
                &case.data,
                &case.scene,
                &given,
                &fixed,
                likelihood,
            ));
        }
        questions
    }

    fn plea(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        failing: &FailingCells,
        round: Round,
        ways: &mut SeparatingProbes,
        likelihood: &mut Likelihood,
    ) -> ProbeRequests {
        let questions = Self::questions(judgement, likelihood);
        let speaking = self.asking.speaking();
        let ground = self.ground(unit, judgement, &speaking, round);
        let scene = &judgement.case.scene;
        let mut lists: Vec<Vec<WantedProbe>> = Vec::new();
        let mut possible: Vec<CellKey> = Vec::new();
        for beliefs in &questions {
            let keys = candidates(beliefs, &ground);
            lists.push(choose(beliefs, &keys, &ground));
            possible.extend(keys);
        }
        if let Some(beliefs) = questions.first() {
            let named: Vec<Region> = judgement
                .findings
                .iter()
                .filter(|f| f.named)
                .map(|f| f.region)
                .collect();
            lists.push(follow_ups(failing, round, &named, beliefs, &ground));
            lists.push(by_kinds(beliefs, &ground));
        }
        let wants = in_turn(&lists);
        for finding in &judgement.findings {
            for other in finding.class.iter().chain(&finding.near) {
                if *other == finding.region {
                    continue;
                }
                let tells = |key: &CellKey| {
                    let share = |region: Region| alpha(&[region], key, scene).get();
                    (share(finding.region) - share(*other)).abs() >= APART
                };
                let asked = wants
                    .iter()
                    .find(|w| w.variant == ProbeVariant::Plain && tells(&w.key));
                let way = match (asked, possible.iter().find(|key| tells(key))) {
                    (Some(want), _) => format!("requested: {}", self.in_words(unit, want)),
                    (None, Some(_)) => continue,
                    (None, None) if judgement.case.cells.keys().any(tells) => continue,
                    (None, None) => format!("cannot be requested: {}", why_not(&ground)),
                };
                ways.insert((finding.region, *other), way);
            }
        }
        ProbeRequests {
            suspect: judgement.p_healthy < 0.5,
            wants,
        }
    }

    fn in_words(&self, unit: &JudgementUnit, want: &WantedProbe) -> String {
        self.ask_of(unit, want, EventTime(0))
            .map_or_else(|| want.key.channel.to_string(), |(ask, _)| ask.to_string())
    }

    fn ground<'a>(
        &'a self,
        unit: &JudgementUnit,
        judgement: &'a Judgement,
        speaking: &'a BTreeSet<crate::ids::VantageIx>,
        round: Round,
    ) -> ProbeCapabilities<'a> {
        let front = self.front_of_unit(unit);
        let (own, controls) = self.blocks_of(unit);
        let mut planned = Vec::new();
        if self.rules.split == OutcomeSplit::Phases {
            // Several probes of one path and round share one vote.
            for block in own.iter().chain(&controls) {
                let all = self.evidence.blocks.get(block).and_then(|ring| ring.at(round));
                if let Some(cells) = self.asking.unasked(block, round).or(all) {
                    planned.push(cells);
                }
            }
        }
        let info = front.and_then(|f| self.cluster.topology.front(&f));
        let no_direct = match (unit, info) {
            (JudgementUnit::Front(front), Some(info)) => {
                let silent = |direct| {
                    self.evidence.blocks.contains_key(&direct) && !self.experience.worked.contains(&direct)
                };
                let forbidden = self.direct_of(info).is_some_and(silent)
                    && self
                        .experience
                        .worked
                        .contains(&CellBlock::plain(EvidenceKind::Vip(*front)));
                forbidden.then_some(
                    "no endpoint ever accepted a direct connection: a NetworkPolicy or mutual TLS may forbid it",
                )
            }
            _ => None,
        };
        let port = info.and_then(|info| {
            let service = self.cluster.topology.service(&info.service)?;
            service.ports.iter().find(|p| p.port == info.port)?.node_port
        });
        ProbeCapabilities {
            world: &self.world,
            scene: &judgement.case.scene,
            cells: &judgement.case.cells,
            speaking,
            planned,
            front: front.filter(|_| !matches!(unit, JudgementUnit::Dns | JudgementUnit::Mesh)),
            no_direct,
            names: matches!(unit, JudgementUnit::Dns | JudgementUnit::Whole(_)),
            node_port: port.is_some(),
            turn: round.0,
        }
    }

    /// Settles the outstanding requests until the next round, after all subjects of a round.
    pub(super) fn settle_asks(&mut self, round: Round, at: EventTime) {
        let mut asking = std::mem::take(&mut self.asking);
        asking.settle(round, |unit, want| self.ask_of(unit, want, at));
        self.asking = asking;
    }

    /// Converts a wanted probe to a request with names instead of ids; `None` if the topology lacks a name.
    fn ask_of(
        &self,
        unit: &JudgementUnit,
        want: &WantedProbe,
        at: EventTime,
    ) -> Option<(ProbeRequest, ProbeRoute)> {
        let key = &want.key;
        let vantage = self.world.vantages.name(key.client).clone();
        let front = self.front_of_unit(unit);
        let (target, to) = match (key.channel, key.dest) {
            (Channel::Mesh, Destination::Peer(node)) => {
                let node = self.world.nodes.name(node).clone();
                (
                    TargetId::new(format!("echo://{node}")).ok()?,
                    RequestDestination::Peer(node),
                )
            }
            (Channel::Dns, Destination::Name(name)) => {
                let name = self.world.names.name(name).clone();
                (self.target_named(&name)?, RequestDestination::Name(name))
            }
            (Channel::Direct, Destination::Entry(pod)) => (
                self.host_of(unit)?,
                RequestDestination::Entry(self.world.pods.name(pod).clone()),
            ),
            (Channel::Vip | Channel::Proxied, _) => (self.host_of(unit)?, RequestDestination::Front(front?)),
            (Channel::NodePort, _) => {
                let info = self.cluster.topology.front(&front?)?;
                let service = self.cluster.topology.service(&info.service)?;
                let port = service.ports.iter().find(|p| p.port == info.port)?.node_port?;
                let address = *self
                    .cluster
                    .topology
                    .nodes()
                    .get(vantage.node()?)?
                    .addresses
                    .first()?;
                let node_port = Front::tcp(SocketAddr::new(address, port));
                (self.host_of(unit)?, RequestDestination::NodePort(node_port))
            }
            _ => return None,
        };
        let aside = match want.variant {
            ProbeVariant::Plain => String::new(),
            ProbeVariant::Size(bytes) => format!("|{ASIDE}size={bytes}"),
            ProbeVariant::DnsOverTcp => format!("|{ASIDE}tcp"),
        };
        let (prefix, channel) = (AssignmentId::ASKED, key.channel);
        let describe = |region: Region| region.describe(&self.world);
        let reason = want.reason.clone().unwrap_or_else(|| match want.separates {
            Some((Region::Healthy, b)) => format!("separates {} from chance", describe(b)),
            Some((a, Region::Healthy)) => format!("separates {} from chance", describe(a)),
            Some((a, b)) => format!("separates {} from {}", describe(a), describe(b)),
            None => "repeats a failed probe".to_owned(),
        });
        let ask = ProbeRequest {
            id: AssignmentId::new(format!("{prefix}{channel}|{target}|{to}{aside}")).ok()?,
            subject: Self::subject_of(unit),
            vantage,
            channel,
            target,
            to,
            variant: want.variant,
            separates: want
                .separates
                .map(|(a, b)| vec![describe(a), describe(b)])
                .unwrap_or_default(),
            reason,
            bits: libm::round(want.bits * 1e4) / 1e4,
            since: at,
        };
        Some((ask, ProbeRoute::of(key, front)))
    }

    /// Returns a host for requests on a subject's paths: one whose entry is the subject's endpoints, preferably one
    /// with a name.
    fn host_of(&self, unit: &JudgementUnit) -> Option<TargetId> {
        let info = match unit {
            JudgementUnit::Front(front) => self.cluster.topology.front(front),
            _ => None,
        };
        let mut hosts: Vec<(bool, TargetId)> =
            self.targets_of(unit)
                .into_iter()
                .filter_map(|id| {
                    let placed = self.cluster.topology.targets().get(&id)?;
                    let enters = info.is_none_or(|info| {
                        placed.entry.as_ref().is_some_and(|(service, port)| {
                            *service == info.service && *port == info.target_port
                        })
                    });
                    enters.then_some((placed.dial.is_some(), id))
                })
                .collect();
        hosts.sort();
        hosts.into_iter().next().map(|(_, id)| id)
    }

    /// Returns a target whose probe resolves a name.
    fn target_named(&self, name: &str) -> Option<TargetId> {
        let targets = self.cluster.topology.targets().iter();
        targets
            .filter_map(|(id, placed)| {
                let probe = &placed.target.probe;
                // A target that only resolves the name is preferred to one that also connects.
                let same = probe.host()?.as_str() == name;
                same.then_some((probe.port().is_some(), id))
            })
            .min()
            .map(|(_, id)| id.clone())
    }

    /// Judges the same window again without the on-demand probes.
    fn unask(
        &mut self,
        unit: &JudgementUnit,
        judgement: &Judgement,
        facts: &[PriorFact],
        inquiry: &mut Inquiry,
        likelihood: &mut Likelihood,
    ) {
        let start = judgement.case.start;
        let (own, controls) = self.blocks_of(unit);
        let cells = self.cells_since(&own, &controls, start, true);
        for (key, all) in &judgement.case.cells {
            let base = cells.get(key).cloned().unwrap_or_default();
            if all.seen_n > base.seen_n {
                let f = all.f.saturating_sub(base.f);
                let counts = CellCounts {
                    n: all.n.saturating_sub(base.n).max(f),
                    f,
                    seen_n: all.seen_n - base.seen_n,
                    seen_f: all.seen_f.saturating_sub(base.seen_f),
                    ..CellCounts::default()
                };
                inquiry.asked.insert(*key, counts);
            }
        }
        if inquiry.asked.is_empty() {
            return;
        }
        let (rounds, failing) = self.failing_cells(&own, &controls, start, true);
        let case = self.case(unit, start, cells, facts, likelihood);
        let without = judge(vec![case], &rounds, &failing, self.doubt(unit), likelihood);
        inquiry.without = without.map(Box::new);
    }
}

/// Merges lists round-robin without duplicates: the first of each, then the second of each.
fn in_turn(lists: &[Vec<WantedProbe>]) -> Vec<WantedProbe> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for i in 0..longest {
        for list in lists {
            if let Some(want) = list.get(i)
                && seen.insert((want.key, want.variant))
            {
                all.push(want.clone());
            }
        }
    }
    all
}
