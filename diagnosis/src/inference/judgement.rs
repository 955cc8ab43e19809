//! Judges one subject: selects the window, names the failing regions with their probability, and lists near ties.

use std::collections::{BTreeMap, BTreeSet};

use parallax_model::Round;

use super::{
    candidates::{CandidateHypothesis, candidates},
    comparison_data::ComparisonData,
    first_failure::first_failure,
    goodness_of_fit::{MAX_LACK_OF_FIT, ln_marginal_saturated},
    judgement_unit::JudgementUnit,
    likelihood::{Likelihood, log_sum_exp},
    multiple_comparisons::ResidualDoubt,
    posterior::{Comparison, Posterior, ScoredRegion},
    prior::{PriorFact, hypotheses},
    subject_pool::SubjectPool,
    tied_regions::TiedRegions,
    window::WindowCells,
};
use crate::{
    evidence::{
        cells::{RoundCells, is_through_front},
        weights::to_probes,
    },
    ids::{NameRegistry, VantageIx},
    regions::{Region, RegionKind, paths::SubjectPaths, share::alpha},
};

/// All inputs of the judgement of one subject over one window.
#[derive(Debug)]
pub(crate) struct JudgementInput {
    pub(crate) start: Round,
    pub(crate) paths: SubjectPaths,
    pub(crate) cells: RoundCells,
    pub(crate) data: ComparisonData,
    candidates: Vec<CandidateHypothesis>,
    pub(crate) pool: SubjectPool,
}

impl JudgementInput {
    pub(crate) fn new(
        unit: &JudgementUnit,
        start: Round,
        window: WindowCells,
        paths: SubjectPaths,
        world: &NameRegistry,
        kinds: &BTreeSet<RegionKind>,
        facts: &[PriorFact],
    ) -> Self {
        let data = ComparisonData::new(&window, &paths, |kind, status| world.class_of(kind, status));
        let cells = window.all;
        let mut kinds = kinds.clone();
        let through_front = cells.iter().filter(|(key, _)| is_through_front(key.channel));
        let failures = through_front.flat_map(|(_, counts)| &counts.kinds);
        let understood = failures
            .filter(|((kind, status), _)| world.kinds.name(*kind).proves_header_accepted(*status))
            .map(|(_, (weight, _))| to_probes(*weight));
        // A front can reject an unexpected protocol header only after it has received one.
        if !data.suggests_proxy_header_mismatch(understood.sum()) {
            kinds.remove(&RegionKind::ProtoVip);
        }
        // The network between nodes has its own subject, and most paths of a target cross it. Only what shows nowhere else is
        // attributed to it here: the loss of large packets.
        let is_target = matches!(unit, JudgementUnit::Target(_)) || !paths.origin_pods.is_empty();
        if is_target && !data.mostly_stalls() {
            kinds.remove(&RegionKind::Cross);
        }
        Self {
            start,
            candidates: candidates(&hypotheses(&kinds, &paths, &data, facts), &data, &paths),
            paths,
            data,
            cells,
            pool: SubjectPool::default(),
        }
    }

    /// Adds the evidence of the other subjects about the regions that would affect them too.
    pub(crate) fn with_pool(mut self, pool: SubjectPool) -> Self {
        self.pool = pool;
        self
    }

    /// The first round in which a fault beside the known causes may have caused failures.
    pub(crate) fn onset(&self) -> Round {
        self.data.periods().onset.unwrap_or(self.start)
    }

    pub(crate) fn comparison(&self) -> Comparison<'_> {
        Comparison::new(&self.data, &self.paths, &self.candidates).with_pool(&self.pool)
    }
}

/// One region of the explanation.
#[derive(Debug, Clone)]
pub(crate) struct ExplainedRegion {
    pub(crate) region: Region,
    /// The regions named together: the region's class in descending order of score, then the merged near ties.
    pub(crate) class: Vec<Region>,
    /// Posterior odds of this region over the next one of the class.
    pub(crate) odds_over_next: f64,
    /// Regions of the near-tied classes.
    pub(crate) near_ties: Vec<Region>,
    /// Whether the reports of others show that the opposite direction works.
    pub(crate) is_one_way: bool,
    pub(crate) probability: f64,
    /// Whether all conditions of a verdict hold.
    pub(crate) is_verdict: bool,
    /// Clients with failures in the region.
    pub(crate) failing_clients: BTreeSet<VantageIx>,
    pub(crate) first_failure: Round,
    pub(crate) last_failure: Round,
    /// Failures of the probes that cross the region, and the expected number of probes that cross it.
    pub(crate) crossing: (f64, f64),
    /// Share of the rounds of its clients, from the first to the last failure, with a failure in the region.
    pub(crate) failing_share: f64,
}

/// The judgement of one subject.
#[derive(Debug)]
pub(crate) struct Judgement {
    pub(crate) input: JudgementInput,
    pub(crate) p_healthy: f64,
    /// The known causes that explain a part of the failures. Everything else is judged beside them.
    pub(crate) known: Vec<Region>,
    pub(crate) findings: Vec<ExplainedRegion>,
    /// The posterior over single regions beside the known causes; shows what was ruled out.
    pub(crate) posterior: Posterior,
    /// Whether no set of regions explains the cells.
    pub(crate) unexplained: bool,
}

/// Without the kinds of failure, five times the residual doubt is allowed.
const COUNTS_ONLY_FACTOR: f64 = 0.2;
/// Conditions of a verdict, in addition to the limit of residual doubt.
pub(crate) const MIN_CLASS_MASS: f64 = 0.9;
/// The same for a finding that is named at once, and where named causes explain a part of the failures: what they entail is known
/// in part only.
pub(crate) const CERTAIN_CLASS_MASS: f64 = 0.99;
const MIN_ROUNDS: usize = 2;
pub(super) const MIN_CLIENT_ROUNDS: usize = 3;
const MIN_CLIENTS: usize = 2;
/// Gain of a region from the subject's own results, in nats, that other subjects cannot replace.
const MIN_OWN_GAIN: f64 = 0.0;

/// Cells with failures, by round.
pub(crate) type FailingCells = BTreeMap<Round, BTreeSet<crate::evidence::cells::CellKey>>;

/// Selects the window with the highest odds of a fault and explains its cells. `known` are the regions of incidents that
/// other subjects named, `named` those that each open incident of the subject names together, and `named_by_any`
/// those that any open incident names.
pub(crate) fn judge(
    mut cases: Vec<JudgementInput>,
    (rounds, failing): (&BTreeSet<Round>, &FailingCells),
    (known, named, named_by_any): (&[Region], &[Vec<Region>], &[Region]),
    doubt: ResidualDoubt,
    l: &mut Likelihood,
) -> Option<Judgement> {
    let (explaining, posteriors): (Vec<Vec<Region>>, Vec<Posterior>) = cases
        .iter()
        .map(|case| case.comparison().beside_known(known, l))
        .unzip();
    let mut best = 0;
    for (i, posterior) in posteriors.iter().enumerate() {
        if ln_odds(posterior) > ln_odds(&posteriors[best]) {
            best = i;
        }
    }
    // Failure kinds weigh causes against each other; whether there is a fault at all is decided by the counts. The
    // windows were selected by looking at the data, so each has an equal share of the prior.
    let p_healthy = combine_windows(posteriors.iter().map(|p| {
        p.p_no_further_fault
            .max(COUNTS_ONLY_FACTOR * p.p_no_further_fault_by_counts())
    }));
    let posterior = posteriors.into_iter().nth(best)?;
    let case = cases.swap_remove(best);
    let known = explaining.into_iter().nth(best)?;
    let problem = case.comparison();
    let regions = problem.search_explanation((&known, named_by_any), &posterior, l);
    let is_named = |region: &Region| named_by_any.contains(region);
    let seen: usize = rounds.iter().filter(|round| **round >= case.onset()).count();
    let mut findings = Vec::new();
    for (i, region) in regions.iter().enumerate() {
        let beside = regions.iter().enumerate().filter(|(j, _)| *j != i);
        let beside: Vec<Region> = beside.map(|(_, region)| *region).collect();
        let others = [known.as_slice(), beside.as_slice()].concat();
        let given = if beside.is_empty() {
            None
        } else {
            Some(problem.posterior_given(&others, l))
        };
        // A further fault needs as much evidence as the only one.
        let p_unneeded = given.as_ref().map_or(0.0, |given| given.p_no_further_fault);
        let is_certain = doubt.permits_verdict(p_healthy.max(p_unneeded));
        let is_beside_named = !known.is_empty() || !is_named(region) && beside.iter().any(is_named);
        let min_mass = if is_beside_named {
            CERTAIN_CLASS_MASS
        } else {
            MIN_CLASS_MASS
        };
        let given = given.as_ref().unwrap_or(&posterior);
        findings.extend(finding(
            &problem,
            given,
            *region,
            (&others, named),
            is_certain.then_some(min_mass),
            seen,
            case.start,
            failing,
        ));
    }
    let (_, ln_saturated) = ln_marginal_saturated(&case.data);
    let gap = ln_saturated - problem.ln_marginal(&[known.as_slice(), regions.as_slice()].concat(), l);
    Some(Judgement {
        known,
        unexplained: gap > MAX_LACK_OF_FIT && doubt.permits_verdict(p_healthy),
        p_healthy,
        findings,
        posterior,
        input: case,
    })
}

fn ln_odds(posterior: &Posterior) -> f64 {
    let none = posterior.scored.first().map_or(0.0, ScoredRegion::score);
    let faults: Vec<f64> = posterior.scored.iter().skip(1).map(ScoredRegion::score).collect();
    log_sum_exp(&faults) - none
}

/// Returns the failures of the window's probes that cross a region, and the expected number of probes that cross
/// it.
fn crossing_probes(problem: &Comparison<'_>, region: Region) -> (f64, f64) {
    let shares = problem.data.shares(region, problem.paths);
    shares.iter().fold((0.0, 0.0), |(failures, all), (i, share)| {
        let cell = &problem.data.cells[*i];
        let failed = to_probes(cell.failures);
        (
            failures + failed,
            all + failed + share.as_f64() * to_probes(cell.probes - cell.failures),
        )
    })
}

/// Returns the share of the rounds of clients, between two rounds, with a failure.
#[expect(clippy::cast_precision_loss, reason = "numbers of clients and rounds")]
fn failing_share(
    client_rounds: &BTreeSet<(Round, VantageIx)>,
    (first, last): (Round, Round),
    clients: usize,
) -> f64 {
    let failing = client_rounds.iter().filter(|(round, _)| *round >= first).count();
    let rounds = (last.0 - first.0 + 1) as f64;
    failing as f64 / (rounds * clients as f64).max(1.0)
}

/// Returns the probability of "healthy" over all windows, from the mean of the odds of a fault (equal prior per
/// window).
fn combine_windows(healthy: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for p in healthy {
        sum += (1.0 - p) / p.max(f64::MIN_POSITIVE);
        count += 1.0;
    }
    1.0 / (1.0 + sum / f64::max(count, 1.0))
}

#[expect(
    clippy::too_many_arguments,
    reason = "the conditions of a verdict, in one place"
)]
fn finding(
    problem: &Comparison<'_>,
    given: &Posterior,
    region: Region,
    (others, named): (&[Region], &[Vec<Region>]),
    min_mass: Option<f64>,
    rounds: usize,
    start: Round,
    failing: &FailingCells,
) -> Option<ExplainedRegion> {
    let class = given
        .classes
        .iter()
        .find(|class| class.members.iter().any(|i| given.scored[*i].region == region))?;
    let TiedRegions {
        regions: class_regions,
        mass,
        near,
    } = TiedRegions::new(problem, given, class, named, rounds);
    let head = *class_regions.first()?;
    let paths = problem.paths;
    // Failures that this region explains and the other regions do not.
    let mut union = others.to_vec();
    union.push(head);
    let mut client_rounds = BTreeSet::new();
    for (round, keys) in failing.range(start..) {
        let present = [others, union.as_slice()].map(|regions| problem.data.present(regions, *round));
        for key in keys {
            let [others, union] = present.each_ref().map(|regions| alpha(regions, key, paths));
            if union.permille() > others.permille() {
                client_rounds.insert((*round, key.client));
            }
        }
    }
    let clients: BTreeSet<VantageIx> = client_rounds.iter().map(|(_, client)| *client).collect();
    // Only clients that this region alone would break are evidence for it.
    let probing: BTreeSet<VantageIx> = problem
        .data
        .shares(head, paths)
        .iter()
        .map(|(i, _)| &problem.data.cells[*i].key)
        .filter(|key| alpha(&union, key, paths).permille() > alpha(others, key, paths).permille())
        .map(|key| key.client)
        .collect();
    let enough_clients =
        clients.len() >= MIN_CLIENTS || head.is_single_client() || probing.len() < MIN_CLIENTS;
    let is_verdict = min_mass.is_some_and(|min_mass| mass >= min_mass)
        && given.own_gain(head).is_none_or(|gain| gain > MIN_OWN_GAIN)
        && !class.contains_healthy
        && rounds >= MIN_ROUNDS
        && client_rounds.len() >= MIN_CLIENT_ROUNDS
        && enough_clients;
    let near = near
        .into_iter()
        .flat_map(|class| given.regions_of(class))
        .collect();
    let first_failure = first_failure(&client_rounds).unwrap_or(start);
    let last_failure = client_rounds.last().map_or(start, |(round, _)| *round);
    let p = |region: Region| {
        let scored = given.scored.iter().find(|scored| scored.region == region);
        scored.map_or(0.0, |scored| scored.probability)
    };
    let next = class_regions
        .iter()
        .skip(1)
        .map(|region| p(*region))
        .fold(0.0, f64::max);
    Some(ExplainedRegion {
        region: head,
        class: class_regions,
        odds_over_next: p(head) / next.max(f64::MIN_POSITIVE),
        near_ties: near,
        // The other clients show that they reach the node. Whether a node that is not reached reaches others is shown by its
        // own reports, and those from the time of the failures may be missing.
        is_one_way: matches!(head, Region::Client(node) if given.favors(head, Region::NodeLink(node))),
        probability: mass.min(1.0),
        is_verdict,
        failing_clients: clients,
        first_failure,
        last_failure,
        crossing: crossing_probes(problem, head),
        failing_share: failing_share(&client_rounds, (first_failure, last_failure), probing.len()),
    })
}
