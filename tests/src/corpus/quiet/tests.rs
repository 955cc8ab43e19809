use super::*;

fn small() -> QuietOptions {
    QuietOptions {
        nodes: 5,
        endpoints: 2,
        warm_up_rounds: 6,
        judged_above: 0.0,
        ..QuietOptions::default()
    }
}

/// Without an engine: weights turn the tilted law back into the true one.
#[test]
fn weighted_stretches_have_the_failures_of_the_true_law() {
    for stalls in [0.0, 0.02] {
        let quiet = QuietOptions {
            background: 0.03,
            stalls,
            ..small()
        };
        let mesh = QuietMesh::new(quiet.nodes, quiet.endpoints, quiet.target_count);
        let law = QuietLaw::new(&quiet, &mesh);
        let (mut weights, mut failures, mut probes, mut clusters, mut plain) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let n = 12_000_u64;
        for number in 0..n {
            let mut rng = Rng::from_words(&[7, number]);
            let drawn = law.draw(&mut rng);
            let weight = law.weight(&drawn);
            assert!(
                weight <= 1.0 / UNTILTED_SHARE + 1e-9,
                "the plain share bounds every weight"
            );
            weights += weight;
            let counted = &drawn.rounds[quiet.warm_up_rounds..];
            let failed = |client: usize| {
                let of_client = counted.iter().take(4).flatten().filter(|s| s.client == client);
                of_client.filter(|s| s.failed).count() >= 4
            };
            clusters += weight * float(u64::from(failed(0)));
            plain += float(u64::from(!drawn.tilted));
            for shot in counted.iter().flatten() {
                probes += weight;
                failures += weight * float(u64::from(shot.failed));
            }
        }
        let n = float(n);
        assert!((weights / n - 1.0).abs() < 0.15, "mean weight {}", weights / n);
        assert!((plain / n - UNTILTED_SHARE).abs() < 0.04);
        let base = quiet.background;
        let truth = base + stalls * (1.0 - (1.0 - 0.7) * (1.0 - base) - base);
        assert!(
            (failures / probes / truth - 1.0).abs() < 0.1,
            "{} for {truth}",
            failures / probes
        );
        if stalls == 0.0 {
            // At least 4 of a client's 16 probes: 1 − Σ C(16,k)·.03^k·.97^(16−k), k ≤ 3.
            let at_least_four = 0.001_107;
            let share = clusters / n;
            assert!(
                (share / at_least_four - 1.0).abs() < 0.5,
                "{share} for {at_least_four}"
            );
        }
    }
}

/// Where false alarms are frequent enough for direct counting, the estimate agrees with the count.
#[test]
fn the_estimate_agrees_with_counting_where_counting_is_possible() {
    let loud = QuietOptions {
        background: 0.2,
        stretches: 150,
        ..small()
    };
    let counted = run(
        &QuietOptions {
            untilted_share: 1.0,
            ..loud
        },
        |_| {},
    );
    let estimated = run(&loud, |_| {});
    assert!(counted.opened_plain >= 5, "too few to compare: {counted:?}");
    let error = counted.own.error.hypot(estimated.own.error);
    let apart = (counted.own.mean - estimated.own.mean).abs();
    assert!(
        apart < 4.0 * error,
        "counted {} ± {}, estimated {} ± {}",
        counted.own.mean,
        counted.own.error,
        estimated.own.mean,
        estimated.own.error
    );
}

/// A few of the stretches that the command runs by the thousand: enough to show that tilted stretches trigger the
/// engine, that each of them is very unlikely, and that no other stretch does.
#[test]
fn alarms_of_a_healthy_mesh_are_found_where_they_are_rare() {
    let found = run(
        &QuietOptions {
            background: 0.002,
            stretches: 50,
            ..small()
        },
        |_| {},
    );
    assert_eq!(found.opened_plain, 0);
    assert!(found.opened_tilted > 5, "{found:?}");
    assert!(found.own.mean < 1e-6, "{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let quiet = QuietOptions {
        stretches: 6,
        ..small()
    };
    assert_eq!(run(&quiet, |_| {}), run(&quiet, |_| {}));
}

/// What is not judged is counted as the worst case.
#[test]
fn leaving_out_unlikely_stretches_never_lowers_the_estimate() {
    let all = QuietOptions {
        background: 0.002,
        stretches: 50,
        ..small()
    };
    let (judged, hastened) = (
        run(&all, |_| {}),
        run(
            &QuietOptions {
                judged_above: 1e-9,
                ..all
            },
            |_| {},
        ),
    );
    assert!(hastened.unjudged > 5 && hastened.judged_rounds < judged.judged_rounds);
    assert!(hastened.own.mean >= judged.own.mean);
    assert!(hastened.own.mean - judged.own.mean < 1e-9 * UNJUDGED_OPENINGS / float(COUNTED_ROUNDS as u64));
}
