//! One subject, one window, one answer: which regions fail, how sure that is, and what it cannot be told apart from.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::{Channel, Front, Round, TargetId};

use crate::{
    cells::{Dest, RoundCells},
    data::Data,
    fit::{UNEXPLAINED, ln_m_saturated},
    ids::{NodeIx, PodIx, VantageIx, World},
    likelihood::{Likelihood, lse},
    posterior::{Posterior, Problem, Scored},
    prior::{Hypothesis, P_FAULT, PriorFact, hypotheses},
    region::{Region, RegionKind, alpha},
    scene::Scene,
    sequential::{Cusum, hard, soft},
};

/// A subject that is judged on its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// The resolvers, all names together.
    Dns,
    /// The network between probers.
    Mesh,
    /// A front with the endpoints behind it.
    Front(Front),
    /// The answers of a target.
    Target(TargetId),
    /// Every channel of the one target of a recording, as one path.
    Whole(TargetId),
}

impl Unit {
    /// Kinds of region that can be told on the subject.
    pub(crate) fn kinds(&self, scene: &Scene, channels: &BTreeSet<Channel>) -> BTreeSet<RegionKind> {
        use RegionKind::{
            Backend, Bnode, BnodeRemote, Client, ClientVip, Cross, DnsAll, DnsClient, DnsName, NoLocal,
            OutsideAll, Pair, ProtoVip, Same, SameVip, SelfPod, SelfVip, Target, Vip, Zone,
        };
        let mut kinds = match self {
            Self::Dns => BTreeSet::from([DnsClient, DnsAll, DnsName, Client]),
            Self::Mesh => BTreeSet::from([Client, Bnode, BnodeRemote, Pair, Cross, Zone]),
            Self::Front(_) => BTreeSet::from([
                Target,
                Vip,
                Backend,
                Bnode,
                BnodeRemote,
                Client,
                ClientVip,
                Pair,
                NoLocal,
                Cross,
                Same,
                SameVip,
                Zone,
            ]),
            // Connections worked, or these phases would not have been reached: what remains is who answers, and what
            // strikes large packets only.
            Self::Target(_) => BTreeSet::from([Target, Vip, Backend, Client, Cross, Same]),
            Self::Whole(_) => BTreeSet::from([
                Target,
                Vip,
                Backend,
                Bnode,
                BnodeRemote,
                Client,
                ClientVip,
                Pair,
                NoLocal,
                Cross,
                Same,
                SameVip,
                Zone,
                DnsClient,
                DnsAll,
                DnsName,
            ]),
        };
        if scene.zone_set().len() < 2 {
            kinds.remove(&Zone);
        }
        if !channels.contains(&Channel::Dns) {
            for kind in [DnsClient, DnsAll, DnsName] {
                kinds.remove(&kind);
            }
        }
        if kinds.contains(&Vip) {
            if channels.contains(&Channel::Proxied) {
                kinds.insert(ProtoVip);
            }
            if scene.nodes.clients.values().any(Option::is_none) {
                kinds.insert(OutsideAll);
            }
            if scene
                .backends
                .iter()
                .any(|pod| scene.nodes.prober_pods.contains_key(pod))
            {
                kinds.extend([SelfPod, SelfVip]);
            }
        }
        kinds
    }
}

/// Sums that say since when a subject fails: over all, and by client, endpoint and peer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams {
    rising: BTreeMap<Stream, [Cusum; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    All,
    Client(VantageIx),
    Entry(PodIx),
    Peer(NodeIx),
}

impl Streams {
    /// Takes the subject's own cells of one round in.
    pub(crate) fn step(&mut self, round: Round, cells: &RoundCells) {
        let mut sums: BTreeMap<Stream, (u64, u64)> = BTreeMap::new();
        for (key, counts) in cells {
            let by_dest = match key.dest {
                Dest::Entry(pod) => Some(Stream::Entry(pod)),
                Dest::Peer(node) => Some(Stream::Peer(node)),
                Dest::Unknown | Dest::Name(_) => None,
            };
            for stream in [Some(Stream::All), Some(Stream::Client(key.client)), by_dest]
                .into_iter()
                .flatten()
            {
                let sum = sums.entry(stream).or_default();
                sum.0 += counts.f;
                sum.1 += counts.n - counts.f;
            }
        }
        for (stream, (failures, successes)) in sums {
            if failures == 0 && !self.rising.contains_key(&stream) {
                continue;
            }
            let pair = self.rising.entry(stream).or_insert([Cusum::new(round); 2]);
            pair[0].step(round, failures, successes, hard());
            pair[1].step(round, failures, successes, soft());
        }
        self.rising
            .retain(|_, pair| pair.iter().any(|cusum| cusum.rising_since().is_some()));
    }

    pub(crate) fn any(&self) -> bool {
        !self.rising.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.rising.clear();
    }

    /// Starts of evidence worth comparing: since the hard trigger rises, since the soft one does, and all there is.
    pub(crate) fn windows(&self, floor: Round) -> BTreeSet<Round> {
        let first = |i: usize| {
            self.rising
                .values()
                .filter_map(|pair| pair[i].rising_since())
                .min()
        };
        [first(0), first(1), Some(floor)]
            .into_iter()
            .flatten()
            .map(|start| start.max(floor))
            .collect()
    }
}

/// Everything a judgement needs of a subject and one window.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) start: Round,
    pub(crate) scene: Scene,
    pub(crate) cells: RoundCells,
    pub(crate) data: Data,
    pub(crate) hypotheses: Vec<Hypothesis>,
}

impl Case {
    pub(crate) fn new(
        start: Round,
        cells: RoundCells,
        scene: Scene,
        world: &World,
        kinds: &BTreeSet<RegionKind>,
        facts: &[PriorFact],
    ) -> Self {
        let data = Data::new(&cells, &scene, |kind, status| world.class_of(kind, status));
        Self {
            start,
            hypotheses: hypotheses(kinds, &scene, &data, facts),
            scene,
            data,
            cells,
        }
    }

    pub(crate) fn problem(&self) -> Problem<'_> {
        Problem::new(&self.data, &self.scene, &self.hypotheses)
    }
}

/// What another subject says of causes that concern every subject.
#[derive(Debug)]
pub(crate) struct Other {
    pub(crate) data: Data,
    pub(crate) scene: Scene,
    pub(crate) hypotheses: Vec<Hypothesis>,
}

/// Adds what the other subjects say to the priors of the global regions.
///
/// A local cause here says that the others go their own way: healthy, or with a local cause of their own. A global cause
/// says that it rules there too. So its score gains ln m(global) − ln Σ π(local)·m(local) of each other subject; where
/// that subject is healthy, the sum is all but equal to m(healthy).
pub(crate) fn pool(
    hypotheses: &mut [Hypothesis],
    failing: &Data,
    scene: &Scene,
    others: &[Other],
    l: &mut Likelihood,
) {
    if others.is_empty() {
        return;
    }
    let own: Vec<f64> = others
        .iter()
        .map(|other| {
            let mut terms = vec![libm::log(1.0 - P_FAULT) + l.ln_m(&other.data.groups(&[]))];
            if other.data.failures() > 0 {
                for hypothesis in other.hypotheses.iter().filter(|h| !h.region.is_global()) {
                    let shares = other.data.shares(hypothesis.region, &other.scene);
                    if other.data.touches_failure(&shares) {
                        terms.push(hypothesis.ln_prior + l.ln_m(&other.data.groups(&shares)));
                    }
                }
            }
            lse(&terms)
        })
        .collect();
    for hypothesis in hypotheses.iter_mut().filter(|h| h.region.is_global()) {
        if !failing.touches_failure(&failing.shares(hypothesis.region, scene)) {
            continue;
        }
        for (other, own) in others.iter().zip(&own) {
            let shares = other.data.shares(hypothesis.region, &other.scene);
            hypothesis.ln_prior += l.ln_m(&other.data.groups(&shares)) - own;
        }
    }
}

/// One region of the explanation.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) region: Region,
    /// Everything that cannot be told apart from it, itself included, best prior first.
    pub(crate) class: Vec<Region>,
    /// Classes that are nearly as good.
    pub(crate) near: Vec<Region>,
    pub(crate) probability: f64,
    /// All conditions of a verdict hold.
    pub(crate) named: bool,
    /// Clients that failed in the region.
    pub(crate) failing: BTreeSet<VantageIx>,
    pub(crate) first_failure: Round,
}

/// The judgement of one subject.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) case: Case,
    pub(crate) p_healthy: f64,
    pub(crate) findings: Vec<Finding>,
    /// The posterior over single regions: what was ruled out.
    pub(crate) posterior: Posterior,
    /// No set of regions explains the cells.
    pub(crate) unexplained: bool,
}

/// A verdict needs all of these.
const MAX_HEALTHY: f64 = 0.01;
const MIN_CLASS: f64 = 0.9;
const MIN_ROUNDS: usize = 2;
const MIN_CLIENT_ROUNDS: usize = 3;
const MIN_CLIENTS: usize = 2;

/// Failures by round and client of the subject's cells.
pub(crate) type FailingCells = BTreeMap<Round, BTreeSet<crate::cells::CellKey>>;

/// Chooses the window that speaks loudest and explains it.
///
/// The window is chosen by looking at the data, so the odds are divided by the number of windows looked at.
pub(crate) fn judge(
    mut cases: Vec<Case>,
    rounds: &BTreeSet<Round>,
    failing: &FailingCells,
    l: &mut Likelihood,
) -> Option<Judgement> {
    let looked = u32::try_from(cases.len()).unwrap_or(1);
    let posteriors: Vec<Posterior> = cases.iter().map(|case| case.problem().given(&[], l)).collect();
    let mut best = 0;
    for (i, posterior) in posteriors.iter().enumerate() {
        if ln_odds(posterior) > ln_odds(&posteriors[best]) {
            best = i;
        }
    }
    let posterior = posteriors.into_iter().nth(best)?;
    let case = cases.swap_remove(best);
    let p_healthy = diluted(posterior.p_none, looked);
    let problem = case.problem();
    let regions = problem.explain(&posterior, l);
    let seen: usize = rounds.iter().filter(|round| **round >= case.start).count();
    let mut findings = Vec::new();
    for (i, region) in regions.iter().enumerate() {
        let others: Vec<Region> = regions
            .iter()
            .enumerate()
            .filter(|(j, _)| *j != i)
            .map(|(_, r)| *r)
            .collect();
        let given = if others.is_empty() {
            None
        } else {
            Some(problem.given(&others, l))
        };
        let given = given.as_ref().unwrap_or(&posterior);
        findings.extend(finding(
            &problem, given, *region, &others, p_healthy, seen, case.start, failing,
        ));
    }
    let (_, ln_saturated) = ln_m_saturated(&case.data);
    let gap = ln_saturated - problem.ln_m(&regions, l);
    Some(Judgement {
        unexplained: gap > UNEXPLAINED && p_healthy < MAX_HEALTHY,
        p_healthy,
        findings,
        posterior,
        case,
    })
}

fn ln_odds(posterior: &Posterior) -> f64 {
    let none = posterior.scored.first().map_or(0.0, Scored::score);
    let faults: Vec<f64> = posterior.scored.iter().skip(1).map(Scored::score).collect();
    lse(&faults) - none
}

/// A probability of "healthy" whose odds are multiplied by the number of looks.
fn diluted(p: f64, looks: u32) -> f64 {
    let looks = f64::from(looks);
    p * looks / (p * looks + (1.0 - p))
}

#[expect(
    clippy::too_many_arguments,
    reason = "the conditions of a verdict, in one place"
)]
fn finding(
    problem: &Problem<'_>,
    given: &Posterior,
    region: Region,
    others: &[Region],
    p_healthy: f64,
    rounds: usize,
    start: Round,
    failing: &FailingCells,
) -> Option<Finding> {
    let class = given
        .classes
        .iter()
        .find(|class| class.members.iter().any(|i| given.scored[*i].region == region))?;
    let class_regions: Vec<Region> = class.members.iter().map(|i| given.scored[*i].region).collect();
    let head = *class_regions.first()?;
    let scene = problem.scene;
    // Failures that the region explains and the others alone do not.
    let mut union = others.to_vec();
    union.push(head);
    let mut client_rounds = BTreeSet::new();
    for (round, keys) in failing.range(start..) {
        for key in keys {
            if alpha(&union, key, scene).permille() > alpha(others, key, scene).permille() {
                client_rounds.insert((*round, key.client));
            }
        }
    }
    let clients: BTreeSet<VantageIx> = client_rounds.iter().map(|(_, client)| *client).collect();
    // Who could have met it: where another fault breaks a path already, this one shows nothing of its own.
    let probing: BTreeSet<VantageIx> = problem
        .data
        .shares(head, scene)
        .iter()
        .map(|(i, _)| &problem.data.cells[*i].key)
        .filter(|key| alpha(&union, key, scene).permille() > alpha(others, key, scene).permille())
        .map(|key| key.client)
        .collect();
    let enough_clients = clients.len() >= MIN_CLIENTS || head.seen_by_one() || probing.len() < MIN_CLIENTS;
    let named = p_healthy < MAX_HEALTHY
        && class.mass >= MIN_CLASS
        && !class.unobserved
        && rounds >= MIN_ROUNDS
        && client_rounds.len() >= MIN_CLIENT_ROUNDS
        && enough_clients;
    let near = problem
        .near_ties(given, class)
        .into_iter()
        .flat_map(|c| c.members.iter().map(|i| given.scored[*i].region))
        .collect();
    Some(Finding {
        region: head,
        class: class_regions,
        near,
        probability: class.mass.min(1.0),
        named,
        failing: clients,
        first_failure: client_rounds.first().map_or(start, |(round, _)| *round),
    })
}
