//! Faults that lose a few percent of the requests, and faults that come and go.

use super::*;
use crate::splitmix::SplitMix;

const QUIET_ROUNDS: i64 = 60;

/// Reports whether a probe that is lost at this rate is lost. The seed selects other losses.
fn is_lost(probe: &Probe, seed: u64, rate: f64) -> bool {
    let seed = probe.at_us.unsigned_abs() ^ u64::from(probe.channel == "vip") << 60 ^ seed << 50;
    SplitMix::new(seed).happens(rate)
}

/// Rounds in which requests for a host fail at a rate. All others fail at one in a thousand.
fn partial_loss(
    mesh: &mut SimulatedMesh,
    rounds: std::ops::Range<i64>,
    host: &str,
    rate: f64,
) -> Option<View> {
    let mut view = None;
    for round in rounds {
        let fault = |probe: &Probe| {
            let rate = if probe.target == host { rate } else { 0.001 };
            is_lost(probe, 0, rate).then_some(("check", "status"))
        };
        view = Some(mesh.round(round, &fault));
    }
    view
}

/// Without the past of the other subjects, a loss of four percent is not told from a noisy subject.
#[test]
fn an_application_that_fails_a_few_percent_of_its_requests_is_named_in_a_mesh_that_is_quiet_otherwise() {
    let host = "http://h0.example.test/";
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 2, 3], 4, "Cluster"));
    let view = partial_loss(&mut mesh, 0..QUIET_ROUNDS, host, 0.001).unwrap();
    assert_eq!(view.incidents, []);
    let view = partial_loss(&mut mesh, QUIET_ROUNDS..QUIET_ROUNDS + 60, host, 0.05).unwrap();
    let incident = only_incident(&view);
    assert_eq!(incident.verdict.region.to_string(), "target");
    assert_eq!(incident.verdict.targets, [host.parse().unwrap()]);
}

/// 20 s on, 40 s off: one incident with a count and its duty cycle.
#[test]
fn a_fault_that_comes_and_goes_is_one_incident_with_a_count_and_the_share_of_the_time_in_which_it_fails() {
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 2, 3], 4, "Cluster"));
    let host = "http://h0.example.test/";
    let mut view = None;
    for round in 0..100 {
        let on = round >= 8 && (round - 8) % 12 < 4;
        let fault = |probe: &Probe| (on && probe.target == host).then_some(("check", "status"));
        view = Some(mesh.round(round, &fault));
    }
    let view = view.unwrap();
    let incident = only_incident(&view);
    assert!(incident.occurrences >= 6, "{}", incident.occurrences);
    let share = incident.duty_cycle.unwrap().get();
    assert!((0.3..0.45).contains(&share), "{share}");
}

#[test]
fn a_few_failures_in_two_rounds_are_no_lasting_loss() {
    let host = "http://h0.example.test/";
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 2, 3], 4, "Cluster"));
    partial_loss(&mut mesh, 0..QUIET_ROUNDS, host, 0.001);
    let few = |probe: &Probe| {
        (probe.target == host && probe.channel == "vip" && probe.client == "n1")
            .then_some(("check", "status"))
    };
    mesh.round(QUIET_ROUNDS, &few);
    mesh.round(QUIET_ROUNDS + 1, &few);
    let view = partial_loss(&mut mesh, QUIET_ROUNDS + 2..QUIET_ROUNDS + 40, host, 0.001).unwrap();
    assert_eq!(view.incidents, []);
}

/// Reports whether a subject waits to be named until its few failures have lasted.
fn waits_to_last(view: &View) -> bool {
    let mut sentences = view.investigations.iter().map(|i| &i.sentence);
    sentences.any(|sentence| sentence.ends_with("it is named if this lasts"))
}

/// The address of the host loses 10 % of the connections, and the endpoints behind it answer.
#[test]
fn an_address_that_fails_seldom_is_named_once_that_has_lasted() {
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 2, 3], 1, "Cluster"));
    let mut waited = Vec::new();
    let mut named = None;
    for round in 0..QUIET_ROUNDS + 60 {
        let fault = |probe: &Probe| {
            let is_faulty = round >= QUIET_ROUNDS && probe.front.as_deref() == Some("203.0.113.10:80");
            let rate = if is_faulty { 0.1 } else { 0.001 };
            is_lost(probe, 4, rate).then_some(("connect", "timeout"))
        };
        let view = mesh.round(round, &fault);
        if waits_to_last(&view) {
            waited.push(round);
        }
        if let Some(incident) = view.incidents.first() {
            named = Some((round, incident.verdict.region.to_string()));
            break;
        }
    }
    let (round, region) = named.unwrap();
    assert_eq!(region, "vip");
    assert!(waited.len() >= 6, "{waited:?}, named in round {round}");
}

/// The address of a host fails at different rates. With the same evidence, another cause is as likely as one in ten.
#[test]
fn a_finding_that_is_uncertain_is_named_once_a_further_round_confirms_it() {
    let mut waited_before_naming = Vec::new();
    for seed in 0..12 {
        let mut mesh = SimulatedMesh::new(cluster(6, &[1, 2, 3], 1, "Cluster"));
        let mut waited = false;
        for round in 0..40 {
            let fault = |probe: &Probe| {
                let is_faulty = round >= 20 && probe.front.as_deref() == Some("203.0.113.10:80");
                let rate = if is_faulty { 0.45 } else { 0.001 };
                is_lost(probe, seed, rate).then_some(("connect", "timeout"))
            };
            let view = mesh.round(round, &fault);
            if let Some(incident) = view.incidents.first() {
                let is_certain = incident.verdict.probability.get() >= 0.99;
                assert!(waited || is_certain, "seed {seed}, round {round}: {incident:?}");
                waited_before_naming.push(waited);
                break;
            }
            waited = waits_to_last(&view);
        }
    }
    assert!(waited_before_naming.contains(&true) && waited_before_naming.contains(&false));
}

/// Two of three ingress Pods fail 15 % of the requests for a host. Connections on a node are named together with the target, and later
/// the target comes first.
#[test]
fn a_seldom_fault_of_an_open_incident_does_not_wait_to_be_named() {
    let host = "http://h3.example.test/";
    let mut mesh = SimulatedMesh::new(cluster(6, &[1, 2, 3], 4, "Cluster"));
    let mut waited_with_incident = Vec::new();
    for round in 0..QUIET_ROUNDS + 20 {
        let fault = |probe: &Probe| {
            let is_broken = matches!(probe.entry.as_deref(), Some("ingress-1" | "ingress-2"));
            let is_faulty = round >= QUIET_ROUNDS && probe.target == host && is_broken;
            let rate = if is_faulty { 0.15 } else { 0.001 };
            is_lost(probe, 4, rate).then_some(("check", "status"))
        };
        let view = mesh.round(round, &fault);
        if waits_to_last(&view) && !view.incidents.is_empty() {
            waited_with_incident.push(round);
        }
    }
    assert_eq!(waited_with_incident, Vec::<i64>::new());
}
