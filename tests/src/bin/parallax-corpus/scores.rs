//! `score`: verdict lines against the truth.

use std::{
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

use anyhow::Context as _;
use clap::Args;
use parallax_lab::corpus::{
    self,
    score::{self, TrialOutput, TrialScore},
    tally::SetTally,
    truth::TruthFile,
};

#[derive(Args)]
pub(crate) struct ScoreArgs {
    /// Truth file of the recording
    #[arg(long)]
    truth: PathBuf,
    /// Treat the verdicts as those of this trial, whatever their number (mesh recordings have none)
    #[arg(long)]
    trial: Option<usize>,
}

pub(crate) fn judge(args: &ScoreArgs) -> anyhow::Result<()> {
    let text =
        fs::read_to_string(&args.truth).with_context(|| format!("reading {}", args.truth.display()))?;
    let truth: TruthFile = serde_json::from_str(&text)
        .with_context(|| format!("reading the truth in {}", args.truth.display()))?;
    let mut verdict_lines = String::new();
    io::stdin()
        .read_to_string(&mut verdict_lines)
        .context("reading verdict lines from standard input")?;
    let mut verdicts =
        score::parse_output(verdict_lines.lines()).context("reading verdict lines from standard input")?;
    if let Some(number) = args.trial {
        let mut all = TrialOutput::default();
        for output in std::mem::take(&mut verdicts).into_values() {
            all.verdicts.extend(output.verdicts);
            all.likeliest.extend(output.likeliest);
        }
        verdicts.insert(number, all);
    }
    let wanted = |number: usize| args.trial.is_none_or(|only| only == number);
    let mut tally = SetTally::default();
    for trial in truth.trials.iter().filter(|trial| wanted(trial.trial)) {
        let output = verdicts.get(&trial.trial).cloned().unwrap_or_default();
        let score = score::score(trial, &output);
        print_trial(trial.faults.len(), &score);
        tally.add(&score);
    }
    print_tally(&tally);
    Ok(())
}

fn print_trial(faults: usize, score: &TrialScore) {
    for fault in &score.faults {
        let naming = match &fault.naming {
            None if fault.likeliest => "missed, but the likeliest candidate".to_owned(),
            None if fault.observable => "missed".to_owned(),
            None => "not named, and not observable".to_owned(),
            Some(n) if n.class_right && n.separable_regions > 0 => {
                format!("right, class too wide by {}", n.separable_regions)
            }
            Some(n) if n.class_right => if n.exact { "right" } else { "right, by class" }.to_owned(),
            Some(n) => format!("wrong: {} {:?}", n.region.0, n.region.1),
        };
        let after = fault
            .after_s
            .map_or_else(String::new, |s| format!(", after {s:.1} s"));
        println!("trial {}: {}: {naming}{after}", score.trial, fault.cause);
    }
    for wrong in &score.unmatched {
        let alarm = if faults == 0 {
            "false alarm"
        } else {
            "matches no fault"
        };
        println!("trial {}: {alarm}: {wrong}", score.trial);
    }
}

fn print_tally(tally: &SetTally) {
    let share = |share: corpus::tally::CountedShare| format!("{}/{}", share.hits, share.of);
    println!(
        "observable faults: {} ({} more were not observable)",
        tally.all.observable, tally.all.unobservable.of
    );
    println!(
        "named {} · class right {} (of all observable {}; top-1 {}) · exact {} · class too wide {}",
        share(tally.all.named),
        share(tally.all.class_right),
        share(tally.all.recalled),
        share(tally.all.top),
        share(tally.all.exact),
        share(tally.all.over_wide)
    );
    println!(
        "false alarms {} · trials with a superfluous finding {} · both of two named {}",
        share(tally.false_alarms),
        share(tally.wrong_second),
        share(tally.both_named)
    );
    if let Some(error) = tally.calibration_error() {
        println!(
            "expected calibration error {error:.3} over {} findings",
            tally.confidence.len()
        );
    }
}
