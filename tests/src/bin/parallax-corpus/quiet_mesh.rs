//! `quiet`: the expected false alarms of a healthy mesh.

use std::{collections::BTreeMap, time::Instant};

use anyhow::bail;
use clap::Args;
use parallax_lab::corpus::quiet::{self, QuietOptions};

#[derive(Args)]
pub(crate) struct QuietArgs {
    /// Days of five-second rounds
    #[arg(long, default_value_t = 30.0)]
    days: f64,
    /// Targets, each with its own front, endpoints and mesh
    #[arg(long, default_value_t = 2000.0)]
    targets: f64,
    /// Nodes, each with a prober
    #[arg(long, default_value_t = 12)]
    nodes: usize,
    /// Probability that a probe fails without a fault
    #[arg(long, default_value_t = 0.01)]
    background: f64,
    /// Probability that a client stalls in a round
    #[arg(long, default_value_t = 0.0)]
    stalls: f64,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first stretch
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// Number of stretches to draw and judge
    #[arg(long, default_value_t = 2000)]
    stretches: usize,
}

/// Prints the parameters, the effort, and the expected number of false alarms.
pub(crate) fn quiet(args: &QuietArgs) -> anyhow::Result<()> {
    if !(args.background > 0.0 && args.background < 1.0 && (0.0..1.0).contains(&args.stalls)) {
        bail!("expected --background above 0 and below 1, and --stalls from 0 to below 1");
    }
    if !(3..=200).contains(&args.nodes) || args.stretches < 1 {
        bail!("expected --nodes from 3 to 200, and --stretches of at least 1");
    }
    let quiet = QuietOptions {
        nodes: args.nodes,
        background: args.background,
        stalls: args.stalls,
        seed: args.seed,
        first: args.first,
        stretches: args.stretches,
        target_count: whole(args.targets),
        ..QuietOptions::default()
    };
    let begun = Instant::now();
    let mut last_printed = Instant::now();
    let found = quiet::run(&quiet, |done| {
        if last_printed.elapsed().as_secs() >= 10 {
            last_printed = Instant::now();
            eprintln!("{done} of {} stretches", args.stretches);
        }
    });
    let (expected, at_most) = found.expected(args.targets, quiet::rounds_in(args.days));
    println!(
        "background {} %, stalls {} %, {} nodes, seed {}: {} stretches of {} rounds ({} too unlikely to be judged, counted as alarms), {} rounds judged, {} observations, {:.1} minutes",
        args.background * 100.0,
        args.stalls * 100.0,
        args.nodes,
        args.seed,
        found.stretches,
        quiet.warm_up_rounds + quiet::COUNTED_ROUNDS,
        found.unjudged,
        found.judged_rounds,
        found.observations,
        begun.elapsed().as_secs_f64() / 60.0
    );
    println!(
        "openings: {} in tilted stretches, {} in {} untilted counted rounds; mean weight {:.3}",
        found.opened_tilted, found.opened_plain, found.plain_rounds, found.mean_weight
    );
    let rounds = quiet::rounds_in(args.days);
    let mut by_region = BTreeMap::<(&str, bool), (usize, f64)>::new();
    for opening in &found.openings {
        let sum = by_region
            .entry((opening.region.as_str(), opening.shared))
            .or_default();
        sum.0 += 1;
        sum.1 += found.contribution(opening, args.targets, rounds);
    }
    for ((region, _), (times, sum)) in &by_region {
        println!("  {region:<28} {times:>6} stretches {sum:.4}");
    }
    for opening in found.openings.iter().take(5) {
        println!(
            "  stretch {}: {}, {:.4} of the sum",
            opening.stretch,
            opening.region,
            found.contribution(opening, args.targets, rounds)
        );
    }
    println!(
        "expected false alarms in {} days of {} targets: {expected:.4} (95 %: below {at_most:.4})",
        args.days, args.targets
    );
    Ok(())
}

/// Converts a number of targets to the mesh's type, at least one and at most the mesh's limit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 1 and 100 000"
)]
fn whole(targets: f64) -> usize {
    targets.clamp(1.0, 100_000.0) as usize
}
