//! `whole`: trials of whole clusters with this build's engine, and what became of each fault.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;
use parallax_diagnosis::replay::Replay;
use parallax_lab::corpus::{
    closed_loop::run_recording,
    whole_cluster::{
        answered_trial,
        score::{TrialScore, score},
        sets::{WHOLE_SETS, WholeSet},
        summary::SetSummary,
        trial,
    },
};

#[derive(Args)]
pub(crate) struct WholeArgs {
    /// Run only these sets
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of the first trial
    #[arg(long, default_value_t = 0)]
    first: usize,
    /// Maximum number of trials per set
    #[arg(long)]
    trials: Option<usize>,
    /// Make the probes that the engine requests
    #[arg(long)]
    requests: bool,
    /// List the incidents of every trial with a missed fault or an incident that names none
    #[arg(long)]
    misses: bool,
    /// Write the recordings of these trials to this folder, for `parallax replay`
    #[arg(long, requires = "misses")]
    recordings: Option<PathBuf>,
}

pub(crate) fn judge_whole_clusters(args: &WholeArgs) -> anyhow::Result<()> {
    let sets: Vec<&WholeSet> = if args.sets.is_empty() {
        WHOLE_SETS.iter().collect()
    } else {
        args.sets
            .iter()
            .map(|name| named(name))
            .collect::<Result<_, _>>()?
    };
    if let Some(folder) = &args.recordings {
        // Now: the first recording may be due after minutes.
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let mut out = io::stdout().lock();
    for set in sets {
        let mut summary = SetSummary::default();
        let count = args.trials.unwrap_or(set.trials);
        for number in (args.first..set.trials).take(count) {
            let mut reader = Replay::default();
            let (trial, output) = if args.requests {
                answered_trial(set, args.seed, number, &mut reader)
            } else {
                let trial = trial(set, args.seed, number);
                let output = run_recording(&mut reader, &trial.lines);
                (trial, output)
            };
            let result = score(&trial, &output);
            summary.add(&result);
            if args.misses && is_missed(&result) {
                write_misses(&mut out, number, &result).context("writing a trial")?;
                if let Some(folder) = &args.recordings {
                    let file = folder.join(format!("{}-{number}.ndjson", set.name));
                    fs::write(&file, trial.lines.join("\n") + "\n")
                        .with_context(|| format!("writing {}", file.display()))?;
                }
            }
        }
        write!(out, "{}: {summary}", set.name).context("writing the sums of a set")?;
    }
    Ok(())
}

fn is_missed(score: &TrialScore) -> bool {
    score
        .faults
        .iter()
        .any(|fault| fault.is_observable() && fault.named_after.is_none())
        || score.foreign().next().is_some()
}

fn write_misses(out: &mut impl io::Write, number: usize, score: &TrialScore) -> io::Result<()> {
    writeln!(out, "trial {number}")?;
    for fault in &score.faults {
        match fault.named_after {
            Some(after) => writeln!(out, "  fault {} named after {after:.0} s", fault.description)?,
            None => writeln!(
                out,
                "  fault {} not named; {} failures were reported",
                fault.description, fault.failures
            )?,
        }
    }
    for incident in &score.incidents {
        let kind = if incident.fault.is_some() {
            "right"
        } else {
            "foreign"
        };
        writeln!(
            out,
            "  {kind:7} at {:.0} s: {}, probability {:.4}",
            incident.first, incident.description, incident.probability
        )?;
    }
    Ok(())
}

fn named(name: &str) -> anyhow::Result<&'static WholeSet> {
    WholeSet::named(name).with_context(|| {
        let known: Vec<&str> = WHOLE_SETS.iter().map(|set| set.name).collect();
        format!("unknown set {name:?}; expected one of {}", known.join(", "))
    })
}
