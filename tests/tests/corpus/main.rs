//! The fault corpus: reproducible, consistent with its truth, and scored fairly.
#![expect(clippy::unwrap_used, reason = "helpers of tests panic where tests do")]

mod engine;
mod equivalence;
mod scores;
mod whole_trials;

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

#[test]
fn tables_replace_what_stands_between_their_markers() {
    let page = "a\n<!-- corpus:x -->\nold\n<!-- /corpus:x -->\nb";
    let page = report::splice(page, "x", "new\n").unwrap();
    assert_eq!(page, "a\n<!-- corpus:x -->\nnew\n<!-- /corpus:x -->\nb");
    assert!(report::splice(&page, "y", "").is_err());
}

// ---- the engine -----------------------------------------------------------------------------------------------------
