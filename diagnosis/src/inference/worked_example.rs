//! The worked example of the method, checked number by number (tolerance 1e-6).

use std::{collections::BTreeSet, sync::Arc};

use parallax_model::{Channel, KindClass, Round};

use super::{
    candidates::candidates,
    comparison_data::ComparisonData,
    goodness_of_fit::ln_marginal_saturated,
    kind_profiles,
    likelihood::{Likelihood, THETA0, THETA1, failure_probability, log_sum_exp},
    posterior::{Comparison, Posterior},
    prior::{Hypothesis, hypotheses},
    sequential_tests::{Cusum, broken_bound, hard_steps, healthy_bound, ln_beta_binomial},
    window::WindowCells,
};
use crate::{
    evidence::{
        cells::{CellCounts, CellKey, Destination, RoundCells},
        weights::ONE_PROBE,
    },
    ids::{NodeIx, PodIx, VantageIx},
    regions::{
        Region, RegionKind,
        paths::{MeshNodes, SubjectPaths},
    },
    requests::ExplanationWeights,
    topology::ProxyMode,
};

const THETA0_FOUR_POINTS: [(f64, f64); 4] = [(2e-4, 0.35), (1e-3, 0.35), (4e-3, 0.20), (1.5e-2, 0.10)];

fn assert_near(left: f64, right: f64) {
    assert!((left - right).abs() <= 1e-6, "{left} is not {right}");
}

/// Four nodes; backend 0 runs on node 0, backend 1 on node 1.
fn scene() -> SubjectPaths {
    let mut nodes = MeshNodes {
        node_set: (0..4).map(NodeIx).collect(),
        ..MeshNodes::default()
    };
    for i in 0..2 {
        nodes.pod_nodes.insert(PodIx(i), NodeIx(i));
    }
    for i in 0..4 {
        nodes.add_client(VantageIx(i), Some(NodeIx(i)));
    }
    SubjectPaths {
        mesh: Arc::new(nodes),
        backends: vec![PodIx(0), PodIx(1)],
        local_nodes: BTreeSet::from([NodeIx(0), NodeIx(1)]),
        ..SubjectPaths::default()
    }
}

fn kinds_in_play() -> BTreeSet<RegionKind> {
    use RegionKind::{Backend, Bnode, Client, ClientVip, Cross, NoLocal, Pair, Same, SameVip, Target, Vip};
    BTreeSet::from([
        Target, Vip, Backend, Bnode, Client, ClientVip, Pair, NoLocal, Cross, Same, SameVip,
    ])
}

fn cell(channel: Channel, client: u32, dest: Destination, n: u64, f: u64) -> (CellKey, CellCounts) {
    let key = CellKey {
        channel,
        client: VantageIx(client),
        dest,
    };
    let counts = CellCounts {
        probes: n,
        failures: f,
        ..CellCounts::default()
    };
    (key, counts)
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum ExampleStage {
    A,
    B,
    C,
}

fn cells(stage: ExampleStage) -> RoundCells {
    let entry = |b| Destination::Entry(PodIx(b));
    let mut cells = vec![
        cell(
            Channel::Vip,
            2,
            Destination::Unknown,
            3 * ONE_PROBE,
            3 * ONE_PROBE,
        ),
        cell(
            Channel::Vip,
            3,
            Destination::Unknown,
            3 * ONE_PROBE,
            3 * ONE_PROBE,
        ),
    ];
    if stage >= ExampleStage::B {
        cells.extend([
            cell(Channel::Vip, 0, entry(0), 2 * ONE_PROBE, 0),
            cell(Channel::Vip, 0, entry(1), ONE_PROBE, 0),
            cell(Channel::Vip, 1, entry(0), ONE_PROBE, 0),
            cell(Channel::Vip, 1, entry(1), 2 * ONE_PROBE, 0),
        ]);
    }
    if stage >= ExampleStage::C {
        for c in 0..4 {
            for b in 0..2 {
                cells.push(cell(Channel::Direct, c, entry(b), ONE_PROBE, 0));
            }
            for n in (0..4).filter(|n| *n != c) {
                cells.push(cell(Channel::Mesh, c, Destination::Peer(NodeIx(n)), ONE_PROBE, 0));
            }
        }
    }
    cells.into_iter().collect()
}

fn posterior(cells: &RoundCells, likelihood: &mut Likelihood) -> Posterior {
    let paths = scene();
    let data = ComparisonData::new(&WindowCells::undivided(cells.clone()), &paths, |_, _| {
        KindClass::Timeout
    });
    let candidates = candidates(&hypotheses(&kinds_in_play(), &paths, &data, &[]), &data, &paths);
    Comparison::new(&data, &paths, &candidates).posterior_given(&[], likelihood)
}

fn with_problem<R>(stage: ExampleStage, check: impl FnOnce(Comparison<'_>, &mut Likelihood) -> R) -> R {
    let paths = scene();
    let data = ComparisonData::new(&WindowCells::undivided(cells(stage)), &paths, |_, _| {
        KindClass::Timeout
    });
    let candidates = candidates(&hypotheses(&kinds_in_play(), &paths, &data, &[]), &data, &paths);
    let problem = Comparison::new(&data, &paths, &candidates).with_common_rate();
    check(problem, &mut Likelihood::default())
}

fn score_of(posterior: &Posterior, region: Region) -> (f64, f64) {
    let scored = posterior.scored.iter().find(|s| s.region == region).unwrap();
    (scored.ln_marginal, scored.probability)
}

const NOLOCAL: Region = Region::NoLocal;
const BACKEND: Region = Region::Backend(PodIx(0));
const BNODE: Region = Region::Bnode(NodeIx(0));

#[test]
fn priors_share_the_fault_mass_by_weight_and_members() {
    let all = hypotheses(&kinds_in_play(), &scene(), &ComparisonData::default(), &[]);
    assert_eq!(all.len() + 1, 33);
    let prior = |region| {
        all.iter()
            .find(|h: &&Hypothesis| h.region == region)
            .unwrap()
            .ln_prior
    };
    assert_near(libm::log(1.0 - crate::inference::prior::P_FAULT), -0.030_459_2);
    assert_near(prior(NOLOCAL), -5.809_143);
    assert_near(prior(Region::Target), -6.319_969);
    assert_near(prior(Region::Vip), -6.725_434);
    assert_near(prior(Region::SameVip), -6.319_969);
    assert_near(prior(BACKEND), -5.585_999);
    assert_near(prior(BNODE), -7.013_116);
    assert_near(prior(Region::ClientVip(NodeIx(1))), -7.706_263);
    assert_near(prior(Region::Pair(NodeIx(0), NodeIx(2))), -8.987_197);
}

#[test]
fn posteriors_of_the_three_stages_with_five_background_rates() {
    let l = &mut Likelihood::default();
    let a = posterior(&cells(ExampleStage::A), l);
    for (region, ln_m, p) in [
        (NOLOCAL, -0.844_146, 0.408_137),
        (Region::Target, -0.844_146, 0.244_882),
        (Region::Vip, -0.844_146, 0.163_255),
        (Region::Cross, -0.844_146, 0.163_255),
        (BACKEND, -4.968_235, 0.008_254),
        (BNODE, -4.968_235, 0.001_981),
        (Region::Healthy, -20.968_668, 2.401_5e-7),
    ] {
        assert_near(score_of(&a, region).0, ln_m);
        assert_near(score_of(&a, region).1, p);
    }
    let b = posterior(&cells(ExampleStage::B), l);
    for (region, ln_m, p) in [
        (NOLOCAL, -0.873_577, 0.997_498),
        (Region::Cross, -6.016_545, 0.002_330),
        (Region::Target, -10.169_391, 0.000_055),
        (Region::Vip, -10.169_391, 0.000_037),
        (Region::Healthy, -21.276_075, 4.445e-7),
    ] {
        assert_near(score_of(&b, region).0, ln_m);
        assert_near(score_of(&b, region).1, p);
    }
    let c = posterior(&cells(ExampleStage::C), l);
    for (region, ln_m, p) in [
        (NOLOCAL, -0.948_269, 0.999_960),
        (Region::Vip, -10.255_146, 0.000_036),
        (Region::Target, -14.468_360, 0.0),
        (BACKEND, -15.058_803, 0.0),
        (Region::ClientVip(NodeIx(2)), -13.836_671, 0.0),
        (Region::Healthy, -22.300_020, 1.724_6e-7),
    ] {
        assert_near(score_of(&c, region).0, ln_m);
        assert!((score_of(&c, region).1 - p).abs() < 1e-5);
    }
    assert_near(score_of(&c, NOLOCAL).1, 0.999_960);
}

#[test]
fn posteriors_with_four_background_rates_and_with_a_tempered_likelihood() {
    let l = &mut Likelihood::from_grids(&THETA1, &THETA0_FOUR_POINTS, 1.0);
    let a = posterior(&cells(ExampleStage::A), l);
    assert_near(score_of(&a, NOLOCAL).0, -0.844_890);
    assert_near(score_of(&a, NOLOCAL).1, 0.408_281);
    assert_near(score_of(&a, BACKEND).0, -4.986_323);
    assert_near(score_of(&a, Region::Healthy).0, -27.500_096);
    let b = posterior(&cells(ExampleStage::B), l);
    assert_near(score_of(&b, NOLOCAL).1, 0.997_517);
    assert_near(score_of(&b, Region::Cross).0, -6.008_258);
    let c = posterior(&cells(ExampleStage::C), l);
    assert_near(score_of(&c, NOLOCAL).0, -0.910_186);
    assert_near(score_of(&c, Region::ClientVip(NodeIx(3))).0, -15.909_387);
    assert_near(score_of(&c, Region::Healthy).0, -27.892_810);

    let tempered = posterior(
        &cells(ExampleStage::C),
        &mut Likelihood::from_grids(&THETA1, &THETA0, 0.5),
    );
    assert_near(score_of(&tempered, NOLOCAL).0, -0.727_405);
    assert_near(score_of(&tempered, NOLOCAL).1, 0.992_611);
    assert_near(score_of(&tempered, Region::Vip).1, 0.002_665);
    assert_near(score_of(&tempered, Region::Healthy).0, -12.563_446);
    assert_near(score_of(&tempered, BACKEND).1, 0.000_744);
}

#[test]
fn one_cell_by_hand() {
    assert_near(failure_probability(0.5, 0.9, 0.004), 0.4522);
    let (t, w) = THETA0[4];
    assert!((libm::log(w) + 6.0 * libm::log(t) + 20.970).abs() < 1e-3);
}

#[test]
fn classes_hold_what_the_cells_so_far_cannot_separate() {
    let l = &mut Likelihood::default();
    let a = posterior(&cells(ExampleStage::A), l);
    assert_eq!(a.classes.len(), 7);
    let members = |p: &Posterior, i: usize| -> BTreeSet<Region> {
        p.classes[i].members.iter().map(|m| p.scored[*m].region).collect()
    };
    assert_eq!(
        members(&a, 0),
        BTreeSet::from([NOLOCAL, Region::Target, Region::Vip, Region::Cross])
    );
    assert_near(a.classes[0].mass, 0.979_528);
    assert_eq!(
        members(&a, 1),
        BTreeSet::from([
            BACKEND,
            Region::Backend(PodIx(1)),
            BNODE,
            Region::Bnode(NodeIx(1))
        ])
    );
    assert_near(a.classes[1].mass, 0.020_469);
    let b = posterior(&cells(ExampleStage::B), l);
    assert_eq!(b.classes.len(), 15);
    let tied = b
        .classes
        .iter()
        .find(|c| c.members.iter().any(|m| b.scored[*m].region == Region::Target))
        .unwrap();
    assert_eq!(tied.members.len(), 2);
    assert_near(tied.mass, 0.000_092);
    let c = posterior(&cells(ExampleStage::C), l);
    assert_eq!(c.classes.len(), 33);
    assert_eq!(members(&c, 0), BTreeSet::from([NOLOCAL]));
}

#[test]
fn two_probes_are_too_few_to_part_nolocal_from_cross_for_good() {
    with_problem(ExampleStage::B, |problem, l| {
        let posterior = problem.posterior_given(&[], l);
        let near = problem.near_ties(&posterior, &posterior.classes[0], false);
        let tied: Vec<_> = near
            .iter()
            .flat_map(|c| c.members.iter().map(|m| posterior.scored[*m].region))
            .collect();
        assert_eq!(tied, [Region::Cross]);
    });
}

/// The Bayes factor prefers the pair by more than 10, but the client's prior is higher by 7.
#[test]
fn what_prior_and_evidence_together_leave_in_the_balance_is_a_near_tie() {
    let peer = |c, n, probes, failures| {
        cell(
            Channel::Mesh,
            c,
            Destination::Peer(NodeIx(n)),
            probes * ONE_PROBE,
            failures * ONE_PROBE,
        )
    };
    let mut cells = RoundCells::from([peer(2, 0, 6, 3), peer(2, 1, 3, 0), peer(2, 3, 3, 0)]);
    for (c, n) in [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (1, 2),
        (1, 3),
        (3, 0),
        (3, 1),
        (3, 2),
    ] {
        cells.extend([peer(c, n, 6, 0)]);
    }
    let (pair, client) = (Region::Pair(NodeIx(2), NodeIx(0)), Region::Client(NodeIx(2)));
    let paths = scene();
    let data = ComparisonData::new(&WindowCells::undivided(cells), &paths, |_, _| KindClass::Timeout);
    let candidates = candidates(&hypotheses(&kinds_in_play(), &paths, &data, &[]), &data, &paths);
    let problem = Comparison::new(&data, &paths, &candidates);
    let posterior = problem.posterior_given(&[], &mut Likelihood::default());
    let (best, other) = (score_of(&posterior, pair), score_of(&posterior, client));
    assert!(best.0 - other.0 > libm::log(10.0), "{best:?} {other:?}");
    assert!(best.1 > other.1 && best.1 < 10.0 * other.1, "{best:?} {other:?}");
    let class = |region| {
        let holds = |i: &usize| posterior.scored[*i].region == region;
        posterior
            .classes
            .iter()
            .position(|class| class.members.iter().any(holds))
    };
    let near = |by_odds| -> Vec<Region> {
        let best = &posterior.classes[class(pair).unwrap()];
        let near = problem.near_ties(&posterior, best, by_odds);
        near.iter()
            .map(|c| posterior.scored[c.members[0]].region)
            .collect()
    };
    assert!(near(true).contains(&client) && !near(false).contains(&client));
}

#[test]
fn a_fault_inside_the_named_region_is_no_second_fault() {
    with_problem(ExampleStage::C, |problem, l| {
        let base = problem.ln_marginal(&[NOLOCAL], l);
        let given = problem.posterior_given(&[NOLOCAL], l);
        let mut gains: Vec<(Region, f64)> = given
            .scored
            .iter()
            .filter(|s| s.region != Region::Healthy)
            .map(|s| (s.region, s.ln_marginal + s.ln_prior - base))
            .collect();
        gains.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        assert_eq!(gains[0].0, Region::ClientVip(NodeIx(2)));
        assert_near(gains[0].1, -7.706_263);
        assert_near(gains[1].1, -7.706_263);
        let pair = Region::Pair(NodeIx(0), NodeIx(2));
        assert_near(
            problem.ln_marginal(&[NOLOCAL, pair], l) + problem.ln_prior(pair) - base,
            -12.173_259,
        );
        let single = problem.posterior_given(&[], l);
        assert_eq!(problem.search_explanation((&[], &[]), &single, l), [NOLOCAL]);
    });
}

#[test]
fn the_saturated_model_says_how_well_the_best_region_fits() {
    with_problem(ExampleStage::C, |problem, l| {
        let (cells, ln_sat) = ln_marginal_saturated(problem.data);
        assert_eq!(cells, 24);
        assert_near(ln_sat, -9.473_010);
        assert_near(ln_sat - problem.ln_marginal(&[NOLOCAL], l), -8.524_741);
    });
    with_problem(ExampleStage::B, |problem, _| {
        let (cells, ln_sat) = ln_marginal_saturated(problem.data);
        assert_eq!(cells, 4);
        assert_near(ln_sat, -8.869_467);
    });
}

#[test]
fn posterior_means_of_the_rates() {
    with_problem(ExampleStage::A, |problem, l| {
        let shares = problem.data.shares(NOLOCAL, problem.paths);
        let (theta1, theta0) = l.posterior_means(&problem.data.groups(&shares));
        assert_near(theta1, 0.958_584);
        assert_near(theta0, 0.005_194);
    });
}

#[test]
fn the_next_probe_is_the_one_with_the_most_bits() {
    let vip = |c| (Channel::Vip, c, Destination::Unknown);
    let direct = |c, b| (Channel::Direct, c, Destination::Entry(PodIx(b)));
    let mesh = |c, n| (Channel::Mesh, c, Destination::Peer(NodeIx(n)));
    let probes = [vip(2), vip(0), direct(2, 0), direct(0, 0), mesh(2, 0), mesh(2, 3)];
    for (stage, expected) in [
        (
            ExampleStage::A,
            [0.027_293, 0.695_259, 0.842_333, 0.710_654, 0.560_719, 0.556_629],
        ),
        (
            ExampleStage::B,
            [0.001_178, 0.004_906, 0.011_630, 0.000_319, 0.011_364, 0.011_336],
        ),
    ] {
        with_problem(stage, |problem, l| {
            let posterior = problem.posterior_given(&[], l);
            let beliefs = ExplanationWeights::new(problem.data, problem.paths, &posterior, &[], l);
            for ((channel, client, dest), bits) in probes.into_iter().zip(expected) {
                let key = CellKey {
                    channel,
                    client: VantageIx(client),
                    dest,
                };
                let got = beliefs.expected_gain(&beliefs.shares(&key, problem.paths));
                assert!((got - bits).abs() < 1e-5, "{key:?}: {got} is not {bits}");
            }
            let direct = CellKey {
                channel: Channel::Direct,
                client: VantageIx(2),
                dest: Destination::Entry(PodIx(0)),
            };
            let separated = beliefs.best_separated_pair(&beliefs.shares(&direct, problem.paths));
            let other_region = if stage == ExampleStage::A {
                Region::Target
            } else {
                Region::Cross
            };
            assert_eq!(separated, Some((NOLOCAL, other_region)));
        });
    }
}

/// Returns the ln e-value: faults against the best background rate. It is valid at every round (optional
/// stopping).
fn ln_e(stage: ExampleStage) -> f64 {
    with_problem(stage, |problem, l| {
        let posterior = problem.posterior_given(&[], l);
        let faults: Vec<f64> = posterior
            .scored
            .iter()
            .filter(|s| s.region != Region::Healthy)
            .map(|s| s.ln_prior - libm::log(crate::inference::prior::P_FAULT) + s.ln_marginal)
            .collect();
        let (f, n) = problem.data.cells.iter().fold((0.0, 0.0), |(f, n), cell| {
            (
                f + crate::evidence::weights::to_probes(cell.failures),
                n + crate::evidence::weights::to_probes(cell.probes),
            )
        });
        let sup = THETA0
            .iter()
            .map(|(t, _)| f * libm::log(*t) + (n - f) * libm::log(1.0 - t))
            .fold(f64::NEG_INFINITY, f64::max);
        log_sum_exp(&faults) - sup
    })
}

#[test]
fn e_values_of_the_three_stages() {
    assert_near(ln_e(ExampleStage::A), 15.723_816);
    assert_near(ln_e(ExampleStage::B), 15.108_496);
    assert_near(ln_e(ExampleStage::C), 16.057_205);
}

#[test]
fn temperature_two_flattens_the_posterior() {
    let l = &mut Likelihood::default();
    for (stage, expected) in [
        (ExampleStage::A, 0.288_148),
        (ExampleStage::B, 0.922_197),
        (ExampleStage::C, 0.988_714),
    ] {
        let posterior = posterior(&cells(stage), l);
        let logs: Vec<f64> = posterior
            .scored
            .iter()
            .map(|s| 0.5 * (s.ln_prior + s.ln_marginal))
            .collect();
        let at = posterior.scored.iter().position(|s| s.region == NOLOCAL).unwrap();
        assert_near(libm::exp(logs[at] - log_sum_exp(&logs)), expected);
    }
}

#[test]
fn the_closed_form_agrees_with_its_table() {
    let bf = |fa: f64, na: f64, fb: f64, nb: f64| {
        let region = ln_beta_binomial(fa, na, 1.0, 1.0) + ln_beta_binomial(fb, nb, 0.5, 100.0);
        let healthy = ln_beta_binomial(fa + fb, na + nb, 0.5, 100.0);
        (region, healthy)
    };
    for (counts, region, healthy) in [
        ((45.0, 45.0, 0.0, 15.0), -3.898_685, -94.785_302),
        ((9.0, 10.0, 1.0, 50.0), -10.600_723, -37.267_423),
        ((3.0, 3.0, 0.0, 9.0), -1.429_486, -13.529_548),
        ((1.0, 3.0, 0.0, 9.0), -2.528_099, -5.459_476),
        ((1.0, 40.0, 0.0, 400.0), -8.208_170, -7.827_081),
    ] {
        let (fa, na, fb, nb) = counts;
        let got = bf(fa, na, fb, nb);
        assert_near(got.0, region);
        assert_near(got.1, healthy);
    }
}

#[test]
fn cusum_counts_from_its_last_zero() {
    let mut cusum = Cusum::new(Round(0));
    let expected = [
        (false, 0.0),
        (true, 4.605_170),
        (false, 3.917_036),
        (false, 3.228_901),
        (true, 7.834_071),
        (true, 12.439_241),
        (true, 17.044_411),
        (true, 21.649_582),
    ];
    for (round, (failed, sum)) in (0_i64..).zip(expected) {
        let (f, s) = if failed { (ONE_PROBE, 0) } else { (0, ONE_PROBE) };
        cusum.step(Round(round), f, s, hard_steps());
        assert_near(cusum.sum(), sum);
    }
    assert_eq!(cusum.rising_since(), Some(Round(1)));
}

#[test]
fn sprt_needs_three_failures_or_eleven_successes() {
    let healthy = healthy_bound();
    assert_near(broken_bound(), 13.814_510);
    assert_near(healthy, -6.907_755);
    let (up, down) = hard_steps();
    assert_near(3.0 * up, 13.815_511);
    assert_near(10.0 * down, -6.881_346);
    assert!(10.0 * down > healthy);
    assert_near(11.0 * down, -7.569_481);
    assert!(11.0 * down <= healthy);
}

#[test]
fn failures_of_one_stall_count_once_together() {
    let both = |w: u64| -> RoundCells {
        [
            cell(Channel::Vip, 2, Destination::Unknown, w, w),
            cell(Channel::Direct, 2, Destination::Entry(PodIx(0)), w, w),
        ]
        .into_iter()
        .collect()
    };
    let l = &mut Likelihood::default();
    let weighted = posterior(&both(ONE_PROBE * 3 / 2), l);
    assert_near(score_of(&weighted, Region::Target).1, 0.320_190);
    assert_near(score_of(&weighted, Region::Target).0, -0.668_369);
    assert_near(score_of(&weighted, BACKEND).1, 0.237_886);
    assert_near(score_of(&weighted, Region::Cross).1, 0.213_460);
    assert_near(score_of(&weighted, Region::Client(NodeIx(2))).1, 0.160_095);
    assert_near(score_of(&weighted, BNODE).1, 0.057_093);
    let plain = posterior(&both(ONE_PROBE * 3), l);
    assert_near(score_of(&plain, Region::Target).1, 0.399_380);
    assert_near(score_of(&plain, Region::Target).0, -0.844_146);
    assert_near(score_of(&plain, Region::Cross).1, 0.266_253);
    assert_near(score_of(&plain, Region::Client(NodeIx(2))).1, 0.199_690);
    assert_near(score_of(&plain, BACKEND).1, 0.105_759);
    assert_near(score_of(&plain, BNODE).1, 0.025_382);
}

#[test]
fn kinds_point_at_the_cause() {
    let timeouts: kind_profiles::KindProfile = [6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    for (profile, expected) in [
        (kind_profiles::BACKGROUND, -3.657_554),
        (kind_profiles::nolocal(ProxyMode::Iptables), -1.167_489),
        (kind_profiles::VIP, -5.117_279),
        (kind_profiles::TARGET, -7.519_424),
        (kind_profiles::BACKEND, -7.643_137),
        (kind_profiles::PROTO_VIP, -11.400_907),
    ] {
        assert_near(
            kind_profiles::ln_dirichlet_multinomial(&timeouts, &profile),
            expected,
        );
    }
    let header: kind_profiles::KindProfile = [0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0];
    for (profile, expected) in [
        (kind_profiles::PROTO_VIP, -5.190_170),
        (kind_profiles::BACKGROUND, -11.818_073),
        (kind_profiles::TARGET, -13.808_140),
        (kind_profiles::VIP, -13.890_902),
        (kind_profiles::BACKEND, -13.931_853),
        (kind_profiles::nolocal(ProxyMode::Iptables), -17.735_702),
    ] {
        assert_near(
            kind_profiles::ln_dirichlet_multinomial(&header, &profile),
            expected,
        );
    }
}
