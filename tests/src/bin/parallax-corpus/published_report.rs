//! `report`: the sets with this build's engine, and the tables and plots of a page.

use std::{fs, path::PathBuf, time::Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use parallax_diagnosis::replay::Replay;
use parallax_lab::corpus::{
    plot, report,
    sets::{SETS, TrialSet},
};

use crate::named;

#[derive(Args)]
pub(crate) struct Report {
    /// Page that contains the markers
    #[arg(long, default_value = "docs/reference/diagnosis.md")]
    out: PathBuf,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only a few trials of each set
    #[arg(long)]
    quick: bool,
    /// Maximum number of trials per set
    #[arg(long)]
    trials: Option<usize>,
    /// Run only these sets; print the tables and do not change the page
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Do not make requested probes in the sets that usually make them
    #[arg(long)]
    unasked: bool,
    /// Write one line per missed or wrongly named fault to this file
    #[arg(long)]
    misses: Option<PathBuf>,
}

pub(crate) fn measure(args: &Report) -> anyhow::Result<()> {
    let sets: Vec<&'static TrialSet> = if args.sets.is_empty() {
        SETS.iter().collect()
    } else {
        args.sets
            .iter()
            .map(|name| named(name))
            .collect::<Result<_, _>>()?
    };
    let mut done = Vec::new();
    for set in sets {
        let most = if args.quick {
            set.kinds.len().max(12)
        } else {
            usize::MAX
        };
        let trials = set.trials.min(most).min(args.trials.unwrap_or(usize::MAX));
        let begun = Instant::now();
        let set = TrialSet {
            closed_loop: set.closed_loop && !args.unasked,
            ..*set
        };
        let result = report::run(&set, args.seed, trials, &|| Box::<Replay>::default())?;
        let recalled = &result.tally.all.recalled;
        let (all, unseen) = (&result.tally.all, &result.tally.all.unobservable);
        let requests: usize = result
            .trials
            .iter()
            .map(|(truth, _)| truth.requested_probes)
            .sum();
        let probes: usize = result.trials.iter().map(|(truth, _)| truth.observations).sum();
        eprintln!(
            "{:<16} {trials:>4} trials in {:>6.1} s  right {}/{}  top {}/{}  of all injected {}/{}  both {}/{}  requested {requests} of \
             {probes}  false alarms {}/{}  wrong second {}/{}",
            set.name,
            begun.elapsed().as_secs_f64(),
            recalled.hits,
            recalled.of,
            all.top.hits,
            all.top.of,
            recalled.hits + unseen.hits,
            all.observable + unseen.of,
            result.tally.both_named.hits,
            result.tally.both_named.of,
            result.tally.false_alarms.hits,
            result.tally.false_alarms.of,
            result.tally.wrong_second.hits,
            result.tally.wrong_second.of,
        );
        done.push(result);
        if let Some(path) = &args.misses {
            fs::write(path, report::misses(&done, args.seed))
                .with_context(|| format!("writing {}", path.display()))?;
        }
    }
    if !args.sets.is_empty() {
        println!(
            "{}\n{}\n{}",
            report::overview(&done),
            report::false_alarms(&done),
            report::causes(&done)
        );
        return Ok(());
    }
    publish(args, &done)
}

fn publish(args: &Report, done: &[report::FinishedSet]) -> anyhow::Result<()> {
    let mut page =
        fs::read_to_string(&args.out).with_context(|| format!("reading {}", args.out.display()))?;
    let Some(folder) = args.out.parent() else {
        bail!(
            "cannot place the plots: {} has no parent directory",
            args.out.display()
        );
    };
    let trials: usize = done.iter().map(|done| done.trials.len()).sum();
    let run = format!(
        "Seed {}, {trials} trials{}.",
        args.seed,
        if args.quick {
            ", a quick run with too few trials for conclusions"
        } else {
            ""
        }
    );
    let parts = [
        ("run", run),
        ("sets", report::sets(done)),
        ("overview", report::overview(done)),
        ("false-alarms", report::false_alarms(done)),
        ("two-faults", report::two_faults(done)),
        ("recovery", report::recovery(done)),
        ("reliability", report::reliability(done)),
        ("causes", report::causes(done)),
    ];
    for (name, content) in &parts {
        page = report::splice(&page, name, content)?;
    }
    let images = folder.join("images");
    fs::create_dir_all(&images).with_context(|| format!("creating {}", images.display()))?;
    for (name, svg) in [
        ("diagnosis-reliability.svg", plot::reliability(done)),
        ("diagnosis-time.svg", plot::time_to_naming(done)),
    ] {
        let path = images.join(name);
        fs::write(&path, svg).with_context(|| format!("writing {}", path.display()))?;
    }
    fs::write(&args.out, page).with_context(|| format!("writing {}", args.out.display()))
}
