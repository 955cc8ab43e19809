//! The fault corpus: reproducible, consistent with its truth, and scored fairly.
#![expect(clippy::unwrap_used, reason = "helpers of tests panic where tests do")]

use std::collections::BTreeSet;

use parallax_diagnosis::replay::Replay;
use parallax_lab::corpus::{
    self,
    closed_loop::run_recording,
    draw::{DrawnFault, Plan},
    kinds::DrawnFailure,
    region::{ProbeApproach, ProbeClient, Region, RegionShape, Scope},
    report,
    rng::Rng,
    score::{self, FindingClosure, TrialScore},
    sets::{OutputForm, SETS, TrialSet},
    simulate::{self, SimulatedTrial},
    tally::{self, SetTally},
    truth::{self, FaultTruth, NamedRegion, TrialTruth},
    world::{EndpointEpoch, Pod, ProbeChannels, SimulatedCluster, StaticFacts},
};

const EVERYTHING: ProbeChannels = ProbeChannels {
    dns: true,
    direct: true,
    mesh: true,
    proxied: false,
};
const VIP_ONLY: ProbeChannels = ProbeChannels {
    dns: false,
    direct: false,
    mesh: false,
    proxied: false,
};
const NO_MESH: ProbeChannels = ProbeChannels {
    dns: false,
    direct: true,
    mesh: false,
    proxied: false,
};
const NO_DIRECT: ProbeChannels = ProbeChannels {
    dns: true,
    direct: false,
    mesh: true,
    proxied: false,
};

/// Builds nodes in zones a, b, c, a, …, with one endpoint on each of the given nodes.
fn world(nodes: usize, endpoints_on: &[usize], channels: ProbeChannels) -> SimulatedCluster {
    SimulatedCluster {
        zones: (0..nodes).map(|node| node % SimulatedCluster::ZONES).collect(),
        probers: vec![true; nodes],
        pods: endpoints_on
            .iter()
            .enumerate()
            .map(|(i, node)| Pod {
                name: format!("shop-{i}"),
                node: *node,
                front: 0,
                prober: false,
            })
            .collect(),
        epochs: vec![EndpointEpoch {
            from: 0,
            endpoints: vec![(0..endpoints_on.len()).collect()],
        }],
        hosts: 1,
        outside: 0,
        names: vec!["shop.example.test".to_owned(), "control.example.test".to_owned()],
        channels,
        identifies: false,
        facts: StaticFacts {
            service_type: "LoadBalancer",
            external: "Cluster",
            internal: "Cluster",
            proxy_mode: "iptables",
            ip_mode: "VIP",
        },
        layout: "by hand",
    }
}

fn dead(region: Region) -> DrawnFault {
    DrawnFault {
        region,
        scope: Scope { front: 0, host: None },
        theta1: 1.0,
        start: 0,
        end: None,
        mix: vec![(DrawnFailure::Timeout, 1.0)],
    }
}

/// Runs twelve rounds of a world in which only the faults fail.
fn run(world: SimulatedCluster, faults: Vec<DrawnFault>) -> SimulatedTrial {
    let plan = Plan {
        world,
        faults,
        rounds: 12,
        theta0: 0.0,
        stall: 0.0,
    };
    simulate::run(plan, OutputForm::Stream, &mut Rng::from_words(&[1]))
}

/// Returns the regions that no observed cell separates from the first fault.
fn equivalent(world: SimulatedCluster, faults: Vec<DrawnFault>) -> Vec<String> {
    let truth = truth::from_run(&run(world, faults), "by hand", 0);
    truth.faults[0]
        .equivalent
        .iter()
        .map(|(region, members)| [std::slice::from_ref(region), &members[..]].concat().join(" "))
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_does_not() {
    for set in SETS.iter().filter(|set| set.nodes.1 <= 40) {
        let trial = corpus::trial(set, 7, 3);
        assert_eq!(trial, corpus::trial(set, 7, 3), "{}", set.name);
        assert_ne!(trial.lines, corpus::trial(set, 8, 3).lines, "{}", set.name);
    }
}

#[test]
fn through_the_virtual_address_alone_target_and_vip_are_one() {
    let found = equivalent(world(4, &[0, 1], VIP_ONLY), vec![dead(Region::Vip)]);
    assert_eq!(found, ["proto-vip", "target", "vip"]);
}

#[test]
fn a_direct_probe_separates_the_target_from_its_virtual_address() {
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Target)]),
        ["target"]
    );
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Vip)]),
        ["proto-vip", "vip"]
    );
}

#[test]
fn without_mesh_an_endpoint_and_its_node_are_one() {
    let found = equivalent(world(4, &[0, 1], NO_MESH), vec![dead(Region::Backend(0))]);
    assert_eq!(found, ["backend shop-0", "bnode node-00"]);
    let with_mesh = equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Backend(0))]);
    assert_eq!(with_mesh, ["backend shop-0"]);
}

#[test]
fn without_mesh_a_node_with_two_endpoints_is_not_one_of_them() {
    let found = equivalent(world(4, &[0, 0, 1], NO_MESH), vec![dead(Region::Bnode(0))]);
    assert_eq!(found, ["bnode node-00"]);
}

#[test]
fn with_all_endpoints_on_one_node_no_local_cross_and_the_way_into_that_node_are_one() {
    let found = equivalent(world(4, &[2, 2], VIP_ONLY), vec![dead(Region::NoLocal)]);
    assert_eq!(found, ["bnode-remote node-02", "cross", "nolocal"]);
    let mut no_prober_there = world(4, &[2, 2], VIP_ONLY);
    no_prober_there.probers[2] = false;
    let found = equivalent(no_prober_there, vec![dead(Region::NoLocal)]);
    assert_eq!(
        found,
        [
            "bnode node-02",
            "bnode-remote node-02",
            "cross",
            "nolocal",
            "proto-vip",
            "target",
            "vip"
        ]
    );
}

#[test]
fn without_direct_probes_same_node_and_loopback_through_the_balancer_are_one() {
    let found = equivalent(world(5, &[3, 4], NO_DIRECT), vec![dead(Region::Same)]);
    assert_eq!(found, ["same", "same-vip"]);
}

#[test]
fn a_name_fault_on_one_node_is_not_the_node() {
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::DnsClient(3))]),
        ["dns-client node-03"]
    );
    let client = equivalent(world(4, &[0, 1], EVERYTHING), vec![dead(Region::Client(3))]);
    assert_eq!(client, ["client node-03"]);
}

#[test]
fn another_hard_fault_hides_what_it_breaks() {
    // Only the probes that start on its node are left as evidence of the endpoint's own fault.
    let both = vec![dead(Region::Backend(0)), dead(Region::BnodeRemote(0))];
    assert_eq!(
        equivalent(world(4, &[0, 1], EVERYTHING), both),
        ["backend shop-0", "bnode node-00"]
    );
}

#[test]
fn only_paths_in_the_region_fail_where_the_background_is_silent() {
    for set in ["hard-12", "mixed", "dns", "many-hosts", "self-echo"] {
        let set = TrialSet {
            theta0: &[0.0],
            stalls: &[0.0],
            ..*TrialSet::named(set).unwrap()
        };
        for number in 0..20 {
            let mut rng = Rng::from_words(&[5, number]);
            let plan = corpus::draw::plan(&set, usize::try_from(number).unwrap(), &mut rng);
            let run = simulate::run(plan, set.form, &mut rng);
            for shot in run
                .probes
                .iter()
                .filter(|shot| shot.failure.is_some() && shot.path.way != ProbeApproach::Proxied)
            {
                let blamed = run
                    .plan
                    .faults
                    .iter()
                    .any(|f| f.active(shot.round) && f.breaks(&shot.path, &run.plan.world));
                assert!(blamed, "{} trial {number}: {shot:?}", set.name);
            }
        }
    }
}

#[test]
fn a_name_that_does_not_resolve_ends_the_round_of_the_virtual_address() {
    let run = run(world(4, &[0, 1], EVERYTHING), vec![dead(Region::DnsClient(2))]);
    let user: BTreeSet<ProbeClient> = run
        .probes
        .iter()
        .filter(|shot| shot.path.way == ProbeApproach::Vip)
        .map(|shot| shot.path.client)
        .collect();
    assert_eq!(user, [0, 1, 3].map(ProbeClient::Node).into());
}

#[test]
fn every_cause_of_a_set_gets_its_turn() {
    for set in SETS.iter().filter(|set| !set.is_healthy()) {
        let drawn: BTreeSet<_> = (0..10 * set.kinds.len())
            .flat_map(|number| {
                corpus::draw::plan(set, number, &mut Rng::from_words(&[1, number as u64])).faults
            })
            .map(|fault| fault.region.kind())
            .collect();
        let missing: Vec<_> = set.kinds.iter().filter(|kind| !drawn.contains(*kind)).collect();
        assert!(missing.is_empty(), "{} never drew {missing:?}", set.name);
    }
}

#[test]
fn a_fault_met_twice_is_not_observable_and_says_why() {
    let mut fault = dead(Region::ClientVip(1));
    (fault.start, fault.end) = (4, Some(6));
    let truth = truth::from_run(&run(world(4, &[0], VIP_ONLY), vec![fault]), "by hand", 0);
    assert!(!truth.faults[0].observable);
    assert_eq!(
        truth.faults[0].unobservable_because.as_deref(),
        Some("2 failing client-rounds, at least 3 are needed")
    );
}

// ---- the judge ------------------------------------------------------------------------------------------------------

fn region(name: &str, members: &[&str]) -> NamedRegion {
    (name.to_owned(), members.iter().map(ToString::to_string).collect())
}

fn injected(cause: &str, members: &[&str], equivalent: &[NamedRegion]) -> FaultTruth {
    FaultTruth {
        cause: cause.to_owned(),
        members: region(cause, members).1,
        theta1: 1.0,
        start_s: 10.0,
        end_s: None,
        kinds: vec!["timeout".to_owned()],
        probes: 30,
        failures: 30,
        evidence_nats: 99.0,
        observable: true,
        unobservable_because: None,
        equivalent: equivalent.to_vec(),
        subject: None,
    }
}

fn trial(faults: Vec<FaultTruth>) -> TrialTruth {
    TrialTruth {
        healthy: faults.is_empty(),
        faults,
        interval_s: 5.0,
        ..TrialTruth::default()
    }
}

fn judged(truth: &TrialTruth, lines: &[&str]) -> TrialScore {
    let verdicts = score::parse_output(lines.iter().copied()).unwrap();
    score::score(truth, &verdicts.get(&0).cloned().unwrap_or_default())
}

fn verdict(t: f64, name: &str, members: &[&str], class: &[NamedRegion]) -> String {
    serde_json::json!({"type": "verdict", "trial": 0, "t": t, "region": name, "members": members,
        "probability": 0.95, "class": class, "causes": ["F5"], "closed_t": null})
    .to_string()
}

#[test]
fn a_tie_that_holds_the_cause_is_right_by_class_and_not_exact() {
    let tie = [region("target", &[]), region("vip", &[])];
    let truth = trial(vec![injected("vip", &[], &tie)]);
    let score = judged(&truth, &[&verdict(20.0, "target", &[], &tie)]);
    let naming = score.faults[0].naming.clone().unwrap();
    assert!(naming.class_right && !naming.exact);
    assert_eq!(naming.separable_regions, 0);
    assert_eq!(score.faults[0].after_rounds, Some(2.0));
    assert!(score.unmatched.is_empty());
    assert_eq!(score.confidence, [(0.95, true)]);
}

#[test]
fn a_class_with_something_that_could_be_told_apart_is_too_wide() {
    let truth = trial(vec![injected("vip", &[], &[region("vip", &[])])]);
    let wide = [region("target", &[]), region("vip", &[])];
    let score = judged(&truth, &[&verdict(20.0, "vip", &[], &wide)]);
    assert_eq!(score.faults[0].naming.clone().unwrap().separable_regions, 1);
}

#[test]
fn what_counts_is_the_last_word_but_the_time_is_that_of_the_first_right_one() {
    let truth = trial(vec![injected("vip", &[], &[region("vip", &[])])]);
    let wide = [region("target", &[]), region("vip", &[])];
    let lines = [
        verdict(15.0, "target", &[], &wide),
        verdict(30.0, "vip", &[], &[region("vip", &[])]),
    ];
    let score = judged(&truth, &[&lines[0], &lines[1]]);
    assert!(score.faults[0].naming.clone().unwrap().exact);
    assert_eq!(score.faults[0].after_s, Some(5.0));
    assert!(
        score.unmatched.is_empty(),
        "two lines whose classes overlap are one finding"
    );
}

#[test]
fn a_finding_renamed_beyond_its_class_is_still_one_where_it_says_so() {
    let truth = trial(vec![injected("vip", &[], &[region("vip", &[])])]);
    let with_id = |line: String| line.replacen('{', r#"{"id":"abc","#, 1);
    let lines = [
        verdict(15.0, "cross", &[], &[region("cross", &[])]),
        verdict(30.0, "vip", &[], &[region("vip", &[])]),
    ];
    assert_eq!(judged(&truth, &[&lines[0], &lines[1]]).unmatched.len(), 1);
    let lines = lines.map(with_id);
    assert_eq!(judged(&truth, &[&lines[0], &lines[1]]).unmatched.len(), 0);
}

#[test]
fn a_second_finding_beside_the_right_one_is_counted_as_wrong() {
    let truth = trial(vec![injected("client", &["n1"], &[region("client", &["n1"])])]);
    let lines = [
        verdict(20.0, "client", &["n1"], &[region("client", &["n1"])]),
        verdict(25.0, "cross", &[], &[region("cross", &[])]),
    ];
    let score = judged(&truth, &[&lines[0], &lines[1]]);
    assert!(score.all_named());
    assert_eq!(score.unmatched, ["cross [] 0.9500 at 25 s"]);
}

#[test]
fn any_verdict_on_a_healthy_trial_is_a_false_alarm() {
    let mut tally = SetTally::default();
    tally.add(&judged(&trial(vec![]), &[&verdict(20.0, "vip", &[], &[])]));
    tally.add(&judged(
        &trial(vec![]),
        &[r#"{"type":"trial","trial":0,"verdicts":0}"#],
    ));
    assert_eq!((tally.false_alarms.hits, tally.false_alarms.of), (1, 2));
}

#[test]
fn what_the_engine_leans_to_without_a_verdict_counts_as_its_first_guess_only() {
    let truth = trial(vec![injected(
        "pair",
        &["n1", "n2"],
        &[region("pair", &["n1", "n2"])],
    )]);
    let end = r#"{"type":"trial","trial":0,"verdicts":0,"likeliest":[{"region":"client","members":["n1"],
        "probability":0.8,"class":[["client",["n1"]],["pair",["n1","n2"]]]}]}"#;
    let mut tally = SetTally::default();
    tally.add(&judged(&truth, &[&end.replace('\n', "")]));
    let (top, found) = (tally.all.top, tally.all.recalled);
    assert_eq!((top.hits, top.of, found.hits), (1, 1, 0));
    let elsewhere = end.replace("pair", "bnode").replace('\n', "");
    tally.add(&judged(&truth, &[&elsewhere]));
    assert_eq!((tally.all.top.hits, tally.all.top.of), (1, 2));
}

#[test]
fn of_two_faults_each_is_held_against_its_own_finding() {
    let truth = trial(vec![
        injected("nolocal", &[], &[region("nolocal", &[])]),
        injected("backend", &["shop-1"], &[region("backend", &["shop-1"])]),
    ]);
    let one = verdict(20.0, "backend", &["shop-1"], &[region("backend", &["shop-1"])]);
    let two = verdict(25.0, "nolocal", &[], &[region("nolocal", &[])]);
    assert!(judged(&truth, &[&one, &two]).all_named());
    let half = judged(&truth, &[&one]);
    assert!(half.any_named() && !half.all_named());
}

#[test]
fn a_finding_closes_after_its_fault_or_too_early() {
    let mut fault = injected("vip", &[], &[region("vip", &[])]);
    fault.end_s = Some(60.0);
    let truth = trial(vec![fault]);
    let open = verdict(20.0, "vip", &[], &[region("vip", &[])]);
    let closed = |t: f64| {
        open.replace(r#""closed_t":null"#, &format!(r#""closed_t":{t}"#))
            .replace(":20.0", &format!(":{t}"))
    };
    let closing = |lines: &[&str]| judged(&truth, lines).faults[0].closing;
    assert_eq!(closing(&[&open]), Some(FindingClosure::Never));
    assert_eq!(
        closing(&[&open, &closed(95.0)]),
        Some(FindingClosure::After(35.0))
    );
    assert_eq!(closing(&[&open, &closed(40.0)]), Some(FindingClosure::TooEarly));
}

#[test]
fn what_nobody_could_see_is_counted_apart() {
    let mut fault = injected("pair", &["n1", "n2"], &[]);
    fault.observable = false;
    let mut tally = SetTally::default();
    tally.add(&judged(&trial(vec![fault]), &[]));
    assert_eq!((tally.all.observable, tally.all.unobservable.of), (0, 1));
    assert_eq!(tally.all.recalled.of, 0);
}

#[test]
fn calibration_error_is_the_weighted_gap_of_the_bins() {
    let findings = [
        (0.95, true),
        (0.95, true),
        (0.95, true),
        (0.95, false),
        (0.55, true),
    ];
    let error = tally::calibration_error(&tally::bins(&findings, 0.0, 10)).unwrap();
    assert!((error - (4.0 * 0.2 + 0.45) / 5.0).abs() < 1e-12, "{error}");
    assert_eq!(tally::quantile(&[3.0, 1.0, 2.0, 4.0], 0.5), Some(2.0));
    assert_eq!(tally::quantile(&[3.0, 1.0, 2.0, 4.0], 0.9), Some(4.0));
}

#[test]
fn tables_replace_what_stands_between_their_markers() {
    let page = "a\n<!-- corpus:x -->\nold\n<!-- /corpus:x -->\nb";
    let page = report::splice(page, "x", "new\n").unwrap();
    assert_eq!(page, "a\n<!-- corpus:x -->\nnew\n<!-- /corpus:x -->\nb");
    assert!(report::splice(&page, "y", "").is_err());
}

// ---- the engine -----------------------------------------------------------------------------------------------------

fn replay(lines: &[String]) -> Vec<String> {
    run_recording(&mut Replay::default(), lines)
}

fn tally_of(set: &str, trials: usize) -> SetTally {
    report::run(TrialSet::named(set).unwrap(), 1, trials, &|| {
        Box::<Replay>::default()
    })
    .unwrap()
    .tally
}

#[test]
fn the_engine_reads_every_line_of_every_form() {
    for set in SETS.iter().filter(|set| set.nodes.1 <= 12) {
        let trial = corpus::trial(set, 1, 1);
        let said = replay(&trial.lines);
        let refused: Vec<&String> = said
            .iter()
            .filter(|line| line.contains(r#""type":"malformed""#))
            .collect();
        assert!(refused.is_empty(), "{}: {refused:?}", set.name);
    }
}

#[test]
fn hard_faults_are_named_right_and_nothing_else_is() {
    let tally = tally_of("hard-12", 22);
    let right = tally.all.class_right.get().unwrap();
    let found = tally.all.recalled.get().unwrap();
    assert!(right >= 0.95 && found >= 0.85, "{:?}", tally.all);
    assert!(tally.wrong_second.hits <= 1, "{:?}", tally.wrong_second);
}

#[test]
fn asking_finds_pairs_that_the_schedule_alone_hardly_meets_and_costs_a_tenth_at_most() {
    let set = TrialSet {
        kinds: &[RegionShape::Pair],
        ..*TrialSet::named("wide-30-ask").unwrap()
    };
    let found = |set: &TrialSet| {
        let done = report::run(set, 1, 6, &|| Box::<Replay>::default()).unwrap();
        let all = &done.tally.all;
        (all.recalled.hits + all.unobservable.hits, done)
    };
    let (with, done) = found(&set);
    let (without, _) = found(&TrialSet {
        closed_loop: false,
        ..set
    });
    assert!(
        with > without && with >= 5,
        "{with} found with asking, {without} without"
    );
    for (truth, _) in &done.trials {
        let base = truth.observations - truth.requested_probes;
        assert!(
            truth.requested_probes > 0 && truth.requested_probes * 10 <= base,
            "{} beside {base}",
            truth.requested_probes
        );
    }
}

#[test]
fn the_schedule_is_the_same_whether_asks_are_answered_or_not() {
    let set = TrialSet::named("wide-30-ask").unwrap();
    let (truth, _) = corpus::closed_loop_trial(set, 1, 3, &mut Replay::default());
    let alone = corpus::trial(set, 1, 3).truth;
    assert!(truth.requested_probes > 0);
    assert_eq!(truth.observations - truth.requested_probes, alone.observations);
    assert_eq!(truth.faults[0].cause, alone.faults[0].cause);
}

#[test]
fn a_quiet_cluster_gets_no_verdict() {
    let tally = tally_of("healthy-quiet", 8);
    assert_eq!((tally.false_alarms.hits, tally.false_alarms.of), (0, 8));
}
