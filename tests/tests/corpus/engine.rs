//! Trials with this build's engine.

use super::*;

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
        let output = replay(&trial.lines);
        let refused: Vec<&String> = output
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

/// A balancer of twelve nodes that kept sending connections to the failing one would lose one in twelve of every client.
#[test]
fn a_failing_node_is_named_where_balancers_avoid_it() {
    for (set, number) in [("vip-only", 37), ("many-fronts", 11)] {
        let trial = corpus::trial(TrialSet::named(set).unwrap(), 1, number);
        let output = replay(&trial.lines);
        let outputs = score::parse_output(output.iter().map(String::as_str)).unwrap();
        let score = score::score(&trial.truth, outputs.values().next().unwrap());
        assert!(score.all_named() && score.unmatched.is_empty(), "{score:#?}");
    }
}
